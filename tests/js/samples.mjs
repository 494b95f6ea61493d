// Arrays to run artifacts with.

/** Something that a leaf takes, if it is not too large. */
export const sample = ({ dimensions, bytes }) =>
  Object.assign(
    Array(
      Math.min(
        bytes,
        1e4,
        dimensions.reduce((a, b) => a * b, 1),
      ),
    ).fill(1),
    { shape: dimensions },
  );
