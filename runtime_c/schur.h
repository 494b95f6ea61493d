/* Schur form by the QR algorithm; included after pivoted_qr.h with the same T, PLANES, NAME. */
#pragma once

/* Where the algorithm works: h in Hessenberg form with zeros below, and z, unless without data, which takes part in everything. Where only
   eigenvalues are wanted, `whole` is 0, and nothing outside of the block at hand is kept up. */
typedef struct {
  columns h, z;
  int n, whole;
} hessenberg_pair;

INLINE scalar at(columns a, int i, int j) { return scalar_at(column_at(a, i, j), a.im); }

/* Whether the element below the diagonal in column k - 1 may be 0 (Ahues and Tisseur's test, as LAPACK has it). With `patient` 0 rounding
   of the whole matrix is enough: it may be what keeps the element from becoming smaller. */
static int splits(columns h, int k, int n, int patient) {
  T below = size_of(at(h, k, k - 1)), low = TINY * (n / (2 * EPS));
  if (below <= low) return 1;
  scalar here = at(h, k, k), before = at(h, k - 1, k - 1);
  T around = size_of(here) + size_of(before);
  if (around == 0) {
    if (k >= 2) around += magnitude(at(h, k - 1, k - 2).re);
    if (k + 1 < n) around += magnitude(at(h, k + 1, k).re);
  }
  if (below > 2 * EPS * around || !patient) return below <= 2 * EPS * around;
  T above = size_of(at(h, k - 1, k)), apart = size_of(difference(before, here)), own = size_of(here);
  T ab = largest(below, above), ba = smallest(below, above), aa = largest(own, apart), bb = smallest(own, apart), s = aa + ab;
  return ba * (ab / s) <= largest(low, 2 * EPS * (bb * (aa / s)));
}

/* The first row of the block that ends in row `end`; what stands before it becomes 0. */
static int block_start(columns h, int end, int n, int patient) {
  int k = end;
  for (; k > 0 && !splits(h, k, n, patient || k < end - 1); k--) {}
  if (k > 0) put(column_at(h, k, k - 1), h.im, (scalar){0, 0});
  return k;
}

#if PLANES == 1

/* Rows k and k + 1 from column `from` to n, columns k and k + 1 from row `top` to `bottom`, and z, are rotated. */
static void rotate_similar(hessenberg_pair p, int k, int from, int top, int bottom, T c, T s) {
  for (int j = from; j < (p.whole ? p.n : bottom); j++) {
    T *q = column_at(p.h, k, j), x = q[0], y = q[1];
    q[0] = c * x + s * y, q[1] = c * y - s * x;
  }
  rotate_columns(column_at(p.h, top, k), p.h.ld, bottom - top, 1, &c, &s);
  if (p.z.data) rotate_columns(column_at(p.z, 0, k), p.z.ld, p.n, 1, &c, &s);
}

/* A real 2x2 matrix (a b; c d) in standard form: triangular, or with equal diagonal elements and b c < 0; by the rotation (c, s). */
typedef struct {
  T a, b, c, d, cs, sn;
} standard;

static standard turn(standard m, T cs, T sn) {
  T aa = m.a * cs + m.b * sn, bb = m.b * cs - m.a * sn, cc = m.c * cs + m.d * sn, dd = m.d * cs - m.c * sn;
  return (standard){aa * cs + cc * sn, bb * cs + dd * sn, cc * cs - aa * sn, dd * cs - bb * sn, cs, sn};
}

