/* Cholesky and LU factorisations and triangular systems over T, written once for the four element types.

   Define T (float or double), PLANES (1: real, 2: complex) and NAME(x) before including this.

   Matrices are copied into a work area: row-major, rows of `ld` elements with at least 8 beyond the last column that may hold
   anything, and for complex types a plane of real parts before one of imaginary parts. So the innermost loops run along rows,
   in vectors, and never end in the middle of one. All algorithms are recursions or blocks whose bulk is `subtract_product`. */
#pragma once

#include "stop.h"

#define LANES (16 / (int)sizeof(T))
#define LEAF (8 / PLANES)
#define MR 4             /* rows and columns of a tile of a product */
#define NR (2 * LANES)
#define KC (32 / PLANES)  /* a product is summed in pieces of so many terms, for accuracy, and cut into so many columns */
#define NC 512
#define WIDTH 8 /* columns of a panel of LU */
#define BLOCK 32
#define INLINE static inline __attribute__((always_inline))

typedef T vec __attribute__((vector_size(16)));
typedef T vec_at __attribute__((vector_size(16), aligned(sizeof(T))));

INLINE vec load(const T *p) { return *(const vec_at *)p; }
INLINE void store(T *p, vec v) { *(vec_at *)p = v; }

static inline T magnitude(T x) { return x < 0 ? -x : x; }
static inline T root(T x) { return (T)__builtin_sqrt((double)x); }

/* Element (i, j) is data[i * rs + j * cs], its imaginary part `im` further on, to be taken times `sign`. */
typedef struct {
  const T *data;
  int rs, cs, im;
  T sign;
} view;

/* A work area: row i starts at data + i * ld (ld may be negative), the imaginary parts `im` further on. */
typedef struct {
  T *data;
  int ld, im;
} rows;

INLINE rows row_at(rows a, int i, int j) { return (rows){a.data + i * a.ld + j, a.ld, a.im}; }
INLINE view view_at(view a, int i, int j) { return (view){a.data + i * a.rs + j * a.cs, a.rs, a.cs, a.im, a.sign}; }

/* --- products ------------------------------------------------------------------------------------------------ */

/* MR rows of `a`, all `count` terms: real parts, then imaginary parts as terms of their own. */
static void pack_left(T *to, view a, int height, int count) {
  for (int k = 0; k < count; k++)
    for (int r = 0; r < MR; r++) {
      const T *p = a.data + r * a.rs + k * a.cs;
      to[k * MR + r] = r < height ? p[0] : 0;
      if (PLANES == 2) to[(count + k) * MR + r] = r < height ? p[a.im] * a.sign : 0;
    }
}

/* Strips of NR columns; where `plane` is 1, what gives the imaginary part of a product. */
static void pack_right(T *to, rows b, int width, int count, int plane) {
  for (int j = 0; j < width; j += NR)
    for (int half = 0; half < PLANES; half++)
      for (int k = 0; k < count; k++, to += NR) {
        const T *p = b.data + k * b.ld + j + (half ^ plane ? b.im : 0);
        vec x = load(p), y = load(p + LANES);
        store(to, half && !plane ? -x : x);
        store(to + LANES, half && !plane ? -y : y);
      }
}

static void tile(T *c, int ld, const T *a, const T *b, int count, int height) {
  vec s00 = {0}, s01 = {0}, s10 = {0}, s11 = {0}, s20 = {0}, s21 = {0}, s30 = {0}, s31 = {0};
  for (int k = 0; k < count; k++, a += MR, b += NR) {
    vec x = load(b), y = load(b + LANES);
    s00 += a[0] * x, s01 += a[0] * y;
    s10 += a[1] * x, s11 += a[1] * y;
    s20 += a[2] * x, s21 += a[2] * y;
    s30 += a[3] * x, s31 += a[3] * y;
  }
  store(c, load(c) - s00), store(c + LANES, load(c + LANES) - s01);
  if (height < 2) return;
  c += ld;
  store(c, load(c) - s10), store(c + LANES, load(c + LANES) - s11);
  if (height < 3) return;
  c += ld;
  store(c, load(c) - s20), store(c + LANES, load(c + LANES) - s21);
  if (height < 4) return;
  c += ld;
  store(c, load(c) - s30), store(c + LANES, load(c + LANES) - s31);
}

