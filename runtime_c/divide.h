/* Eigenvectors of tridiagonal matrices by divide and conquer; included after symmetric.h with the same T, PLANES, NAME.

   A matrix is two smaller ones and a correction of rank one. Where the eigenvectors of these are known, its eigenvalues are the zeros of a
   rational function, and its eigenvectors a product of matrices (Cuppen; Gu and Eisenstat). All of it is real. */
#pragma once

#define SMALL 32 /* what QL does */

/* What merging n eigenvalues works in. */
typedef struct {
  T *next, *s; /* n columns each: new vectors, and their coordinates in the old ones */
  int ld;
  T *z, *poles, *weights, *d; /* n numbers each */
  T *strip;                   /* rows of n columns, as many as two vectors hold */
  int *order, *list, *sides;
  T *rotations;
} workspace;

enum { TOP = 1, BOTTOM = 2 };

static workspace workspace_in(T *p, int *q, int n) {
  workspace w = {.next = p, .ld = pitch(n), .order = q, .list = q + n, .sides = q + 2 * n};
  w.s = w.next + n * w.ld, w.z = w.s + n * w.ld, w.poles = w.z + w.ld, w.weights = w.poles + w.ld;
  w.d = w.weights + w.ld, w.rotations = w.d + w.ld, w.strip = w.rotations + 2 * n;
  return w;
}

/* --- the zeros ------------------------------------------------------------------------------------------------- */

/* 1 / rho + the sum of weights / (gaps - x), in two parts at `middle`, with their derivatives. */
typedef struct {
  T f, low, high, low_slope, high_slope;
} secular;

static secular evaluate(const T *gaps, const T *weights, int k, int middle, T base, T x) {
  T sums[4];
  for (int half = 0; half < 2; half++) {
    int i = half ? middle : 0, end = half ? k : middle;
    vec sum = {0}, slope = {0};
    T a = 0, b = 0;
    for (; i + LANES <= end; i += LANES) {
      vec w = load(weights + i), t = 1 / (load(gaps + i) - x), p = w * t;
      sum += p, slope += p * t;
    }
    for (; i < end; i++) {
      T t = 1 / (gaps[i] - x), p = weights[i] * t;
      a += p, b += p * t;
    }
    sums[half] = a + total(sum), sums[2 + half] = b + total(slope);
  }
  return (secular){base + sums[0] + sums[1], sums[0], sums[1], sums[2], sums[3]};
}

/* The zero of c x^2 - a x + b between two bounds, or what lies in their middle. */
static T quadratic_zero(T a, T b, T c, T from, T low, T high) {
  T disc = a * a - 4 * b * c, r = root(disc > 0 ? disc : 0), q = (a + with_sign(r, a)) / 2;
  T one = from + q / c, other = from + b / q;
  if (other > low && other < high) return other;
  if (one > low && one < high) return one;
  return low + (high - low) / 2;
}

/* Zero j, between pole j and the next (`rho` beyond the last): `gaps` become the poles less the zero, each with all its digits. The zero
   is returned. */
static T find_zero(T *gaps, const T *poles, const T *weights, int k, int j, T rho) {
  int last = j == k - 1, left = last && k > 1 ? j - 1 : j, right = left + 1, middle = last ? j : j + 1;
  T base = 1 / rho, width = last ? rho : poles[j + 1] - poles[j], low = 0, high = width, x = width / 2;
  int origin = j;
  for (int i = 0; i < k; i++) gaps[i] = poles[i] - poles[j];
  if (k == 1) {
    x = weights[0] * rho;
  } else {
    secular half = evaluate(gaps, weights, k, middle, base, x);
    if (!last && half.f < 0) { /* nearer to the next pole */
      origin = j + 1, low = -width / 2, high = 0;
      for (int i = 0; i < k; i++) gaps[i] = poles[i] - poles[origin];
    } else if (half.f < 0) {
      low = x;
    } else {
      high = x;
    }
    /* The rest as a constant, and two poles as they are. */
    T at = origin == j ? width / 2 : -width / 2, c = half.f - weights[left] / (gaps[left] - at) - weights[right] / (gaps[right] - at);
    T a = c * (gaps[left] + gaps[right]) + weights[left] + weights[right];
    T b = c * gaps[left] * gaps[right] + weights[left] * gaps[right] + weights[right] * gaps[left];
    x = quadratic_zero(a, b, c, 0, low, high);
    for (int i = 0; i < 100; i++) {
      secular v = evaluate(gaps, weights, k, middle, base, x);
      if (magnitude(v.f) <= k * EPS * (base + magnitude(v.low) + magnitude(v.high))) break;
      if (v.f < 0)
        low = x;
      else
        high = x;
      T p = gaps[left] - x, q = gaps[right] - x;
      c = v.f - p * v.low_slope - q * v.high_slope;
      a = (p + q) * v.f - p * q * (v.low_slope + v.high_slope);
      T next = quadratic_zero(a, p * q * v.f, c, x, low, high);
      if (next == x) break;
      x = next;
    }
  }
  T zero = poles[origin] + x;
  for (int i = 0; i < k; i++) gaps[i] -= x;
  return zero;
}