static standard standard_form(T a, T b, T c, T d) {
  standard m = {a, b, c, d, 1, 0};
  if (c == 0 || (a == d && (b < 0) != (c < 0) && b != 0)) return m;
  if (b == 0) return (standard){d, -c, 0, a, 0, 1};
  T gap = a - d, p = gap / 2, more = largest(magnitude(b), magnitude(c)), less = smallest(magnitude(b), magnitude(c));
  if ((b < 0) != (c < 0)) less = -less;
  T scale = largest(magnitude(p), more), z = p / scale * p + more / scale * less;
  if (z >= 8 * EPS) { /* two real eigenvalues */
    z = p + with_sign(root(scale) * root(z), p);
    T r = hypotenuse(c, z);
    return (standard){d + z, b - c, 0, d - more / z * less, z / r, c / r};
  }
  T sigma = b + c, r = hypotenuse(sigma, gap);
  T cs = root((1 + magnitude(sigma) / r) / 2), sn = -(p / (r * cs)) * with_sign(1, sigma);
  m = turn(m, cs, sn);
  T middle = m.a = m.d = (m.a + m.d) / 2;
  if (m.c == 0) return m;
  if (m.b == 0) return (standard){middle, -m.c, 0, middle, -sn, cs};
  if ((m.b < 0) != (m.c < 0)) return m;
  /* Two that are real and almost equal */
  T rb = root(magnitude(m.b)), rc = root(magnitude(m.c)), by = 1 / root(magnitude(m.b + m.c)), c1 = rb * by, s1 = rc * by;
  p = with_sign(rb * rc, m.c);
  return (standard){middle + p, m.b - m.c, 0, middle - p, cs * c1 - sn * s1, cs * s1 + sn * c1};
}

/* Two shifts, the eigenvalues of (a b; c d): a pair, or the one nearer to d twice. */
typedef struct {
  T re1, im1, re2, im2;
} shifts;

static shifts shifts_of(T a, T b, T c, T d) {
  T s = magnitude(a) + magnitude(b) + magnitude(c) + magnitude(d);
  if (s == 0) return (shifts){0, 0, 0, 0};
  a /= s, b /= s, c /= s, d /= s;
  T middle = (a + d) / 2, det = (a - middle) * (d - middle) - b * c, r = root(magnitude(det));
  if (det >= 0) return (shifts){middle * s, r * s, middle * s, -r * s};
  T one = middle + r, other = middle - r, nearer = magnitude(one - d) <= magnitude(other - d) ? one : other;
  return (shifts){nearer * s, 0, nearer * s, 0};
}

/* The first column of the product of both shifted matrices in row m, scaled. */
static void first_column(columns h, int m, shifts t, T *v) {
  T a = *column_at(h, m, m), below = *column_at(h, m + 1, m);
  T s = magnitude(a - t.re2) + magnitude(t.im2) + magnitude(below);
  below /= s;
  v[0] = below * *column_at(h, m, m + 1) + (a - t.re1) * ((a - t.re2) / s) - t.im1 * (t.im2 / s);
  v[1] = below * (a + *column_at(h, m + 1, m + 1) - t.re1 - t.re2);
  v[2] = below * *column_at(h, m + 2, m + 1);
  s = magnitude(v[0]) + magnitude(v[1]) + magnitude(v[2]);
  for (int i = 0; s != 0 && i < 3; i++) v[i] /= s;
}

/* Where a sweep may begin: two elements below the diagonal that are small together. */
static int sweep_start(columns h, int first, int end, shifts t, T *v) {
  int m = end - 2;
  for (;; m--) {
    first_column(h, m, t, v);
    if (m == first) return m;
    T around = magnitude(*column_at(h, m - 1, m - 1)) + magnitude(*column_at(h, m, m)) + magnitude(*column_at(h, m + 1, m + 1));
    if (magnitude(*column_at(h, m, m - 1)) * (magnitude(v[1]) + magnitude(v[2])) <= 2 * EPS * magnitude(v[0]) * around) return m;
  }
}

/* Three columns (two, where z is null), c -= (c v) tau v^T */
static void reflect_across(T *x, T *y, T *z, int rows, const T *v, T tau) {
  for (int i = 0; i < rows; i += LANES) {
    vec a = load(x + i), b = load(y + i), s = a + v[1] * b;
    if (z) {
      vec c = load(z + i);
      s = (s + v[2] * c) * tau;
      store(z + i, c - s * v[2]);
    } else {
      s *= tau;
    }
    store(x + i, a - s), store(y + i, b - s * v[1]);
  }
}