/* c -= a b with c of height x width and `terms` terms; `upper`: what lies below the diagonal of c is not needed.
   The columns of c are written up to a multiple of NR. */
static void subtract_product(rows c, view a, rows b, int height, int width, int terms, int upper, T *pack) {
  T *left = pack, *right = pack + MR * KC * PLANES;
  for (int j0 = 0; j0 < width; j0 += NC) {
    int columns = width - j0 < NC ? width - j0 : NC;
    for (int k0 = 0; k0 < terms; k0 += KC) {
      trap_if_stopped();
      int count = terms - k0 < KC ? terms - k0 : KC;
      int strip = count * PLANES * NR, strips = (columns + NR - 1) / NR;
      for (int plane = 0; plane < PLANES; plane++) pack_right(right + plane * strips * strip, row_at(b, k0, j0), columns, count, plane);
      for (int i = 0; i < height; i += MR) {
        int first = upper && i > j0 ? (i - j0) / NR : 0, rest = height - i < MR ? height - i : MR;
        if (first >= strips) break;
        pack_left(left, view_at(a, i, k0), rest, count);
        for (int s = first; s < strips; s++)
          for (int plane = 0; plane < PLANES; plane++)
            tile(c.data + i * c.ld + j0 + s * NR + plane * c.im, c.ld, left, right + (plane * strips + s) * strip, count * PLANES, rest);
      }
    }
  }
}

/* --- triangular systems -------------------------------------------------------------------------------------- */

/* A complex number x is divided by another as (x.re * s + x.im * t, x.im * s - x.re * t) / den, without overflow in between
   (Smith). Where `den` would be infinite or have few digits, all three are brought away from there. */
typedef struct {
  T s, t, den;
} divisor;

static divisor divisor_of(T re, T im) {
  T size = magnitude(re) + magnitude(im), low = sizeof(T) == 4 ? (T)0x1p-80 : (T)0x1p-900, one = 1;
  if (size < low) one = sizeof(T) == 4 ? (T)0x1p48 : (T)0x1p106;
  if (size > 1 / low) one = (T)0.25;
  re *= one, im *= one;
  if (magnitude(re) >= magnitude(im)) {
    T ratio = im == 0 ? 0 : im / re;
    return (divisor){one, one * ratio, re + im * ratio};
  }
  T ratio = re / im;
  return (divisor){one * ratio, one, im + re * ratio};
}

/* A small lower triangular matrix, with its diagonal as divisors. */
typedef struct {
  T re[LEAF][LEAF], im[LEAF][LEAF];
  divisor by[LEAF];
} leaf;

static void set_diagonal(leaf *l, int r, T re, T im) { l->by[r] = PLANES == 1 ? (divisor){1, 0, re} : divisor_of(re, im); }

INLINE void leaf_columns(const leaf *l, rows x, int width, int count) {
  for (int j = 0; j < width; j += LANES) {
    vec re[LEAF], im[LEAF];
    for (int r = 0; r < count; r++) {
      T *p = x.data + r * x.ld + j;
      vec v = load(p), w = {0};
      if (PLANES == 2) w = load(p + x.im);
      for (int q = 0; q < r; q++) {
        T a = l->re[r][q];
        if (PLANES == 1) {
          v -= a * re[q];
        } else {
          T b = l->im[r][q];
          v -= a * re[q] - b * im[q];
          w -= a * im[q] + b * re[q];
        }
      }
      divisor d = l->by[r];
      if (PLANES == 1) {
        re[r] = v / d.den;
      } else {
        re[r] = (v * d.s + w * d.t) / d.den;
        im[r] = (w * d.s - v * d.t) / d.den;
        store(p + x.im, im[r]);
      }
      store(p, re[r]);
    }
  }
}

/* Solves l x = x for the first `count` rows of both. */
static void solve_leaf(const leaf *l, rows x, int width, int count) {
  if (count == LEAF)
    leaf_columns(l, x, width, LEAF);
  else
    leaf_columns(l, x, width, count);
}