/* --- merging --------------------------------------------------------------------------------------------------- */

/* Sorts out what the correction leaves alone: an eigenvalue whose vector it does not touch, and one of two that are equal but for
   rounding. The others come first in `list`, ascending; how many there are. */
static int deflate(T *d, int n, T rho, T *q, int ld, workspace m) {
  T tolerance = 16 * EPS * largest(greatest(d, n), rho); /* the vector z has length 1 */
  int k = 0, behind = n, before = -1;
  sort_order(m.order, d, n, 1);
  for (int o = 0; o < n; o++) {
    int i = m.order[o];
    if (rho * magnitude(m.z[i]) <= tolerance) {
      m.list[--behind] = i;
      continue;
    }
    if (before >= 0) {
      T s = m.z[before], c = m.z[i], r = hypotenuse(c, s), gap = d[i] - d[before];
      c /= r, s = -s / r;
      if (magnitude(gap * c * s) <= tolerance) {
        m.z[i] = r, m.z[before] = 0;
        m.sides[i] = m.sides[before] = m.sides[i] | m.sides[before];
        T *x = q + before * ld, *y = q + i * ld;
        for (int row = 0; row < n; row++) {
          T a = x[row], b = y[row];
          x[row] = c * a + s * b, y[row] = c * b - s * a;
        }
        T a = d[before], b = d[i];
        d[before] = a * c * c + b * s * s, d[i] = a * s * s + b * c * c;
        m.list[--behind] = before;
        m.list[k - 1] = before = i;
        continue;
      }
    }
    m.list[k++] = before = i;
  }
  return k;
}

/* The coordinates of the new vectors: of the matrix that has exactly the zeros that were found. */
static void coordinates(int k, const T *z, workspace m) {
  T *w = m.weights;
  fill(w, k, 1);
  for (int j = 0; j < k; j++) {
    const T *gaps = m.s + j * m.ld;
    T pole = m.poles[j];
    for (int i = 0; i < j; i++) w[i] *= gaps[i] / (m.poles[i] - pole);
    w[j] *= -gaps[j];
    for (int i = j + 1; i < k; i++) w[i] *= gaps[i] / (m.poles[i] - pole);
  }
  for (int i = 0; i < k; i++) w[i] = with_sign(root(magnitude(w[i])), z[m.list[i]]);
  for (int j = 0; j < k; j++) {
    T *column = m.s + j * m.ld, sum = 0;
    for (int i = 0; i < k; i++) column[i] = w[i] / column[i];
    for (int i = 0; i < k; i++) sum += column[i] * column[i];
    multiply(column, k, 1 / root(sum));
  }
}

/* Four columns of a strip of rows: the strip's columns times four columns of `s`, of which `rows` are taken. */
static void strip_product(T *to, int ld, const T *strip, const T *s, int lds, const int *rows, int count, int columns) {
  const T *s1 = s + (columns > 1 ? lds : 0), *s2 = s1 + (columns > 2 ? lds : 0), *s3 = s2 + (columns > 3 ? lds : 0);
  vec a0 = {0}, a1 = {0}, b0 = {0}, b1 = {0}, c0 = {0}, c1 = {0}, d0 = {0}, d1 = {0};
  for (int i = 0; i < count; i++, strip += 2 * LANES) {
    vec x = load(strip), y = load(strip + LANES);
    int r = rows[i];
    a0 += s[r] * x, a1 += s[r] * y, b0 += s1[r] * x, b1 += s1[r] * y;
    c0 += s2[r] * x, c1 += s2[r] * y, d0 += s3[r] * x, d1 += s3[r] * y;
  }
  store(to, a0), store(to + LANES, a1);
  if (columns > 1) store(to + ld, b0), store(to + ld + LANES, b1);
  if (columns > 2) store(to + 2 * ld, c0), store(to + 2 * ld + LANES, c1);
  if (columns > 3) store(to + 3 * ld, d0), store(to + 3 * ld + LANES, d1);
}

