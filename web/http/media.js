// Media types: what a body is, and which form of an answer a client would rather have.

/**
 * A media type without its parameters, in lower case, and the parameters.
 * @param {string} text such as `multipart/form-data; boundary="x"`
 */
export function mediaType(text) {
  const [type, ...rest] = text.match(/(?:[^;"]|"(?:[^"\\]|\\.)*")+/g) ?? [''];
  const parameters = new Map(
    rest.map((parameter) => {
      const [, name = '', value = ''] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(parameter) ?? [];
      return [name.toLowerCase(), value.replace(/^"([\s\S]*)"$/, '$1').replace(/\\(.)/g, '$1')];
    }),
  );
  return { type: type.trim().toLowerCase(), parameters };
}

/**
 * How much a client wants an answer of some type: from 0, not at all, to 1.
 * @param {string} accept the header
 * @param {string} type
 */
export function quality(accept, type) {
  const [main] = type.split('/');
  let found = [-1, 0];
  for (const part of accept.split(',')) {
    const range = mediaType(part);
    const level = ['*/*', `${main}/*`, type].indexOf(range.type);
    const q = Number(range.parameters.get('q') ?? 1);
    // What names the type most closely counts.
    if (level > found[0]) found = [level, Number.isNaN(q) ? 1 : q];
  }
  return found[1];
}

/**
 * The type that a client wants most, of equals the first; undefined if it wants none of them.
 * @param {string | null} accept
 * @param {string[]} types
 */
export function preferred(accept, types) {
  if (!accept?.trim()) return types[0];
  let best;
  let most = 0;
  for (const type of types) {
    const wanted = quality(accept, type);
    if (wanted > most) [best, most] = [type, wanted];
  }
  return best;
}
