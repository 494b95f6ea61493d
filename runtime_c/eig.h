/* Eigenvalues and eigenvectors of general matrices; included after schur.h with the same T, PLANES, NAME. */
#pragma once

/* --- balancing ------------------------------------------------------------------------------------------------ */

/* What was done to a matrix: rows and columns were exchanged with `places` outside of `low` to `high`, and scaled within. */
typedef struct {
  int *places;
  T *factors;
  int low, high;
} balance;

static void swap_both(columns a, int n, int i, int j) {
  if (i == j) return;
  swap_columns(a, i, j);
  for (int k = 0; k < n; k++)
    for (int plane = 0; plane < PLANES; plane++) swap_rows(column_at(a, i, k) + plane * a.im, column_at(a, j, k) + plane * a.im, 1);
}

/* Whether a row (or column, with `down`) has nothing between `low` and `high` but its diagonal element. */
static int isolated(columns a, int j, int low, int high, int down) {
  for (int i = low; i < high; i++)
    if (i != j && !is_zero(down ? at(a, i, j) : at(a, j, i))) return 0;
  return 1;
}

/* Moves rows that show an eigenvalue to the end, and columns that do to the front. */
static void isolate(columns a, int n, balance *b) {
  b->low = 0, b->high = n;
  for (int j = n - 1; j >= 0; j--) {
    if (!isolated(a, j, 0, b->high, 0)) continue;
    b->places[--b->high] = j;
    swap_both(a, n, j, b->high);
    j = b->high;
  }
  for (int j = b->low; j < b->high; j++) {
    if (!isolated(a, j, b->low, b->high, 1)) continue;
    b->places[b->low] = j;
    swap_both(a, n, j, b->low);
    j = b->low++;
  }
}

/* Powers of two that make rows about as long as columns. */
static int scale_once(columns a, int n, balance b) {
  int changed = 0;
  T low = TINY / EPS, high = 1 / low;
  for (int i = b.low; i < b.high; i++) {
    T c = length(column_at(a, 0, i), b.low, b.high, a.im), most = 0, r = 0, f = 1;
    for (int j = b.low; j < b.high; j++) most = largest(most, size_of(at(a, i, j)));
    for (int j = b.low; most > 0 && j < b.high; j++) {
      scalar x = at(a, i, j);
      r += (x.re / most) * (x.re / most) + (x.im / most) * (x.im / most);
    }
    r = most * root(r);
    if (c == 0 || r == 0) continue;
    T sum = c + r;
    for (; c < r / 2 && f < high && c < high && r > low; c *= 2, r /= 2) f *= 2;
    for (; c / 2 >= r && f > low && r < high && c > low; c /= 2, r *= 2) f /= 2;
    if (c + r >= (T)0.95 * sum || b.factors[i] * f < low || b.factors[i] * f > high) continue;
    changed = 1;
    b.factors[i] *= f;
    multiply(column_at(a, 0, i), a.ld, f);
    for (int j = 0; j < n; j++) {
      scalar x = at(a, i, j);
      put(column_at(a, i, j), a.im, (scalar){x.re / f, x.im / f});
    }
  }
  return changed;
}

/* --- eigenvectors of triangular matrices ----------------------------------------------------------------------- */

/* A complex vector, whatever the matrix has: its parts are apart. */
typedef struct {
  T *restrict re, *restrict im;
} parts;

typedef struct {
  T re, im;
} number;

