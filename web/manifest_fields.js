// What fields of a manifest may be: the bounds of an integer, the size and the alignment of what lies at an address,
// the choices of a string. Written by tools/manifest_fields.py; xla_wasm/host/manifest_fields.py has their meanings.

export const TOP = {
  format: { low: 1, high: 2 },
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