/* Replaces x by the solution of a x = x, where `a` is lower triangular. */
static void solve(view a, rows x, int n, int width, int unit, T *pack) {
  if (n > LEAF) {
    int half = (n / 2 + LEAF - 1) / LEAF * LEAF;
    solve(a, x, half, width, unit, pack);
    subtract_product(row_at(x, half, 0), view_at(a, half, 0), x, n - half, width, half, 0, pack);
    solve(view_at(a, half, half), row_at(x, half, 0), n - half, width, unit, pack);
    return;
  }
  leaf l;
  for (int r = 0; r < n; r++) {
    for (int q = 0; q < r; q++) {
      const T *p = a.data + r * a.rs + q * a.cs;
      l.re[r][q] = p[0];
      if (PLANES == 2) l.im[r][q] = p[a.im] * a.sign;
    }
    const T *p = a.data + r * (a.rs + a.cs);
    set_diagonal(&l, r, unit ? 1 : p[0], PLANES == 1 || unit ? 0 : p[a.im] * a.sign);
  }
  solve_leaf(&l, x, width, n);
}

INLINE int row_length(int columns) { return (columns + 7) / 8 * 8 + 8; }

/* What LEFT and so on stand for in the flags. */
enum { LEFT = 1, LOWER = 2, UNIT = 4, TRANSPOSED = 8, CONJUGATE = 16 };

/* op(a) x = b (LEFT: n x m) or x op(a) = b (m x n) for `batch` matrices one after another. */
void NAME(triangular_solve)(T *x, const T *a, const T *b, T *work, T *pack, int batch, int n, int m, int flags) {
  int left = flags & LEFT, across = !left == !(flags & TRANSPOSED); /* whether the system's matrix is a transposed */
  int lower = !(flags & LOWER) != !across, wide = m < NC ? m : NC, ld = row_length(wide), im = n * ld;
  for (; batch-- > 0; a += n * n * PLANES, b += n * m * PLANES, x += n * m * PLANES) {
    view matrix = {a, across ? PLANES : n * PLANES, across ? n * PLANES : PLANES, 1, flags & CONJUGATE ? -1 : 1};
    rows area = {work, ld, im};
    if (!lower) {
      matrix.data += (n - 1) * (matrix.rs + matrix.cs);
      matrix.rs = -matrix.rs, matrix.cs = -matrix.cs;
      area.data += (n - 1) * ld, area.ld = -ld;
    }
    for (int j0 = 0; j0 < m; j0 += NC) {
      trap_if_stopped();
      int columns = m - j0 < NC ? m - j0 : NC;
      int rs = left ? m * PLANES : PLANES, cs = left ? PLANES : n * PLANES;
      for (int i = 0; i < n; i++)
        for (int j = 0; j < ld; j++)
          for (int plane = 0; plane < PLANES; plane++)
            work[i * ld + j + plane * im] = j < columns ? b[i * rs + (j0 + j) * cs + plane] : 0;
      solve(matrix, area, n, columns, flags & UNIT, pack);
      for (int i = 0; i < n; i++)
        for (int j = 0; j < columns; j++)
          for (int plane = 0; plane < PLANES; plane++) x[i * rs + (j0 + j) * cs + plane] = work[i * ld + j + plane * im];
    }
  }
}

/* --- Cholesky ------------------------------------------------------------------------------------------------ */

/* The upper factor of rows `first` to `last` of `a`, whose earlier rows were subtracted already; 0, or the number of the
   row (from 1) where the matrix proves not to be positive definite. */
