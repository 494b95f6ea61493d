/* Matrices by columns, as factorisations by reflections and rotations keep them; included after qr.h with the same T, PLANES, NAME.

   A column is followed by zeros, at least a vector of them, and for complex types by its imaginary parts with zeros of their own.
   So loops over rows go in whole vectors, start anywhere, and have no rest. */
#pragma once

/* Column j starts at data + j * ld, its imaginary parts `im` further on. */
typedef struct {
  T *data;
  int ld, im;
} columns;

INLINE int pitch(int rows) { return (rows + 2 * LANES - 1) / LANES * LANES; }
INLINE columns columns_in(T *data, int rows) { return (columns){data, PLANES * pitch(rows), pitch(rows)}; }
INLINE T *column_at(columns a, int i, int j) { return a.data + j * a.ld + i; }

INLINE T largest(T a, T b) { return a > b ? a : b; }
INLINE T smallest(T a, T b) { return a < b ? a : b; }
INLINE T with_sign(T size, T sign) { return (T)__builtin_copysign((double)size, (double)sign); }

#define EPS (sizeof(T) == 4 ? (T)0x1p-24 : (T)0x1p-53)         /* the greatest relative error of a rounding */
#define TINY (sizeof(T) == 4 ? (T)0x1p-126 : (T)0x1p-1022) /* the least normal number */

