/**
 * Probabilities of ten digits.
 * @param {Float32Array} logits
 */
export function softmax(logits) {
  const most = Math.max(...logits);
  const powers = Array.from(logits, (logit) => Math.exp(logit - most));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / sum);
}