static int factor(rows a, int first, int last, int n, T *pack) {
  int count = last - first;
  if (count > LEAF) {
    int middle = first + (count / 2 + LEAF - 1) / LEAF * LEAF;
    int failed = factor(a, first, middle, n, pack);
    if (failed) return failed;
    rows b = row_at(a, first, middle);
    subtract_product(row_at(a, middle, middle), (view){b.data, 1, b.ld, b.im, -1}, b, last - middle, n - middle, middle - first, 1, pack);
    return factor(a, middle, last, n, pack);
  }
  leaf l;
  for (int j = 0; j < count; j++) {
    T *row = a.data + (first + j) * a.ld + first, d = row[j];
    for (int p = 0; p < j; p++) d -= l.re[j][p] * l.re[j][p] + (PLANES == 2 ? l.im[j][p] * l.im[j][p] : 0);
    if (!(d > 0)) return first + j + 1;
    d = row[j] = root(d);
    set_diagonal(&l, j, d, 0);
    if (PLANES == 2) row[j + a.im] = 0;
    for (int c = j + 1; c < count; c++) {
      T re = row[c], im = PLANES == 2 ? row[c + a.im] : 0;
      for (int p = 0; p < j; p++) {
        if (PLANES == 1) {
          re -= l.re[j][p] * l.re[c][p];
        } else {
          re -= l.re[j][p] * l.re[c][p] + l.im[j][p] * l.im[c][p];
          im -= l.im[j][p] * l.re[c][p] - l.re[j][p] * l.im[c][p];
        }
      }
      row[c] = l.re[c][j] = re / d;
      if (PLANES == 2) {
        row[c + a.im] = im / d;
        l.im[c][j] = -row[c + a.im];
      }
    }
  }
  if (last < n) solve_leaf(&l, row_at(a, first, last), n - last, count);
  return 0;
}

/* The factors of `batch` matrices, read from one triangle; `info`, if not null, as LAPACK gives it. The other triangle
   becomes 0, or with KEEP stays what it is in `a`; a matrix that is not positive definite becomes NaN. */
enum { KEEP = 4 };
void NAME(cholesky)(T *x, int *info, const T *a, T *work, T *pack, int batch, int n, int flags) {
  int lower = flags & LOWER, ld = row_length(n), plane = n * ld;
  for (; batch-- > 0; a += n * n * PLANES, x += n * n * PLANES) {
    for (int i = 0; i < n; i++)
      for (int j = 0; j < ld; j++) {
        const T *p = lower ? a + (j * n + i) * PLANES : a + (i * n + j) * PLANES;
        int inside = j >= i && j < n;
        work[i * ld + j] = inside ? p[0] : 0;
        if (PLANES == 2) work[i * ld + j + plane] = !inside ? 0 : lower ? -p[1] : p[1];
      }
    int failed = factor((rows){work, ld, plane}, 0, n, n, pack);
    if (info) *info++ = failed;
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) {
        const T *w = lower ? work + j * ld + i : work + i * ld + j;
        int inside = lower ? j <= i : j >= i, at = (i * n + j) * PLANES;
        x[at] = failed ? (T)__builtin_nan("") : inside ? w[0] : flags & KEEP ? a[at] : 0;
        if (PLANES == 2)
          x[at + 1] = failed ? 0 : !inside ? (flags & KEEP ? a[at + 1] : 0) : lower ? 0 - w[plane] : w[plane];
      }
  }
}

/* --- LU ------------------------------------------------------------------------------------------------------ */

/* Factors a panel of `width` columns and `height` rows: column j lies at p + j * height, its imaginary parts `im` further on.
   Gives the pivots, from 0; the number (from 1) of the first column without a pivot, or 0. */
static int factor_panel(T *p, int height, int width, int im, int *pivots) {
  int failed = 0;
  for (int j = 0; j < width && j < height; j++) {
    T *restrict column = p + j * height;
    int best = j;
    T most = -1;
    for (int i = j; i < height; i++) {
      T size = magnitude(column[i]) + (PLANES == 2 ? magnitude(column[i + im]) : 0);
      if (size > most) most = size, best = i;
    }
    pivots[j] = best;
    if (best != j)
      for (int c = 0; c < width; c++)
        for (int plane = 0; plane < PLANES; plane++) {
          T *q = p + c * height + plane * im, t = q[j];
          q[j] = q[best], q[best] = t;
        }
    if (most == 0) {
      if (!failed) failed = j + 1;
    } else if (PLANES == 1) {
      T d = column[j];
      for (int i = j + 1; i < height; i++) column[i] /= d;
    } else {
      divisor d = divisor_of(column[j], column[j + im]);
      T *restrict imaginary = column + im;
      for (int i = j + 1; i < height; i++) {
        T v = column[i], w = imaginary[i];
        column[i] = (v * d.s + w * d.t) / d.den;
        imaginary[i] = (w * d.s - v * d.t) / d.den;
      }
    }
    for (int c = j + 1; c < width; c++) {
      T *restrict target = p + c * height;
      T u = target[j];
      if (PLANES == 1) {
        for (int i = j + 1; i < height; i++) target[i] -= column[i] * u;
      } else {
        T v = target[j + im], *restrict imaginary = column + im, *restrict other = target + im;
        for (int i = j + 1; i < height; i++) {
          target[i] -= column[i] * u - imaginary[i] * v;
          other[i] -= column[i] * v + imaginary[i] * u;
        }
      }
    }
  }
  return failed;
}