INLINE scalar scalar_at(const T *p, int im) { return (scalar){p[0], PLANES == 2 ? p[im] : 0}; }
INLINE scalar conjugate(scalar a) { return (scalar){a.re, -a.im}; }
INLINE scalar times(scalar a, scalar b) {
  if (PLANES == 1) return (scalar){a.re * b.re, 0};
  return (scalar){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
/* a / b, without overflow in between. */
static scalar quotient(scalar a, scalar b) {
  if (PLANES == 1) return (scalar){a.re / b.re, 0};
  divisor d = divisor_of(b.re, b.im);
  return (scalar){(a.re * d.s + a.im * d.t) / d.den, (a.im * d.s - a.re * d.t) / d.den};
}

INLINE scalar difference(scalar a, scalar b) { return (scalar){a.re - b.re, a.im - b.im}; }
INLINE scalar negative(scalar a) { return (scalar){-a.re, -a.im}; }
INLINE int is_zero(scalar a) { return a.re == 0 && a.im == 0; }
INLINE T size_of(scalar a) { return magnitude(a.re) + magnitude(a.im); } /* as LAPACK compares complex numbers */

static void put(T *p, int im, scalar a) {
  p[0] = a.re;
  if (PLANES == 2) p[im] = a.im;
}

static void clear(T *p, int count) {
  for (int i = 0; i < count; i++) p[i] = 0;
}

/* Element (i, j) of `to` is a[i * rs + j * cs], conjugated where `sign` is -1. */
static void read_columns(columns to, const T *a, int m, int n, int rs, int cs, T sign) {
  for (int j = 0; j < n; j++) {
    T *column = column_at(to, 0, j);
    clear(column, to.ld);
    for (int i = 0; i < m; i++) {
      const T *p = a + (i * rs + j * cs) * PLANES;
      column[i] = p[0];
      if (PLANES == 2) column[i + to.im] = sign * p[1];
    }
  }
}

/* x[i * rs + j * cs] is element (i, order[j]) of `from`, or (i, j) without an order, conjugated where `sign` is -1. */
static void write_columns(T *x, columns from, int m, int n, int rs, int cs, T sign, const int *order) {
  for (int j = 0; j < n; j++) {
    const T *column = column_at(from, 0, order ? order[j] : j);
    for (int i = 0; i < m; i++) {
      T *p = x + (i * rs + j * cs) * PLANES;
      p[0] = column[i];
      if (PLANES == 2) p[1] = sign * column[i + from.im];
    }
  }
}

static void identity(columns a, int m, int n) {
  for (int j = 0; j < n; j++) {
    clear(column_at(a, 0, j), a.ld);
    if (j < m) *column_at(a, j, j) = 1;
  }
}

static void fill(T *p, int count, T value) {
  for (int i = 0; i < count; i++) p[i] = value;
}

/* The greatest size of a part, or NaN or infinity where there is one. */
static T greatest(const T *p, int count) {
  T most = 0;
  for (int i = 0; i < count; i++) {
    T size = magnitude(p[i]);
    if (!(size <= most)) most = size;
    if (!(most < (T)__builtin_inf())) return most;
  }
  return most;
}

static int is_finite(T size) { return size < (T)__builtin_inf(); }

/* A power of two, with an inverse, that brings a size to between `low` and `high`, or as near as such a power can. */
static T scale_within(T size, T low, T high) {
  T scale = 1;
  if (size == 0) return 1;
  for (; size * scale < low && scale < 1 / TINY; scale *= 2) {}
  for (; size * scale > high && scale > TINY; scale /= 2) {}
  return scale;
}

/* The same, to where no product of few numbers of at most this size overflows or vanishes. */
static T scale_for(T size) {
  T low = sizeof(T) == 4 ? (T)0x1p-40 : (T)0x1p-400;
  return scale_within(size, low, 1 / low);
}

static void multiply(T *p, int count, T by) {
  if (by == 1) return;
  for (int i = 0; i < count; i++) p[i] *= by;
}

/* The sum of conj(x) y. */
static scalar dot(const T *x, const T *y, int n, int im) {
  vec a = {0}, b = {0}, d = {0};
  int i = 0;
  for (; i < n; i += LANES) {
    vec p = load(x + i), q = load(y + i);
    a += p * q;
    if (PLANES == 2) {
      vec r = load(x + im + i), s = load(y + im + i);
      b += r * s;
      d += p * s - r * q;
    }
  }
  return (scalar){total(a + b), PLANES == 2 ? total(d) : 0};
}

/* y += a x */
static void add_multiple(T *y, const T *x, scalar a, int n, int im) {
  for (int i = 0; i < n; i += LANES) {
    vec p = load(x + i);
    if (PLANES == 1) {
      store(y + i, load(y + i) + a.re * p);
    } else {
      vec q = load(x + im + i);
      store(y + i, load(y + i) + (a.re * p - a.im * q));
      store(y + im + i, load(y + im + i) + (a.re * q + a.im * p));
    }
  }
}

/* Four columns c, `ld` apart, become c - tau v (v^H c). */
static void reflect_four(const T *v, T *c, int ld, int n, T tau) {
  vec s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
  for (int i = 0; i < n; i += LANES) {
    vec p = load(v + i);
    s0 += p * load(c + i), s1 += p * load(c + ld + i);
    s2 += p * load(c + 2 * ld + i), s3 += p * load(c + 3 * ld + i);
  }
  T t0 = tau * total(s0), t1 = tau * total(s1), t2 = tau * total(s2), t3 = tau * total(s3);
  for (int i = 0; i < n; i += LANES) {
    vec p = load(v + i);
    T *q = c + i;
    store(q, load(q) - t0 * p);
    q += ld;
    store(q, load(q) - t1 * p);
    q += ld;
    store(q, load(q) - t2 * p);
    q += ld;
    store(q, load(q) - t3 * p);
  }
}

/* `count` columns c, `ld` apart, become c - tau v (v^H c); v[0] is 1 by itself. */
static void reflect_columns(const T *v, T *c, int ld, int count, int n, int im, scalar tau) {
  if (tau.re == 0 && tau.im == 0) return;
  if (PLANES == 1)
    for (; count >= 4; count -= 4, c += 4 * ld) reflect_four(v, c, ld, n, tau.re);
  for (; count > 0; count--, c += ld) {
    scalar w = times(tau, dot(v, c, n, im));
    add_multiple(c, v, negative(w), n, im);
  }
}

/* Q z or, with `adjoint`, Q^H z, where Q is the product of `count` reflections that lie in the columns of a from row `below` of each on;
   1, the first element of a vector, stands for what is stored there. */
static void multiply_by_reflections(columns a, int below, int count, const T *taus, columns z, int rows, int width, int adjoint) {
  for (int i = 0; i < count; i++) {
    trap_if_stopped();
    int k = adjoint ? i : count - 1 - i, first = k + below;
    T *v = column_at(a, first, k);
    scalar kept = scalar_at(v, a.im), tau = scalar_at(taus + k * PLANES, 1);
    put(v, a.im, (scalar){1, 0});
    reflect_columns(v, column_at(z, first, 0), z.ld, width, rows - first, a.im, adjoint ? conjugate(tau) : tau);
    put(v, a.im, kept);
  }
}

/* The first `width` columns of Q, the same product. */
static void product_of_reflections(columns a, int below, int count, const T *taus, columns z, int rows, int width) {
  identity(z, rows, width);
  for (int k = count - 1; k >= 0; k--) { /* columns before the first row of a vector are still those of the identity */
    trap_if_stopped();
    int first = k + below;
    T *v = column_at(a, first, k);
    scalar kept = scalar_at(v, a.im);
    put(v, a.im, (scalar){1, 0});
    reflect_columns(v, column_at(z, first, first), z.ld, width - first, rows - first, a.im, scalar_at(taus + k * PLANES, 1));
    put(v, a.im, kept);
  }
}

/* `count` + 1 columns, `ld` apart: for one i after the other (z_i, z_i+1) becomes (c_i z_i + s_i z_i+1, c_i z_i+1 - s_i z_i). */
static void rotate_columns(T *z, int ld, int rows, int count, const T *c, const T *s) {
  for (int i = 0; i < rows; i += 4 * LANES, z += 4 * LANES) {
    int whole = rows - i >= 4 * LANES;
    T *p = z;
    vec a0 = load(p), a1 = {0}, a2 = {0}, a3 = {0};
    if (whole) {
      a1 = load(p + LANES), a2 = load(p + 2 * LANES), a3 = load(p + 3 * LANES);
      for (int k = 0; k < count; k++, p += ld) {
        const T *q = p + ld;
        vec b0 = load(q), b1 = load(q + LANES), b2 = load(q + 2 * LANES), b3 = load(q + 3 * LANES);
        store(p, c[k] * a0 + s[k] * b0), store(p + LANES, c[k] * a1 + s[k] * b1);
        store(p + 2 * LANES, c[k] * a2 + s[k] * b2), store(p + 3 * LANES, c[k] * a3 + s[k] * b3);
        a0 = c[k] * b0 - s[k] * a0, a1 = c[k] * b1 - s[k] * a1;
        a2 = c[k] * b2 - s[k] * a2, a3 = c[k] * b3 - s[k] * a3;
      }
      store(p, a0), store(p + LANES, a1), store(p + 2 * LANES, a2), store(p + 3 * LANES, a3);
      continue;
    }
    for (int j = i; j < rows; j += LANES, p = z += LANES) {
      vec a = load(p);
      for (int k = 0; k < count; k++, p += ld) {
        vec b = load(p + ld);
        store(p, c[k] * a + s[k] * b);
        a = c[k] * b - s[k] * a;
      }
      store(p, a);
    }
    return;
  }
}

/* The c, s and r for which c f + s g = r and c g - s f = 0. */
typedef struct {
  T c, s, r;
} rotation;

static rotation rotation_of(T f, T g) {
  if (g == 0) return (rotation){1, 0, f};
  if (f == 0) return (rotation){0, with_sign(1, g), magnitude(g)};
  T most = largest(magnitude(f), magnitude(g)), scale = 1, low = sizeof(T) == 4 ? (T)0x1p-50 : (T)0x1p-480;
  for (; most * scale < low; scale /= low) {} /* so that squares have all their digits */
  for (; most * scale > 1 / low && is_finite(most); scale *= low) {}
  f *= scale, g *= scale;
  T size = root(f * f + g * g), r = with_sign(size, f);
  return (rotation){magnitude(f) / size, g / r, r / scale};
}

/* The length of (a, b), scaled so that no square overflows or vanishes. */
static T hypotenuse(T a, T b) {
  a = magnitude(a), b = magnitude(b);
  T most = largest(a, b), least = smallest(a, b);
  if (most == 0 || !is_finite(most)) return most;
  T ratio = least / most;
  return most * root(1 + ratio * ratio);
}

/* The order in which d ascends (or, with `sign` -1, descends). */
static void sort_order(int *order, const T *d, int n, T sign) {
  for (int i = 0; i < n; i++) {
    int k = i;
    for (; k > 0 && sign * d[order[k - 1]] > sign * d[i]; k--) order[k] = order[k - 1];
    order[k] = i;
  }
}
