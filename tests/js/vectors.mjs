// Arrays of test vectors: their raw row-major bytes in base64.

import { TYPES } from '../../web/arrays.js';

export function decode({ data }, leaf) {
  const bytes = Uint8Array.from(Buffer.from(data, 'base64'));
  return new TYPES[leaf.element_type].array(bytes.buffer);
}

export const encode = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString('base64');
