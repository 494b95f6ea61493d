// The numbers of each element type: which there are, and how the loader's arrays store them. Floats that JavaScript has
// no arrays for are stored as their bits.

/** @typedef {number | bigint} Stored an element of a typed array */

/**
 * How one number of an element type is stored; of a complex type, one part.
 * @typedef {object} Numbers
 * @property {'pred' | 'unsigned' | 'signed' | 'float' | 'complex'} kind
 * @property {(value: number | bigint) => Stored | undefined} store undefined where the type does not have it; floats
 *   are rounded
 * @property {(stored: any) => string} text as JSON
 * @property {boolean} [bits] whether a float is stored as bits
 */

const words = new DataView(new ArrayBuffer(8));

/**
 * The exponent of a finite number other than zero; of one that a float of 64 bits keeps denormal, less than any that
 * others have.
 * @param {number} value
 */
function exponentOf(value) {
  words.setFloat64(0, value);
  return ((words.getUint16(0) >> 4) & 0x7ff) - 1023;
}

/** @param {number} value */
function roundToEven(value) {
  const floor = Math.floor(value);
  const rest = value - floor;
  return floor + (rest > 0.5 || (rest === 0.5 && floor % 2) ? 1 : 0);
}

/**
 * A binary float of at most 16 bits, by the name that HLO has for it: f8e4m3fn has 4 bits of exponent and 3 of
 * mantissa.
 * @param {string} name
 */
export function smallFloat(name) {
  const full = { f16: 'f16e5m10', bf16: 'f16e8m7' }[name] ?? name;
  const [, width, exponents, mantissa, own, special = ''] = /** @type {RegExpExecArray} */ (
    /^f(\d+)e(\d+)m(\d+)(?:b(\d+))?(fn|fnuz|fnu)?$/.exec(full)
  );
  const [bits, m] = [Number(width), Number(mantissa)];
  const least = 1 - (own ? Number(own) : 2 ** (Number(exponents) - 1) - (special === 'fnuz' ? 0 : 1));
  const [sign, unit] = [1 << (bits - 1), 2 ** m];
  const unsigned = special === 'fnu';
  const infinity = special ? undefined : (2 ** Number(exponents) - 1) * unit;
  const nan = {
    '': /** @type {number} */ (infinity) + unit / 2,
    fn: bits === 8 ? sign - 1 : undefined,
    fnuz: sign,
    fnu: 255,
  }[special];
  const largest = infinity !== undefined ? infinity - 1 : special === 'fnuz' || nan === undefined ? sign - 1 : nan - 1;
  return {
    bits,
    m,
    /** The number with these bits. @param {number} code */
    decode(code) {
      const size = unsigned ? code : code & (sign - 1);
      if (special === 'fnuz' || unsigned ? code === nan : size > (infinity ?? largest)) return NaN;
      const negative = !unsigned && code >= sign ? -1 : 1;
      if (size === infinity) return negative * Infinity;
      if (unsigned) return 2 ** (code - 127);
      const exponent = Math.floor(size / unit);
      return negative * (exponent ? (unit + (size % unit)) * 2 ** (exponent - 1 + least - m) : size * 2 ** (least - m));
    },
    /**
     * The bits of the nearest number, of two as near the even one; undefined if there is none.
     * @param {number} value
     * @returns {number | undefined}
     */
    encode(value) {
      if (Number.isNaN(value)) return nan;
      const minus = value < 0 || Object.is(value, -0) ? sign : 0;
      if (!Number.isFinite(value)) return infinity === undefined ? undefined : minus + infinity;
      const size = Math.abs(value);
      if (unsigned) {
        // Powers of two, and nothing else: from one to the next the middle is at 1.5.
        if (minus || size < 2 ** -128) return undefined;
        const exponent = exponentOf(size);
        const code = exponent + 127 + (size / 2 ** exponent >= 1.5 ? 1 : 0);
        return code < 0 || code > largest ? undefined : code;
      }
      const exponent = Math.max(size ? exponentOf(size) : least, least);
      // Rounding up to the next power of two carries into the exponent.
      const code = (exponent - least) * unit + roundToEven(size / 2 ** (exponent - m));
      if (code > largest) return undefined;
      return code || special !== 'fnuz' ? minus + code : 0;
    },
  };
}

