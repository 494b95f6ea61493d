// Text that a person pastes, as sentences.

const LINE = 160; // characters; a longer line is taken for a paragraph

/**
 * Each line is a sentence, and a long one is as many as the language's rules find in it.
 * @param {string} text
 * @returns {string[]}
 */
export function split(text) {
  const lines = text.split('\n').map((line) => line.trim());
  const sentences = lines.flatMap((line) => {
    if (line.length <= LINE || !Intl.Segmenter) return [line];
    return Array.from(new Intl.Segmenter('en', { granularity: 'sentence' }).segment(line), ({ segment }) =>
      segment.trim(),
    );
  });
  return [...new Set(sentences.filter((sentence) => /[\p{L}\p{N}]/u.test(sentence)))];
}