/* One sweep with two shifts over rows m to `end`. */
static void double_sweep(hessenberg_pair p, int first, int m, int end, T *v) {
  columns h = p.h;
  int top = p.whole ? 0 : first, right = p.whole ? p.n : end + 1;
  for (int k = m; k < end; k++) {
    int three = k < end - 1, bottom = k + 3 < end ? k + 3 : end;
    if (k > m)
      for (int i = 0; i < 2 + three; i++) v[i] = *column_at(h, k + i, k - 1);
    T tau = reflection(v, 2 + three, 0).re;
    if (k > m) {
      *column_at(h, k, k - 1) = v[0];
      for (int i = 1; i < 2 + three; i++) *column_at(h, k + i, k - 1) = 0;
    } else if (m > first) {
      *column_at(h, k, k - 1) *= 1 - tau;
    }
    for (int j = k; j < right; j++) {
      T *q = column_at(h, k, j), s = tau * (q[0] + v[1] * q[1] + (three ? v[2] * q[2] : 0));
      q[0] -= s, q[1] -= s * v[1];
      if (three) q[2] -= s * v[2];
    }
    reflect_across(column_at(h, top, k), column_at(h, top, k + 1), three ? column_at(h, top, k + 2) : 0, bottom + 1 - top, v, tau);
    if (p.z.data) reflect_across(column_at(p.z, 0, k), column_at(p.z, 0, k + 1), three ? column_at(p.z, 0, k + 2) : 0, p.n, v, tau);
  }
}

/* The block in rows k and k + 1 in standard form, and its eigenvalues. */
static void settle_pair(hessenberg_pair p, int first, int k, T *re, T *im) {
  columns h = p.h;
  standard m = standard_form(*column_at(h, k, k), *column_at(h, k, k + 1), *column_at(h, k + 1, k), *column_at(h, k + 1, k + 1));
  rotate_similar(p, k, k, p.whole ? 0 : first, k + 2, m.cs, m.sn);
  *column_at(h, k, k) = m.a, *column_at(h, k, k + 1) = m.b, *column_at(h, k + 1, k) = m.c, *column_at(h, k + 1, k + 1) = m.d;
  re[k] = m.a, re[k + 1] = m.d;
  im[k] = m.c == 0 ? 0 : root(magnitude(m.b)) * root(magnitude(m.c));
  im[k + 1] = 0 - im[k];
}

/* Schur form of a Hessenberg matrix, and its eigenvalues; 0, or the number of the row (from 1) up to which it did not converge. */
static int schur_form(hessenberg_pair p, T *re, T *im) {
  columns h = p.h;
  int since = 0, left = 30 * (p.n > 10 ? p.n : 10), end = p.n - 1;
  while (end >= 0) {
    trap_if_stopped();
    int first = block_start(h, end, p.n, since < 15);
    if (first >= end - 1) {
      if (first == end)
        re[end] = *column_at(h, end, end), im[end] = 0;
      else
        settle_pair(p, first, first, re, im);
      end = first - 1, since = 0;
      continue;
    }
    if (left-- == 0) return end + 1;
    since++;
    T v[3], a = *column_at(h, end - 1, end - 1), b = *column_at(h, end - 1, end);
    T c = *column_at(h, end, end - 1), d = *column_at(h, end, end);
    if (since % 20 == 10) { /* shifts that have nothing to do with what repeats itself */
      T s = magnitude(*column_at(h, first + 1, first)) + magnitude(*column_at(h, first + 2, first + 1));
      a = d = (T)0.75 * s + *column_at(h, first, first), b = (T)-0.4375 * s, c = s;
    } else if (since % 20 == 0) {
      T s = magnitude(c) + magnitude(*column_at(h, end - 1, end - 2));
      a = d = (T)0.75 * s + d, b = (T)-0.4375 * s, c = s;
    }
    int m = sweep_start(h, first, end, shifts_of(a, b, c, d), v);
    double_sweep(p, first, m, end, v);
  }
  return 0;
}

#else

