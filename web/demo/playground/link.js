// A module in an address: its text, deflated, behind the '#', which no server gets to see.

export const LONGEST = 30_000; // characters of a link, which mail and chats still take
const MOST_TEXT = 2_000_000; // bytes of the text in one

/** @typedef {{text: string, sizes: string}} Source what is compiled, and the sizes that it leaves open */

/**
 * What stands behind the '#'.
 * @param {Source} source
 */
export async function pack({ text, sizes }) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream('deflate-raw'));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let code = '';
  for (let at = 0; at < bytes.length; at += 8192) code += String.fromCharCode(...bytes.subarray(at, at + 8192));
  const packed = btoa(code).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
  return `m=${packed}${sizes && `&sizes=${encodeURIComponent(sizes)}`}`;
}

/**
 * The module that an address has; null where it has none. Throws an Error that says what is wrong with it.
 * @param {string} hash
 * @returns {Promise<Source | null>}
 */
export async function unpack(hash) {
  const fields = new URLSearchParams(hash.slice(1));
  const packed = fields.get('m');
  if (packed === null) return null;
  try {
    const code = atob(packed.replaceAll('-', '+').replaceAll('_', '/'));
    const bytes = Uint8Array.from(code, (character) => character.charCodeAt(0));
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw')).getReader();
    const decoder = new TextDecoder('utf-8', { fatal: true });
    let [text, length] = ['', 0];
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      length += part.value.length;
      if (length > MOST_TEXT) throw new Error('it holds too much');
      text += decoder.decode(part.value, { stream: true });
    }
    return { text: text + decoder.decode(), sizes: fields.get('sizes') ?? '' };
  } catch (error) {
    throw new Error('The link is damaged: copy it again, whole.', { cause: error });
  }
}
