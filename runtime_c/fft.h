/* Discrete Fourier transforms over T, for f32 and f64. Define T (float or double) and NAME(x) before including this.

   A transform of length n works on `s` sequences side by side: element j of sequence q lies at j * s + q, imaginary parts in a
   plane of their own, `im` further on. Each pass (Stockham's scheme) splits off a factor of n and turns it into s, which needs
   no reordering at the end, and the innermost loop runs along q in vectors; in the first pass of a single sequence, along p.
   Two planes that change places make the inverse of a transform.

   A plan is [kind, n, m, count, factors ...], made by the compiler: the factors are those of n, or if m is not 0, those of
   m >= 2n - 1, with which n points are transformed by a convolution (Bluestein). kind 1: n pairs stand for 2n real numbers.
   The table of a plan holds, as planes of `count` numbers each: for kind 1 the n + 1 roots that part the pairs; for Bluestein
   n values of a chirp and the m values of its transform; for each pass of the radix r with the rest p < q = n / r, the roots
   of every k from 1 to r - 1, q each; for a radix above 5, its r roots. */
#pragma once

#include "stop.h"

#define LANES (16 / (int)sizeof(T))
#define LARGEST 31 /* the greatest factor for which a pass is made */
#define INLINE static inline __attribute__((always_inline))

typedef T vec __attribute__((vector_size(16)));
typedef T vec_at __attribute__((vector_size(16), aligned(sizeof(T))));
typedef struct { vec re, im; } number;
typedef unsigned long long u64;

double xw_sin_f64(double);
double xw_cos_f64(double);

INLINE vec load(const T *p) { return *(const vec_at *)p; }
INLINE void store(T *p, vec v) { *(vec_at *)p = v; }

/* How the lanes of a vector lie in memory: along q, as one number in all of them, or in the first pass along p. */
enum { ALONG_Q, ONE, ALONG_P };

INLINE vec get(const T *p, int how) { return how == ONE ? p[0] - (vec){0} : load(p); }
INLINE number read(const T *p, int im, int how) { return (number){get(p, how), get(p + im, how)}; }