static scalar square_root(scalar a) {
  T size = hypotenuse(a.re, a.im), r = root((size + magnitude(a.re)) / 2);
  if (r == 0) return (scalar){0, 0};
  T other = a.im / (2 * r);
  return a.re >= 0 ? (scalar){r, other} : (scalar){magnitude(other), with_sign(r, a.im)};
}

/* The eigenvalue of the last 2x2 block that is nearer to its last element. */
static scalar shift_of(columns h, int end) {
  scalar t = at(h, end, end), u = times(square_root(at(h, end - 1, end)), square_root(at(h, end, end - 1)));
  T s = size_of(u);
  if (s == 0) return t;
  scalar x = difference(at(h, end - 1, end - 1), t);
  x.re /= 2, x.im /= 2;
  T own = size_of(x);
  s = largest(s, own);
  scalar a = {x.re / s, x.im / s}, b = {u.re / s, u.im / s}, aa = times(a, a), bb = times(b, b);
  scalar y = square_root((scalar){aa.re + bb.re, aa.im + bb.im});
  y.re *= s, y.im *= s;
  if (own > 0 && (x.re / own) * y.re + (x.im / own) * y.im < 0) y = negative(y);
  return difference(t, times(u, quotient(u, (scalar){x.re + y.re, x.im + y.im})));
}

/* c x + s y and c y - conj(s) x, for two columns */
static void rotate_across(T *x, T *y, int im, int rows, T c, scalar s) {
  for (int i = 0; i < rows; i += LANES) {
    vec a = load(x + i), b = load(x + im + i), p = load(y + i), q = load(y + im + i);
    store(x + i, c * a + (s.re * p - s.im * q)), store(x + im + i, c * b + (s.re * q + s.im * p));
    store(y + i, c * p - (s.re * a + s.im * b)), store(y + im + i, c * q - (s.re * b - s.im * a));
  }
}

/* a / |a|, with all its digits even where `a` has few; 1 for 0. */
static scalar phase_of(scalar a) {
  T most = largest(magnitude(a.re), magnitude(a.im)), up = sizeof(T) == 4 ? (T)0x1p80 : (T)0x1p800;
  if (most == 0) return (scalar){1, 0};
  if (most < 1 / up) a.re *= up, a.im *= up;
  T size = hypotenuse(a.re, a.im);
  return (scalar){a.re / size, a.im / size};
}

/* One sweep with a shift over rows `first` to `end`. */
static void single_sweep(hessenberg_pair p, int first, int end, scalar shift) {
  columns h = p.h;
  int top = p.whole ? 0 : first, right = p.whole ? p.n : end + 1;
  scalar f = difference(at(h, first, first), shift), g = at(h, first + 1, first);
  for (int k = first; k < end; k++) {
    if (k > first) f = at(h, k, k - 1), g = at(h, k + 1, k - 1);
    /* So that tiny ones have digits */
    T up = sizeof(T) == 4 ? (T)0x1p80 : (T)0x1p800, by = largest(size_of(f), size_of(g)) < 1 / up ? up : 1;
    f.re *= by, f.im *= by, g.re *= by, g.im *= by;
    T fa = hypotenuse(f.re, f.im), ga = hypotenuse(g.re, g.im), r = hypotenuse(fa, ga);
    if (r == 0) continue;
    /* (c s; -conj(s) c) (f; g) = (f / |f| r; 0) */
    scalar phase = phase_of(f), other = {g.re / r, -g.im / r};
    T c = fa / r;
    scalar s = times(phase, other);
    if (k > first) {
      put(column_at(h, k, k - 1), h.im, (scalar){phase.re * (r / by), phase.im * (r / by)});
      put(column_at(h, k + 1, k - 1), h.im, (scalar){0, 0});
    }
    for (int j = k; j < right; j++) {
      T *q = column_at(h, k, j);
      scalar x = scalar_at(q, h.im), y = scalar_at(q + 1, h.im), u = times(s, y), v = times(conjugate(s), x);
      put(q, h.im, (scalar){c * x.re + u.re, c * x.im + u.im});
      put(q + 1, h.im, (scalar){c * y.re - v.re, c * y.im - v.im});
    }
    int bottom = k + 2 < end ? k + 2 : end;
    rotate_across(column_at(h, top, k), column_at(h, top, k + 1), h.im, bottom + 1 - top, c, conjugate(s));
    if (p.z.data) rotate_across(column_at(p.z, 0, k), column_at(p.z, 0, k + 1), h.im, p.n, c, conjugate(s));
  }
}