static void swap_rows(T *restrict p, T *restrict q, int count) {
  for (int j = 0; j < count; j++) {
    T t = p[j];
    p[j] = q[j], q[j] = t;
  }
}

/* Rows and columns from `first` on, `width` columns: finds pivots, swaps whole rows, writes the panel back. */
static int panel(rows a, int first, int width, int m, int n, T *p, int *pivots) {
  int height = m - first, im = WIDTH * height;
  for (int i = 0; i < height; i++)
    for (int j = 0; j < width; j++)
      for (int plane = 0; plane < PLANES; plane++) p[j * height + i + plane * im] = a.data[(first + i) * a.ld + first + j + plane * a.im];
  int failed = factor_panel(p, height, width, im, pivots + first);
  for (int j = 0; j < width && j < height; j++) {
    int from = first + j, to = pivots[from] += first;
    if (from != to)
      for (int plane = 0; plane < PLANES; plane++) swap_rows(a.data + from * a.ld + plane * a.im, a.data + to * a.ld + plane * a.im, n);
  }
  for (int i = 0; i < height; i++)
    for (int j = 0; j < width; j++)
      for (int plane = 0; plane < PLANES; plane++) a.data[(first + i) * a.ld + first + j + plane * a.im] = p[j * height + i + plane * im];
  return failed ? first + failed : 0;
}

/* The rows `first` to `last` of U, and what they take from the rows below, for the columns `last` to `end`. */
static void eliminate(rows a, int first, int last, int m, int end, T *pack) {
  rows d = row_at(a, first, first);
  if (end <= last) return;
  solve((view){d.data, d.ld, 1, d.im, 1}, row_at(a, first, last), last - first, end - last, 1, pack);
  if (m <= last) return;
  d = row_at(a, last, first);
  subtract_product(row_at(a, last, last), (view){d.data, d.ld, 1, d.im, 1}, row_at(a, first, last), m - last, end - last, last - first, 0,
                   pack);
}

/* P a = L U for `batch` matrices of m x n, both factors in x, with pivots from 1 and info as LAPACK gives them. */
void NAME(lu)(T *x, int *pivots, int *info, const T *a, T *work, T *pack, T *columns, int batch, int m, int n) {
  int ld = row_length(n), plane = m * ld, k = m < n ? m : n;
  rows area = {work, ld, plane};
  for (; batch-- > 0; a += m * n * PLANES, x += m * n * PLANES, pivots += k) {
    int failed = 0;
    for (int i = 0; i < m; i++)
      for (int j = 0; j < ld; j++)
        for (int p = 0; p < PLANES; p++) work[i * ld + j + p * plane] = j < n ? a[(i * n + j) * PLANES + p] : 0;
    for (int first = 0; first < k; first += BLOCK) {
      trap_if_stopped();
      int last = k - first < BLOCK ? k : first + BLOCK;
      /* Tiles run over the end of a block; only behind the last column of all there is nothing to spoil. */
      int end = last == k ? n : last;
      for (int at = first; at < last; at += WIDTH) {
        int next = last - at < WIDTH ? last : at + WIDTH;
        int found = panel(area, at, next - at, m, n, columns, pivots);
        if (!failed) failed = found;
        eliminate(area, at, next, m, end, pack);
      }
      if (end < n) eliminate(area, first, last, m, n, pack);
    }
    for (int i = 0; i < k; i++) pivots[i]++;
    *info++ = failed;
    for (int i = 0; i < m; i++)
      for (int j = 0; j < n; j++)
        for (int p = 0; p < PLANES; p++) x[(i * n + j) * PLANES + p] = work[i * ld + j + p * plane];
  }
}
