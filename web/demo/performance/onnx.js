// Models in ONNX's format, as far as workloads.js needs it: nodes, their attributes, and arrays of f32 and i64.

const FLOAT = 1;
const INT64 = 7;
const OPSET = 18;
const VERSION = 8; // of the format

/** @typedef {Uint8Array[]} Parts bytes that stand one after another */

const text = new TextEncoder();

/** @param {number} value not negative @returns {number[]} */
const varint = (value) => (value < 128 ? [value] : [(value % 128) + 128, ...varint(Math.floor(value / 128))]);

/** A field of protobuf that holds an integer. @param {number} field @param {number} value @returns {Parts} */
const integer = (field, value) => [Uint8Array.from([...varint(field << 3), ...varint(value)])];

/** A field that holds a float. @param {number} field @param {number} value @returns {Parts} */
const float = (field, value) => [
  Uint8Array.of((field << 3) | 5),
  new Uint8Array(Float32Array.of(value).buffer), // of little-endian processors, as all that browsers run on are
];

/** A field that holds bytes, a text or other fields. @param {number} field @param {Parts | string} given @returns {Parts} */
function nested(field, given) {
  const parts = typeof given === 'string' ? [text.encode(given)] : given;
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  return [Uint8Array.from([(field << 3) | 2, ...varint(length)]), ...parts];
}

/** @param {string} name @param {number | number[]} value whole numbers, or a fraction @returns {Parts} */
function attribute(name, value) {
  const named = nested(1, name);
  if (Array.isArray(value)) return [...named, ...value.flatMap((item) => integer(8, item)), ...integer(20, 7)];
  if (Number.isInteger(value)) {
    // Negative ones have ten bytes; -1, an axis, is the only one here.
    const bytes = value === -1 ? [255, 255, 255, 255, 255, 255, 255, 255, 255, 1] : varint(value);
    return [...named, Uint8Array.from([3 << 3, ...bytes]), ...integer(20, 2)];
  }
  return [...named, ...float(2, value), ...integer(20, 1)];
}

/** The declaration of an f32 array. @param {string} name @param {number[]} shape @returns {Parts} */
function declared(name, shape) {
  const sizes = shape.flatMap((size) => nested(1, integer(1, size)));
  return [...nested(1, name), ...nested(2, nested(1, [...integer(1, FLOAT), ...nested(2, sizes)]))];
}

export class Graph {
  /** @type {Parts} */
  #fields = [];
  #made = 0;

  /**
   * An array that is part of the model.
   * @param {string} name
   * @param {Float32Array | BigInt64Array} data
   * @param {number[]} shape
   */
  constant(name, data, shape) {
    const sizes = shape.flatMap((size) => integer(1, size));
    const type = integer(2, data instanceof Float32Array ? FLOAT : INT64);
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    this.#fields.push(...nested(5, [...sizes, ...type, ...nested(8, name), ...nested(9, [bytes])]));
    return name;
  }

  /** Sizes of a reshape. @param {number[]} sizes */
  sizes(...sizes) {
    return this.constant(`sizes_${this.#made++}`, BigInt64Array.from(sizes, BigInt), [sizes.length]);
  }

  /** @param {number} value */
  number(value) {
    return this.constant(`number_${this.#made++}`, Float32Array.of(value), []);
  }

  /**
   * An operator with several results; the names of these.
   * @param {string} op
   * @param {number} results
   * @param {string[]} inputs
   * @param {Record<string, number | number[]>} attributes
   */
  nodes(op, results, inputs, attributes = {}) {
    const number = this.#made++;
    const names = Array.from({ length: results }, (_, i) => `${op}_${number}_${i}`);
    this.#fields.push(
      ...nested(1, [
        ...inputs.flatMap((name) => nested(1, name)),
        ...names.flatMap((name) => nested(2, name)),
        ...nested(3, names[0]),
        ...nested(4, op),
        ...Object.entries(attributes).flatMap(([name, value]) => nested(5, attribute(name, value))),
      ]),
    );
    return names;
  }

  /**
   * An operator with one result; its name.
   * @param {string} op
   * @param {string[]} inputs
   * @param {Record<string, number | number[]>} [attributes]
   */
  node(op, inputs, attributes) {
    return this.nodes(op, 1, inputs, attributes)[0];
  }

  /**
   * The model.
   * @param {Record<string, number[]>} inputs their shapes
   * @param {Record<string, number[]>} results
   */
  model(inputs, results) {
    const graph = [
      ...this.#fields,
      ...nested(2, 'race'),
      ...Object.entries(inputs).flatMap(([name, shape]) => nested(11, declared(name, shape))),
      ...Object.entries(results).flatMap(([name, shape]) => nested(12, declared(name, shape))),
    ];
    const parts = [...integer(1, VERSION), ...nested(7, graph), ...nested(8, integer(2, OPSET))];
    const model = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      model.set(part, at);
      at += part.length;
    }
    return model;
  }
}