INLINE number plus(number a, number b) { return (number){a.re + b.re, a.im + b.im}; }
INLINE number minus(number a, number b) { return (number){a.re - b.re, a.im - b.im}; }
INLINE number scaled(number a, T b) { return (number){a.re * b, a.im * b}; }
INLINE number times_i(number a) { return (number){-a.im, a.re}; }
INLINE number times(number a, number b) { return (number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

#define SIN_60 0.866025403784438646763723170752936183
#define COS_72 0.309016994374947424102293417182819059
#define SIN_72 0.951056516295153572116439333379382143
#define COS_36 0.809016994374947424102293417182819059
#define SIN_36 0.587785252292473129168705954639072769

/* The transform of r numbers in place; `roots` are those of a radix above 5. */
INLINE void butterfly(number *x, int r, const T *roots) {
  if (r == 2) {
    number a = x[0];
    x[0] = plus(a, x[1]), x[1] = minus(a, x[1]);
  } else if (r == 3) {
    number a = plus(x[1], x[2]), b = scaled(times_i(minus(x[1], x[2])), (T)SIN_60), c = minus(x[0], scaled(a, (T)0.5));
    x[0] = plus(x[0], a), x[1] = minus(c, b), x[2] = plus(c, b);
  } else if (r == 4) {
    number a = plus(x[0], x[2]), b = minus(x[0], x[2]), c = plus(x[1], x[3]), d = times_i(minus(x[1], x[3]));
    x[0] = plus(a, c), x[1] = minus(b, d), x[2] = minus(a, c), x[3] = plus(b, d);
  } else if (r == 5) {
    number a = plus(x[1], x[4]), b = times_i(minus(x[1], x[4])), c = plus(x[2], x[3]), d = times_i(minus(x[2], x[3]));
    number e = plus(x[0], minus(scaled(a, (T)COS_72), scaled(c, (T)COS_36)));
    number f = plus(x[0], minus(scaled(c, (T)COS_72), scaled(a, (T)COS_36)));
    number g = plus(scaled(b, (T)SIN_72), scaled(d, (T)SIN_36)), h = minus(scaled(b, (T)SIN_36), scaled(d, (T)SIN_72));
    x[0] = plus(x[0], plus(a, c));
    x[1] = minus(e, g), x[4] = plus(e, g), x[2] = minus(f, h), x[3] = plus(f, h);
  } else {
    /* Pairs j and r - j share their cosines and, but for the sign, their sines. */
    number first = x[0], y[LARGEST];
    y[0] = first;
    for (int j = 1; 2 * j < r; j++) {
      number a = plus(x[j], x[r - j]), b = times_i(minus(x[j], x[r - j]));
      x[j] = a, x[r - j] = b;
      y[0] = plus(y[0], a);
    }
    for (int k = 1; 2 * k < r; k++) {
      number e = first, g = {{0}, {0}};
      for (int j = 1, at = k; 2 * j < r; j++, at = at + k < r ? at + k : at + k - r) {
        e = plus(e, scaled(x[j], roots[at]));
        g = plus(g, scaled(x[r - j], roots[r + at]));
      }
      y[k] = plus(e, g), y[r - k] = minus(e, g);
    }
    for (int k = 0; k < r; k++) x[k] = y[k];
  }
}

/* LANES vectors as the rows of a matrix, transposed. */
INLINE void cross(vec *v) {
#if LANES_ARE_TWO
  vec a = v[0];
  v[0] = __builtin_shufflevector(a, v[1], 0, 2), v[1] = __builtin_shufflevector(a, v[1], 1, 3);
#else
  vec a = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5), b = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5);
  vec c = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7), d = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
  v[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5), v[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
  v[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5), v[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
#endif
}

/* Four vectors along p as rows of four along k. */
INLINE void store_crossed(T *y, vec *v) {
  for (int half = 0; half < 4; half += LANES) cross(v + half);
  for (int l = 0; l < LANES; l++)
    for (int half = 0; half < 4; half += LANES) store(y + 4 * l + half, v[l + half]);
}

/* r numbers of the distance `step`, transformed and turned by w, to neighbours `s` apart. */
INLINE void point(const T *x, T *y, int r, int step, int s, int im, const T *w, int q, const T *roots, int how) {
  number v[LARGEST];
  for (int j = 0; j < r; j++) v[j] = read(x + j * step, im, how);
  butterfly(v, r, roots);
  if (w)
    for (int k = 1; k < r; k++) v[k] = times(v[k], read(w + 2 * (k - 1) * q, q, how == ALONG_P ? ALONG_P : ONE));
  if (how == ALONG_P && r == 4) {
    vec re[4] = {v[0].re, v[1].re, v[2].re, v[3].re}, other[4] = {v[0].im, v[1].im, v[2].im, v[3].im};
    store_crossed(y, re);
    store_crossed(y + im, other);
    return;
  }
  for (int k = 0; k < r; k++) {
    T *to = y + k * s;
    if (how == ALONG_Q) {
      store(to, v[k].re), store(to + im, v[k].im);
    } else if (how == ONE) {
      to[0] = v[k].re[0], to[im] = v[k].im[0];
    } else {
      for (int l = 0; l < LANES; l++) to[l * r] = v[k].re[l], to[l * r + im] = v[k].im[l];
    }
  }
}

INLINE void pass(const T *x, T *y, int r, int q, int s, int im, const T *w, const T *roots) {
  int step = q * s, p = 0;
  if (s == 1)
    for (; p + LANES <= q; p += LANES) point(x + p, y + p * r, r, step, s, im, w + p, q, roots, ALONG_P);
  for (; p < q; p++) {
    const T *from = x + p * s, *turn = p ? w + p : 0;
    T *to = y + p * s * r;
    int i = 0;
    for (; i + LANES <= s; i += LANES) point(from + i, to + i, r, step, s, im, turn, q, roots, ALONG_Q);
    for (; i < s; i++) point(from + i, to + i, r, step, s, im, turn, q, roots, ONE);
  }
}

static void pass2(const T *x, T *y, int q, int s, int im, const T *w) { pass(x, y, 2, q, s, im, w, 0); }
static void pass3(const T *x, T *y, int q, int s, int im, const T *w) { pass(x, y, 3, q, s, im, w, 0); }
static void pass4(const T *x, T *y, int q, int s, int im, const T *w) { pass(x, y, 4, q, s, im, w, 0); }
static void pass5(const T *x, T *y, int q, int s, int im, const T *w) { pass(x, y, 5, q, s, im, w, 0); }
static void pass_any(const T *x, T *y, int r, int q, int s, int im, const T *w, const T *roots) {
  for (int p = 0; p < q; p++)
    for (int i = 0; i < s; i += i + LANES <= s ? LANES : 1) {
      const T *from = x + p * s + i, *turn = p ? w + p : 0;
      T *to = y + p * s * r + i;
      if (i + LANES <= s)
        point(from, to, r, q * s, s, im, turn, q, roots, ALONG_Q);
      else
        point(from, to, r, q * s, s, im, turn, q, roots, ONE);
    }
}

/* All passes over the n * s numbers at x, with memory of the same size at y; where the result lies. */
static T *passes(T *x, T *y, const int *factors, int count, int n, int s, int im, const T *w) {
  for (int i = 0; i < count; i++) {
    trap_if_stopped();
    int r = factors[i], q = n / r;
    const T *roots = w + 2 * (r - 1) * q;
    if (r == 2) pass2(x, y, q, s, im, w);
    else if (r == 3) pass3(x, y, q, s, im, w);
    else if (r == 4) pass4(x, y, q, s, im, w);
    else if (r == 5) pass5(x, y, q, s, im, w);
    else pass_any(x, y, r, q, s, im, w, roots);
    w = r > 5 ? roots + 2 * r : roots;
    n = q, s *= r;
    T *t = x;
    x = y, y = t;
  }
  return x;
}

/* n times s numbers of x turned by n numbers of the table; each also times `scale`. */
static void turn(T *x, int n, int s, int im, const T *w, T scale) {
  for (int j = 0; j < n; j++)
    for (int i = 0; i < s; i++) {
      T a = w[j] * scale, b = w[j + n] * scale, *p = x + j * s + i, re = p[0];
      p[0] = re * a - p[im] * b;
      p[im] = re * b + p[im] * a;
    }
}

/* The transform of s sequences at x, whose planes are `im` apart (negative: the inverse); where the result lies. */
static T *transform(T *x, T *y, const int *plan, const T *table, int s, int im) {
  int n = plan[1], m = plan[2];
  if (plan[0]) table += 2 * (n + 1);
  if (!m) return passes(x, y, plan + 4, plan[3], n, s, im, table);
  const T *chirp = table, *spectrum = table + 2 * n, *w = spectrum + 2 * m;
  turn(x, n, s, im, chirp, 1);
  for (int i = n * s; i < m * s; i++) x[i] = x[i + im] = 0;
  T *z = passes(x, y, plan + 4, plan[3], m, s, im, w), *other = z == x ? y : x;
  turn(z, m, s, im, spectrum, 1);
  T *end = passes(z + im, other + im, plan + 4, plan[3], m, s, -im, w) - im;
  turn(end, n, s, im, chirp, (T)1 / (T)m);
  return end;
}

/* --- tables -------------------------------------------------------------------------------------------------- */

/* exp(-2 pi i j / n) into two planes `im` apart, from an angle of at most pi / 4. */
static void root_of_one(T *to, int im, u64 j, u64 n) {
  u64 t = 8 * (j % n);
  int below = t > 4 * n, left = 0, steep = 0;
  if (below) t = 8 * n - t;
  if (t > 2 * n) t = 4 * n - t, left = 1;
  if (t > n) t = 2 * n - t, steep = 1;
  double angle = 0x1.921fb54442d18p-1 * ((double)t / (double)n), c = xw_cos_f64(angle), s = xw_sin_f64(angle);
  double re = steep ? s : c, im_ = steep ? c : s;
  to[0] = (T)(left ? -re : re);
  to[im] = (T)(below ? im_ : -im_);
}

void NAME(fft_table)(T *table, const int *plan, T *work) {
  int n = plan[1], m = plan[2], rest = m ? m : n;
  if (plan[0]) {
    for (int k = 0; k <= n; k++) root_of_one(table + k, n + 1, k, 2 * n);
    table += 2 * (n + 1);
  }
  T *w = m ? table + 2 * (n + m) : table;
  for (int i = 0; i < plan[3]; i++) {
    int r = plan[4 + i], q = rest / r;
    for (int k = 1; k < r; k++, w += 2 * q)
      for (int p = 0; p < q; p++) root_of_one(w + p, q, (u64)p * k, rest);
    if (r > 5) {
      for (int k = 0; k < r; k++) root_of_one(w + k, r, k, r);
      w += 2 * r;
    }
    rest = q;
  }
  if (!m) return;
  w = table + 2 * (n + m);
  for (int i = 0; i < 2 * m; i++) work[i] = 0;
  for (int j = 0; j < n; j++) {
    root_of_one(table + j, n, (u64)j * j, 2 * (u64)n);
    T *p = work + j;
    p[0] = table[j], p[m] = -table[j + n];
    if (j) work[m - j] = p[0], work[2 * m - j] = p[m];
  }
  T *z = passes(work, work + 2 * m, plan + 4, plan[3], m, 1, m, w);
  for (int i = 0; i < 2 * m; i++) table[2 * n + i] = z[i];
}

/* --- between memory and planes ------------------------------------------------------------------------------- */

/* Sequences in memory: element j of sequence q is the number at data + 2 * (j * step + q * apart). */

static void part(T *to, int im, const T *from, int count) {
  int i = 0;
  for (; i + LANES <= count; i += LANES) {
    vec a = load(from + 2 * i), b = load(from + 2 * i + LANES);
#if LANES_ARE_TWO
    store(to + i, __builtin_shufflevector(a, b, 0, 2)), store(to + i + im, __builtin_shufflevector(a, b, 1, 3));
#else
    store(to + i, __builtin_shufflevector(a, b, 0, 2, 4, 6)), store(to + i + im, __builtin_shufflevector(a, b, 1, 3, 5, 7));
#endif
  }
  for (; i < count; i++) to[i] = from[2 * i], to[i + im] = from[2 * i + 1];
}

static void join(T *to, const T *from, int im, int count, T scale) {
  int i = 0;
  for (; i + LANES <= count; i += LANES) {
    vec a = load(from + i) * scale, b = load(from + i + im) * scale;
#if LANES_ARE_TWO
    store(to + 2 * i, __builtin_shufflevector(a, b, 0, 2)), store(to + 2 * i + LANES, __builtin_shufflevector(a, b, 1, 3));
#else
    store(to + 2 * i, __builtin_shufflevector(a, b, 0, 4, 1, 5)), store(to + 2 * i + LANES, __builtin_shufflevector(a, b, 2, 6, 3, 7));
#endif
  }
  for (; i < count; i++) to[2 * i] = from[i] * scale, to[2 * i + 1] = from[i + im] * scale;
}

static void gather(T *to, int im, const T *from, int n, int s, int step, int apart) {
  if (s == 1 && step == 1) {
    part(to, im, from, n);
  } else if (apart == 1) {
    for (int j = 0; j < n; j++) part(to + j * s, im, from + 2 * j * step, s);
  } else {
    int across = step == 1 ? s / LANES * LANES : 0, along = n / (LANES / 2) * (LANES / 2);
    for (int q = 0; q < across; q += LANES)
      for (int j = 0; j < along; j += LANES / 2) {
        vec v[LANES];
        for (int i = 0; i < LANES; i++) v[i] = load(from + 2 * (j + (q + i) * apart));
        cross(v);
        T *p = to + j * s + q;
        for (int i = 0; i < LANES; i += 2, p += s) store(p, v[i]), store(p + im, v[i + 1]);
      }
    for (int q = 0; q < s; q++)
      for (int j = q < across ? along : 0; j < n; j++) {
        const T *p = from + 2 * (j * step + q * apart);
        to[j * s + q] = p[0], to[j * s + q + im] = p[1];
      }
  }
}

static void scatter(T *to, const T *from, int im, int n, int s, int step, int apart, T scale) {
  if (s == 1 && step == 1) {
    join(to, from, im, n, scale);
  } else if (apart == 1) {
    for (int j = 0; j < n; j++) join(to + 2 * j * step, from + j * s, im, s, scale);
  } else {
    int across = step == 1 ? s / LANES * LANES : 0, along = n / (LANES / 2) * (LANES / 2);
    for (int q = 0; q < across; q += LANES)
      for (int j = 0; j < along; j += LANES / 2) {
        vec v[LANES];
        const T *p = from + j * s + q;
        for (int i = 0; i < LANES; i += 2, p += s) v[i] = load(p) * scale, v[i + 1] = load(p + im) * scale;
        cross(v);
        for (int i = 0; i < LANES; i++) store(to + 2 * (j + (q + i) * apart), v[i]);
      }
    for (int q = 0; q < s; q++)
      for (int j = q < across ? along : 0; j < n; j++) {
        T *p = to + 2 * (j * step + q * apart);
        p[0] = from[j * s + q] * scale, p[1] = from[j * s + q + im] * scale;
      }
  }
}

/* --- the transforms ------------------------------------------------------------------------------------------ */

INLINE vec reversed(vec v) {
#if LANES_ARE_TWO
  return __builtin_shufflevector(v, v, 1, 0);
#else
  return __builtin_shufflevector(v, v, 3, 2, 1, 0);
#endif
}

/* One element of what stands between n pairs of real numbers and half a spectrum of 2n: with z = x[k], c = conj(x[n - k]) and
   w = roots[k], to the spectrum (z + c) / 2 - i w (z - c) / 2, from it (z + c) + i conj(w) (z - c). */
INLINE void parted(T *y, const T *x, const T *mirrored, const T *w, int wim, int im, int inverse, int how) {
  number z = read(x, im, how), c = read(mirrored, im, how), turn = read(w, wim, how == ALONG_P ? ALONG_P : ONE);
  if (how == ALONG_P) c = (number){reversed(c.re), reversed(c.im)};
  c.im = -c.im;
  if (inverse) turn.im = -turn.im;
  number e = plus(z, c), o = times_i(times(minus(z, c), turn));
  number v = inverse ? plus(e, o) : scaled(minus(e, o), (T)0.5);
  if (how == ONE)
    y[0] = v.re[0], y[im] = v.im[0];
  else
    store(y, v.re), store(y + im, v.im);
}

static void part_pairs(T *y, const T *x, int n, int s, int im, const T *roots, int inverse) {
  int k = 0;
  for (; k <= n - inverse; k++) {
    /* A spectrum has n + 1 elements, pairs have n and go round. */
    int at = !inverse && k == n ? 0 : k, mirrored = !inverse && k == 0 ? 0 : n - k;
    if (s == 1 && k && k + LANES <= n) {
      parted(y + k, x + k, x + n - k - LANES + 1, roots + k, n + 1, im, inverse, ALONG_P);
      k += LANES - 1;
      continue;
    }
    int i = 0;
    for (; i + LANES <= s; i += LANES)
      parted(y + k * s + i, x + at * s + i, x + mirrored * s + i, roots + k, n + 1, im, inverse, ALONG_Q);
    for (; i < s; i++) parted(y + k * s + i, x + at * s + i, x + mirrored * s + i, roots + k, n + 1, im, inverse, ONE);
  }
}

enum { FFT, IFFT, RFFT, IRFFT };

/* Transforms rows, at most `width` of them at once; the result is divided by `total`. */
void NAME(fft_rows)(T *out, const T *in, const int *plan, const T *table, T *work, int rows, int kind, unsigned total, int width) {
  int pairs = plan[0], n = plan[1], m = plan[2], im = ((m ? m : n) + 1) * width, half = pairs ? n + 1 : n / 2 + 1;
  T scale = (T)1 / (T)total, *x = work, *y = work + 2 * im;
  for (int s; rows > 0; rows -= s) {
    s = rows < width ? rows : width;
    if (kind < RFFT) {
      gather(x, im, in, n, s, 1, n);
      T *z = kind == FFT ? transform(x, y, plan, table, s, im) : transform(x + im, y + im, plan, table, s, -im) - im;
      scatter(out, z, im, n, s, 1, n, scale);
      in += 2 * n * s, out += 2 * n * s;
    } else if (kind == RFFT && pairs) {
      gather(x, im, in, n, s, 1, n);
      T *z = transform(x, y, plan, table, s, im), *end = z == x ? y : x;
      part_pairs(end, z, n, s, im, table, 0);
      scatter(out, end, im, half, s, 1, half, scale);
      in += 2 * n * s, out += 2 * half * s;
    } else if (kind == RFFT) {
      for (int q = 0; q < s; q++)
        for (int j = 0; j < n; j++) x[j * s + q] = in[q * n + j], x[j * s + q + im] = 0;
      scatter(out, transform(x, y, plan, table, s, im), im, half, s, 1, half, scale);
      in += n * s, out += 2 * half * s;
    } else {
      gather(y, im, in, half, s, 1, half);
      for (int q = 0; q < s; q++) y[q + im] = 0;
      if (pairs) {
        for (int q = 0; q < s; q++) y[n * s + q + im] = 0;
        part_pairs(x, y, n, s, im, table, 1);
        scatter(out, transform(x + im, y + im, plan, table, s, -im) - im, im, n, s, 1, n, scale);
      } else {
        for (int j = 0; j < n; j++)
          for (int q = 0; q < s; q++) {
            const T *p = y + (j < half ? j : n - j) * s + q;
            x[j * s + q] = p[0], x[j * s + q + im] = j < half ? p[im] : -p[im];
          }
        const T *z = transform(x + im, y + im, plan, table, s, -im) - im;
        for (int q = 0; q < s; q++)
          for (int j = 0; j < n; j++) out[q * n + j] = z[j * s + q] * scale;
      }
      in += 2 * half * s, out += (pairs ? 2 * n : n) * s;
    }
  }
}

/* Transforms the middle dimension of [outer, n, inner]; `out` may be `in`. */
void NAME(fft_columns)(T *out, const T *in, const int *plan, const T *table, T *work, int outer, int inner, int inverse, unsigned total,
                       int width) {
  int n = plan[1], m = plan[2], im = ((m ? m : n) + 1) * width;
  T scale = (T)1 / (T)total, *x = work, *y = work + 2 * im;
  for (; outer-- > 0; in += 2 * n * inner, out += 2 * n * inner)
    for (int first = 0; first < inner; first += width) {
      int s = inner - first < width ? inner - first : width;
      gather(x, im, in + 2 * first, n, s, inner, 1);
      T *z = inverse ? transform(x + im, y + im, plan, table, s, -im) - im : transform(x, y, plan, table, s, im);
      scatter(out + 2 * first, z, im, n, s, inner, 1, scale);
    }
}
