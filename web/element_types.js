// The element types whose values each typed array holds, or their bits. Written by tools/element_types.py;
// xla_wasm/hlo/types.py has the table.

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