/* Rows `top` to `bottom` of the first k new vectors, from the old ones that are not 0 there. */
static void multiply_rows(const T *q, int ld, int top, int bottom, int k, int side, workspace m) {
  int count = 0, *rows = m.order;
  for (int i = 0; i < k; i++)
    if (m.sides[m.list[i]] & side) rows[count++] = i;
  for (int at = top; at < bottom; at += 2 * LANES) {
    for (int i = 0; i < count; i++)
      for (int r = 0; r < 2 * LANES; r++) m.strip[i * 2 * LANES + r] = at + r < bottom ? q[m.list[rows[i]] * ld + at + r] : 0;
    for (int j = 0; j < k; j += 4) {
      T *to = m.next + j * m.ld + at, kept[4 * 2 * LANES];
      strip_product(kept, 2 * LANES, m.strip, m.s + j * m.ld, m.ld, rows, count, k - j < 4 ? k - j : 4);
      for (int c = 0; c < 4 && j + c < k; c++)
        for (int r = 0; r < 2 * LANES && at + r < bottom; r++) to[c * m.ld + r] = kept[c * 2 * LANES + r];
    }
  }
}

/* From the eigenvectors of both halves, the first of `half` rows, to those of the whole with a correction `rho` between them. */
static void merge(T *d, int n, int half, T rho, T *q, int ld, workspace m) {
  T scale = root((T)0.5);
  for (int i = 0; i < n; i++) {
    m.sides[i] = i < half ? TOP : BOTTOM;
    m.z[i] = (i < half ? q[i * ld + half - 1] : with_sign(1, rho) * q[i * ld + half]) * scale;
  }
  rho = 2 * magnitude(rho);
  /* A part that is small beside others is solved like one that is not: neither 1 / rho nor 1 / gap^2 overflows. */
  T by = scale_within(largest(greatest(d, n), rho), (T)0.5, 1);
  multiply(d, n, by), rho *= by;
  int k = deflate(d, n, rho, q, ld, m);
  for (int i = 0; i < k; i++) m.poles[i] = d[m.list[i]], m.weights[i] = m.z[m.list[i]] * m.z[m.list[i]];
  for (int j = 0; j < k; j++) m.d[j] = find_zero(m.s + j * m.ld, m.poles, m.weights, k, j, rho);
  coordinates(k, m.z, m);
  multiply_rows(q, ld, 0, half, k, TOP, m);
  multiply_rows(q, ld, half, n, k, BOTTOM, m);
  for (int j = k; j < n; j++) {
    m.d[j] = d[m.list[j]];
    for (int i = 0; i < n; i++) m.next[j * m.ld + i] = q[m.list[j] * ld + i];
  }
  for (int j = 0; j < n; j++) {
    d[j] = m.d[j] / by;
    for (int i = 0; i < n; i++) q[j * ld + i] = m.next[j * m.ld + i];
  }
}

/* The eigenvalues of a tridiagonal matrix in d, and its eigenvectors in q, which is the identity before; not 0 if QL did not converge. */
static int divide(T *d, T *e, int n, T *q, int ld, workspace m) {
  if (n <= SMALL) return tridiagonal_ql(d, e, n, q, ld, n, m.rotations);
  int half = n / 2;
  T rho = e[half - 1];
  d[half - 1] -= magnitude(rho), d[half] -= magnitude(rho);
  int failed = divide(d, e, half, q, ld, m) + divide(d + half, e + half, n - half, q + half * ld + half, ld, m);
  if (rho != 0) merge(d, n, half, rho, q, ld, m);
  return failed;
}
