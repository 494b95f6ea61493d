// What fields of a manifest may be: the bounds of an integer, the size and the alignment of what lies at an address,
// the choices of a string; and the element types, by the typed array that has their values or bits. Written by
// tools/manifest_fields.py; xla_wasm/host/manifest_fields.py has their meanings, xla_wasm/hlo/types.py the types.

export const TOP = {
  format: { low: 1, high: 3 },
  target: ['simd128', 'relaxed-simd'],
  pages: { low: 1, high: 65536 },
  config: { size: 4, align: 4 },
  request: { size: 8, align: 4 },
};

export const THREADS = {
  control: { size: 256, align: 64 },
  bytes: { low: 64 },
};

export const ARRAY = {
  tail_padding_alignment_in_elements: { low: 1 },
  physical_bytes: { high: 4294967296 },
};

export const INITS = {
  index: { high: 2147483647 },
  kind: ['segment', 'sidecar', 'weight'],
  part: { low: 1 },
};

export const STEPS = {
  address: { align: 4 },
  entry_bytes: { low: 1 },
};

export const REQUESTS = {
  kind: ['exchange', 'custom_call', 'callback', 'infeed', 'outfeed', 'send', 'recv'],
  channel: { high: 32767 },
};

export const REQUESTS_TO = {
  offset: { align: 4 },
  count: { high: 65536 },
};

export const REQUESTS_FROM = {
  offset: { align: 4 },
  count: { high: 65536 },
};

export const DEVICES = {
  offset: { size: 16, align: 4 },
  replicas: { low: 1, high: 65536 },
  partitions: { low: 1, high: 65536 },
  least: { low: 1, high: 65536 },
  most: { low: 1, high: 65536 },
  axis: ['replicas', 'partitions'],
};

export const PARAMETERS = {
  kind: ['input', 'weight', 'state'],
};

export const RESULTS = {
  kind: ['output', 'state'],
};

export const REQUESTS_OPERANDS = {
  kind: ['operand'],
};

export const REQUESTS_RESULTS = {
  kind: ['result'],
};

export const ELEMENT_TYPES = {
  Uint8Array:
    'pred u8 f8e5m2 f8e4m3fn u4 f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz u2 f8e4m3 f8e3m4 u1 f4e2m1fn f8e8m0fnu f6e3m2fn f6e2m3fn',
  Int8Array: 's8 s4 s2 s1',
  Int16Array: 's16',
  Int32Array: 's32',
  BigInt64Array: 's64',
  Uint16Array: 'u16 f16 bf16',
  Uint32Array: 'u32',
  BigUint64Array: 'u64',
  Float32Array: 'f32 c64',
  Float64Array: 'f64 c128',
};