static number product(number a, number b) { return (number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

static number ratio_of(number a, number b) {
  divisor d = divisor_of(b.re, b.im);
  return (number){(a.re * d.s + a.im * d.t) / d.den, (a.im * d.s - a.re * d.t) / d.den};
}

static number entry(columns a, int i, int j, int adjoint) {
  scalar s = adjoint ? conjugate(at(a, j, i)) : at(a, i, j);
  return (number){s.re, s.im};
}

/* An element of the diagonal less an eigenvalue, moved away from 0. */
static number pivot_of(columns a, int i, number w, int adjoint, T least) {
  number d = entry(a, i, i, adjoint);
  d.re -= w.re, d.im -= adjoint ? -w.im : w.im;
  return magnitude(d.re) + magnitude(d.im) < least ? (number){least, 0} : d;
}

static void shrink(parts x, int n, T by) {
  for (int i = 0; i < n; i++) x.re[i] *= by, x.im[i] *= by;
}

/* Makes x so small that its rows k to k + count, divided by a pivot of this size, can be multiplied by columns up to `most`. */
static void guard(parts x, int n, int k, int count, T pivot, T most) {
  T room = sizeof(T) == 4 ? (T)0x1p60 : (T)0x1p500, here = 0, low = (T)0x1p-30;
  for (int i = k; i < k + count; i++) here = largest(here, magnitude(x.re[i]) + magnitude(x.im[i]));
  for (; here > room / largest(most, 1) * pivot && is_finite(here); here *= low) shrink(x, n, low);
}

INLINE T size_of_number(number a) { return magnitude(a.re) + magnitude(a.im); }

/* Row k of x, solved by the diagonal less an eigenvalue. */
static void solve_row(columns a, int n, int k, number w, int adjoint, T least, T most, parts x) {
  number p = pivot_of(a, k, w, adjoint, least);
  guard(x, n, k, 1, size_of_number(p), most);
  p = ratio_of((number){x.re[k], x.im[k]}, p);
  x.re[k] = p.re, x.im[k] = p.im;
}

/* Rows k and k + 1 of x, solved by a 2x2 block less an eigenvalue, with pivots. */
static void solve_block(columns a, int n, int k, number w, int adjoint, T least, T most, parts x) {
  number p = pivot_of(a, k, w, adjoint, 0), q = entry(a, k, k + 1, adjoint);
  number r = entry(a, k + 1, k, adjoint), s = pivot_of(a, k + 1, w, adjoint, 0);
  int swap = size_of_number(r) > size_of_number(p);
  if (swap) {
    number t = p;
    p = r, r = t, t = q, q = s, s = t;
  }
  number by = ratio_of(r, p), c = product(by, q), last = {s.re - c.re, s.im - c.im};
  if (size_of_number(last) < least) last = (number){least, 0};
  guard(x, n, k, 2, smallest(size_of_number(p), size_of_number(last)) / 4, most);
  number f = {x.re[k + swap], x.im[k + swap]}, g = {x.re[k + 1 - swap], x.im[k + 1 - swap]}, d = product(by, f);
  g = ratio_of((number){g.re - d.re, g.im - d.im}, last);
  c = product(q, g);
  f = ratio_of((number){f.re - c.re, f.im - c.im}, p);
  x.re[k] = f.re, x.im[k] = f.im, x.re[k + 1] = g.re, x.im[k + 1] = g.im;
}

INLINE int is_pair(columns a, int k, int n) { return PLANES == 1 && k + 1 < n && *column_at(a, k + 1, k) != 0; }

/* x -= column k of a, times x[k], in its rows to `top` */
static void take_column(columns a, int k, int top, parts x) {
  const T *c = column_at(a, 0, k);
  T re = x.re[k], im = x.im[k];
  for (int i = 0; i < top; i++) {
    T s = c[i], t = PLANES == 2 ? c[a.im + i] : 0;
    x.re[i] -= re * s - (PLANES == 2 ? im * t : 0);
    x.im[i] -= im * s + (PLANES == 2 ? re * t : 0);
  }
}

/* The eigenvector of the upper triangular matrix to eigenvalue w in row k (and k + 1, for a pair). */
static void right_vector(columns a, int n, int k, number w, T least, T most, parts x) {
  int pair = is_pair(a, k, n);
  clear(x.re, n), clear(x.im, n);
  x.re[k] = 1;
  if (pair) {
    T up = *column_at(a, k, k + 1), down = *column_at(a, k + 1, k);
    if (magnitude(up) >= magnitude(down))
      x.im[k + 1] = w.im / up;
    else
      x.re[k] = -w.im / down, x.im[k + 1] = 1;
    take_column(a, k + 1, k, x);
  }
  take_column(a, k, k, x);
  for (int i = k - 1; i >= 0; i--) {
    int two = i > 0 && is_pair(a, i - 1, n);
    i -= two;
    if (two) {
      solve_block(a, n, i, w, 0, least, most, x);
      take_column(a, i + 1, i, x);
    } else {
      solve_row(a, n, i, w, 0, least, most, x);
    }
    take_column(a, i, i, x);
  }
}

/* x[i] = -(column i of a)^H x from row k to `end` */
static void take_overlap(columns a, int i, int k, int end, parts x) {
  const T *c = column_at(a, 0, i);
  T re = 0, im = 0;
  for (int j = k; j < end; j++) {
    T s = c[j], t = PLANES == 2 ? c[a.im + j] : 0;
    re += s * x.re[j] + t * x.im[j];
    im += s * x.im[j] - t * x.re[j];
  }
  x.re[i] -= re, x.im[i] -= im;
}

/* The same of the matrix's adjoint. */
static void left_vector(columns a, int n, int k, number w, T least, T most, parts x) {
  int pair = is_pair(a, k, n);
  clear(x.re, n), clear(x.im, n);
  x.re[k] = 1;
  if (pair) {
    T up = *column_at(a, k, k + 1), down = *column_at(a, k + 1, k);
    if (magnitude(up) >= magnitude(down))
      x.re[k] = w.im / up, x.im[k + 1] = 1;
    else
      x.im[k + 1] = -w.im / down;
  }
  for (int i = k + 1 + pair; i < n; i++) {
    int two = is_pair(a, i, n);
    take_overlap(a, i, k, i, x);
    if (two) take_overlap(a, i + 1, k, i, x);
    if (two)
      solve_block(a, n, i++, w, 1, least, most, x);
    else
      solve_row(a, n, i, w, 1, least, most, x);
  }
}

/* y = z x, columns `from` to n */
static void transform(columns z, int n, int from, int to, parts x, parts y) {
  clear(y.re, n), clear(y.im, n);
  for (int j = from; j < to; j++) {
    const T *c = column_at(z, 0, j);
    T re = x.re[j], im = x.im[j];
    for (int i = 0; i < n; i++) {
      T s = c[i], t = PLANES == 2 ? c[z.im + i] : 0;
      y.re[i] += re * s - (PLANES == 2 ? im * t : 0);
      y.im[i] += im * s + (PLANES == 2 ? re * t : 0);
    }
  }
}

/* Undoes the balancing, on a vector of the matrix (or of its adjoint), and makes its length 1 and its greatest element real. */
static void finish_vector(parts x, int n, balance b, int adjoint, int real) {
  for (int i = b.low; i < b.high; i++) {
    T f = adjoint ? 1 / b.factors[i] : b.factors[i];
    x.re[i] *= f, x.im[i] *= f;
  }
  for (int k = 0; k < n - b.high + b.low; k++) {
    int i = k < b.low ? b.low - 1 - k : b.high + k - b.low, j = b.places[i];
    swap_rows(x.re + i, x.re + j, i != j), swap_rows(x.im + i, x.im + j, i != j);
  }
  T most = largest(greatest(x.re, n), greatest(x.im, n)), sum = 0, far = -1;
  int peak = 0;
  for (int i = 0; i < n; i++) {
    T re = x.re[i] / most, im = x.im[i] / most, size = re * re + im * im;
    sum += size;
    if (size > far) far = size, peak = i;
    x.re[i] = re, x.im[i] = im;
  }
  sum = 1 / root(sum);
  T c = sum, s = 0;
  if (!real) c = sum * x.re[peak] / root(far), s = -sum * x.im[peak] / root(far);
  for (int i = 0; i < n; i++) {
    T re = x.re[i], im = x.im[i];
    x.re[i] = c * re - s * im, x.im[i] = i == peak || real ? 0 : c * im + s * re;
  }
}

/* All eigenvectors of one side, as the columns of a complex matrix. */
static void all_vectors(T *to, columns a, columns z, int n, balance b, const T *re, const T *im, int adjoint, T *work) {
  parts x = {work, work + n}, y = {work + 2 * n, work + 3 * n};
  T most = greatest(a.data, n * a.ld), least = TINY * n / EPS;
  for (int k = 0; k < n; k++) {
    trap_if_stopped();
    number w = {re[k], im[k]};
    int pair = is_pair(a, k, n), real = PLANES == 1 && !pair;
    T near = largest(2 * EPS * (magnitude(w.re) + magnitude(w.im)), least);
    if (adjoint)
      left_vector(a, n, k, w, near, most, x);
    else
      right_vector(a, n, k, w, near, most, x);
    transform(z, n, adjoint ? k : 0, adjoint ? n : k + 1 + pair, x, y);
    finish_vector(y, n, b, adjoint, real);
    for (int i = 0; i < n; i++) {
      T *p = to + (i * n + k) * 2;
      p[0] = y.re[i], p[1] = y.im[i];
      if (pair) p[2] = y.re[i], p[3] = -y.im[i];
    }
    k += pair;
  }
}

/* --- eigenvalues and eigenvectors ------------------------------------------------------------------------------ */

enum { LEFT_VECTORS = 256 };

/* As LAPACK's geev: the eigenvalues in w, their imaginary parts, for real types, in `wi`; right eigenvectors with VECTORS, left ones with
   LEFT_VECTORS, complex for all types. */
void NAME(eig)(T *w, T *wi, T *left, T *right, int *info, const T *a, T *work, int *places, int batch, int n, int flags) {
  columns h = columns_in(work, n), z = columns_in(column_at(h, 0, n), n);
  int vectors = flags & (VECTORS | LEFT_VECTORS);
  T *re = column_at(z, 0, n), *im = re + n, *factors = im + n, *more = factors + n, nan = (T)__builtin_nan("");
  if (!vectors) z.data = 0;
  for (; batch-- > 0; a += n * n * PLANES, left += n * n * 2, right += n * n * 2) {
    read_columns(h, a, n, n, n, 1, 1);
    T size = greatest(h.data, n * h.ld), scale = is_finite(size) ? scale_for(size) : 1;
    balance b = {places, factors, 0, n};
    fill(factors, n, 1), fill(re, n, nan), fill(im, n, nan);
    if (is_finite(size)) {
      multiply(h.data, n * h.ld, scale);
      isolate(h, n, &b);
      for (int i = 0; i < 40 && scale_once(h, n, b); i++) {}
      *info++ = schur_of(h, z, n, b.low, b.high, vectors != 0, re, im, more);
      clear(left, n * n * 2), clear(right, n * n * 2);
      if (flags & VECTORS && !info[-1]) all_vectors(right, h, z, n, b, re, im, 0, more);
      if (flags & LEFT_VECTORS && !info[-1]) all_vectors(left, h, z, n, b, re, im, 1, more);
    } else {
      fill(left, n * n * 2, nan), fill(right, n * n * 2, nan);
      *info++ = -4;
    }
    for (int i = 0; i < n; i++) {
      if (PLANES == 1)
        *w++ = re[i] / scale, *wi++ = im[i] / scale;
      else
        put(w, 1, (scalar){re[i] / scale, im[i] / scale}), w += 2;
    }
  }
}