/**
 * A number in the fewest digits that are read back as the same.
 * @param {number} value
 * @param {(digits: number) => boolean} isSame
 * @param {number} most digits that always suffice
 */
function fewest(value, isSame, most) {
  /** @param {number} digits */
  const near = (digits) => {
    const text = value.toPrecision(digits);
    const nearest = Number(text);
    if (isSame(nearest)) return nearest;
    // Above a power of two numbers lie twice as far apart as below it, so the second nearest may do where the nearest
    // does not.
    if (Math.abs(nearest) >= Math.abs(value) || Math.log2(Math.abs(value)) % 1) return undefined;
    const step = 10 ** (Math.floor(Math.log10(Math.abs(nearest))) - digits + 1);
    const second = Number((nearest + Math.sign(nearest) * step).toPrecision(digits));
    return isSame(second) ? second : undefined;
  };
  let best = near(most - 1);
  if (best === undefined) return String(Number(value.toPrecision(most)));
  for (let digits = most - 2, next; digits > 0 && (next = near(digits)) !== undefined; digits--) best = next;
  return String(best);
}

/**
 * @param {number} value
 * @param {(finite: number) => string} finite
 */
const floatText = (value, finite) =>
  Object.is(value, -0) ? '-0.0' : Number.isFinite(value) ? (value ? finite(value) : '0') : `"${value}"`;

/** @type {Numbers} */
const F64 = { kind: 'float', store: Number, text: (stored) => floatText(stored, String) };

/** @type {Numbers} */
const F32 = {
  kind: 'float',
  store(value) {
    const rounded = Math.fround(Number(value));
    return Number.isFinite(rounded) || !Number.isFinite(Number(value)) ? rounded : undefined;
  },
  text: (stored) => floatText(stored, (value) => fewest(value, (digits) => Math.fround(digits) === value, 9)),
};

/** @param {string} name @param {boolean} bits @returns {Numbers} */
function small(name, bits) {
  const { encode, decode, m } = smallFloat(name);
  const most = Math.max(2, Math.ceil(1 + (m + 1) * Math.log10(2)));
  return {
    kind: 'float',
    bits,
    store(value) {
      const code = encode(Number(value));
      return bits || code === undefined ? code : decode(code);
    },
    text(stored) {
      const code = bits ? stored : encode(stored);
      return floatText(decode(code), (value) => fewest(value, (digits) => encode(digits) === code, most));
    },
  };
}

/** @param {'signed' | 'unsigned'} kind @param {number} bits @returns {Numbers} */
function integers(kind, bits) {
  const most = kind === 'signed' ? 2n ** BigInt(bits - 1) - 1n : 2n ** BigInt(bits) - 1n;
  const least = kind === 'signed' ? -most - 1n : 0n;
  return {
    kind,
    store(value) {
      if (typeof value === 'number' && !Number.isInteger(value)) return undefined;
      const exact = BigInt(value);
      if (exact < least || exact > most) return undefined;
      return bits === 64 ? exact : Number(value);
    },
    text: String,
  };
}

// biome-ignore-start lint/suspicious/noDoubleEquals: true and 1n are 1
/** @type {Numbers} */
const PRED = {
  kind: 'pred',
  store: (value) => (value == 0 || value == 1 ? Number(value) : undefined),
  text: (stored) => String(stored !== 0),
};
// biome-ignore-end lint/suspicious/noDoubleEquals: true and 1n are 1

/** @type {Map<string, Numbers>} */
const known = new Map();

/**
 * @param {string} type HLO's name of an element type
 * @param {any} array the loader's class of such arrays
 * @returns {Numbers}
 */
export function numbersOf(type, array) {
  let numbers = known.get(type);
  if (!numbers) {
    if (type === 'pred') numbers = PRED;
    else if (/^[su]\d/.test(type)) numbers = integers(type[0] === 's' ? 'signed' : 'unsigned', Number(type.slice(1)));
    else if (type === 'f64') numbers = F64;
    else if (type === 'f32') numbers = F32;
    else if (type === 'c128') numbers = { ...F64, kind: 'complex' };
    else if (type === 'c64') numbers = { ...F32, kind: 'complex' };
    else numbers = small(type, array === Uint8Array || array === Uint16Array);
    known.set(type, numbers);
  }
  return numbers;
}