/* Schur form of a Hessenberg matrix, and its eigenvalues; 0, or the number of the row (from 1) up to which it did not converge. */
static int schur_form(hessenberg_pair p, T *re, T *im) {
  columns h = p.h;
  int since = 0, left = 30 * (p.n > 10 ? p.n : 10), end = p.n - 1;
  while (end >= 0) {
    trap_if_stopped();
    int first = block_start(h, end, p.n, since < 15);
    if (first == end) {
      re[end] = at(h, end, end).re, im[end] = at(h, end, end).im;
      end--, since = 0;
      continue;
    }
    if (left-- == 0) return end + 1;
    since++;
    scalar shift = shift_of(h, end);
    if (since % 20 == 10 || since % 20 == 0) { /* a shift that has nothing to do with what repeats itself */
      int k = since % 20 ? first : end;
      shift = at(h, k, k);
      shift.re += (T)0.75 * magnitude(at(h, since % 20 ? first + 1 : end, since % 20 ? first : end - 1).re);
    }
    single_sweep(p, first, end, shift);
  }
  return 0;
}

#endif

/* From a matrix of which rows and columns `low` to `high` are not triangular to its Schur form; z, unless without data, becomes the
   unitary matrix of it. */
static int schur_of(columns a, columns z, int n, int low, int high, int whole, T *re, T *im, T *work) {
  T *taus = work + a.ld;
  hessenberg_form(a, n, low, high, taus, work);
  if (z.data) product_of_reflections(a, 1, n - 1, taus, z, n, n);
  for (int j = 0; j < n; j++)
    for (int i = j + 2; i < n; i++) put(column_at(a, i, j), a.im, (scalar){0, 0});
  return schur_form((hessenberg_pair){a, z, n, whole}, re, im);
}

/* As LAPACK's gees: the Schur form in t and, with VECTORS, the Schur vectors. Eigenvalues are in w, their imaginary parts, for real types,
   in `wi`. */
void NAME(schur)(T *t, T *q, T *w, T *wi, int *none, int *info, const T *a, T *work, int batch, int n, int flags) {
  columns h = columns_in(work, n), z = columns_in(column_at(h, 0, n), n);
  T *re = column_at(z, 0, n), *im = re + n, *more = im + n, nan = (T)__builtin_nan("");
  if (!(flags & VECTORS)) z.data = 0;
  for (; batch-- > 0; a += n * n * PLANES, t += n * n * PLANES, q += n * n * PLANES) {
    read_columns(h, a, n, n, n, 1, 1);
    T size = greatest(h.data, n * h.ld), scale = is_finite(size) ? scale_for(size) : 1;
    *none++ = 0;
    fill(re, n, nan), fill(im, n, nan);
    if (!is_finite(size)) {
      fill(t, n * n * PLANES, nan), fill(q, n * n * PLANES, nan);
      *info++ = n;
    } else {
      multiply(h.data, n * h.ld, scale);
      *info++ = schur_of(h, z, n, 0, n, 1, re, im, more);
      multiply(h.data, n * h.ld, 1 / scale);
      write_columns(t, h, n, n, n, 1, 1, 0);
      if (z.data)
        write_columns(q, z, n, n, n, 1, 1, 0);
      else
        clear(q, n * n * PLANES);
    }
    for (int i = 0; i < n; i++) {
      if (PLANES == 1)
        *w++ = re[i] / scale, *wi++ = im[i] / scale;
      else
        put(w, 1, (scalar){re[i] / scale, im[i] / scale}), w += 2;
    }
  }
}
