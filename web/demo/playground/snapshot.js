// The memory of a Python that has imported the compiler, as tools/pyodide_snapshot.mjs writes it and the compiler's
// worker reads it.

/** Both sides take out of a snapshot, and put into it, what the data segments of Pyodide's module hold. */
export const without = {
  /**
   * Settings of Pyodide's module that show its memory before anything has run.
   * @param {any} settings
   * @param {(memory: Uint8Array) => void} seen
   */
  watched(settings, seen) {
    const { instantiateWasm } = settings;
    const show = (/** @type {any} */ instance, /** @type {any} */ imports) => {
      const memory = new Uint8Array((instance.exports.memory ?? imports.env.memory).buffer);
      let end = memory.length;
      while (end && !memory[end - 1]) end--;
      seen(memory.slice(0, end));
    };
    return Object.assign(settings, {
      instantiateWasm: (/** @type {any} */ imports, /** @type {any} */ done) =>
        instantiateWasm(imports, (/** @type {any} */ instance, /** @type {any} */ module) => {
          show(instance, imports);
          done(instance, module);
        }),
    });
  },

  /** @param {Uint8Array} snapshot @param {Uint8Array} segments */
  segments(snapshot, segments) {
    // Its header says where memory begins in it.
    const at = new DataView(snapshot.buffer, snapshot.byteOffset).getUint32(4, true);
    for (let i = 0; i < segments.length; i++) snapshot[at + i] ^= segments[i];
  },
};

/**
 * Options of Pyodide that start it from a snapshot. Its module begins while the file comes.
 * @param {Promise<Uint8Array>} file
 * @param {number} length of the memory in it
 * @param {string} folder of Pyodide
 */
export function startFrom(file, length, folder) {
  const snapshot = new Uint8Array(length);
  return {
    _loadSnapshot: snapshot,
    createPyodideModule: async (/** @type {object} */ settings) => {
      const { default: create } = await import(`${folder}pyodide.asm.mjs`);
      /** @type {Uint8Array} */
      let segments = new Uint8Array();
      const made = await create(without.watched(settings, (memory) => (segments = memory)));
      const packed = await file;
      const from = made._malloc(packed.length);
      const to = made._malloc(length);
      made.HEAPU8.set(packed, from);
      if (made._ZSTD_decompress(to, length, from, packed.length) !== length) {
        throw new Error('the snapshot of Python is damaged');
      }
      snapshot.set(made.HEAPU8.subarray(to, to + length));
      without.segments(snapshot, segments);
      // Behind what the snapshot fills, memory must be as it is at first.
      made.HEAPU8.fill(0, length);
      return made;
    },
  };
}
