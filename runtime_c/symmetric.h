/* Hermitian matrices: tridiagonal form and its eigenvalues; included after columns.h with the same T, PLANES, NAME. */
#pragma once

enum { VECTORS = 32 };

/* --- tridiagonal form ---------------------------------------------------------------------------------------- */

/* Where v, w, x, y are columns: rows and columns `from` to n of the lower triangle become a - v w^H - w v^H, and y their product with x. */
static void update_and_multiply(columns a, int from, int n, const T *v, const T *w, const T *x, T *y) {
  int im = a.im;
  clear(y, a.ld);
  for (int j = from; j < n; j++) {
    T *c = column_at(a, 0, j);
    scalar vj = conjugate(scalar_at(v + j, im)), wj = conjugate(scalar_at(w + j, im)), xj = scalar_at(x + j, im);
    vec sum = {0}, other = {0};
    /* The vectors start at row j; the diagonal's part of the sums is taken back. */
    for (int i = j; i < n; i += LANES) {
      vec p = load(v + i), q = load(w + i), t = load(c + i), z = load(x + i);
      if (PLANES == 1) {
        t -= p * wj.re + q * vj.re;
        store(y + i, load(y + i) + t * xj.re);
        sum += t * z;
      } else {
        vec r = load(v + im + i), s = load(w + im + i), u = load(c + im + i), o = load(x + im + i);
        t -= p * wj.re - r * wj.im + q * vj.re - s * vj.im;
        u -= p * wj.im + r * wj.re + q * vj.im + s * vj.re;
        store(y + i, load(y + i) + (t * xj.re - u * xj.im));
        store(y + im + i, load(y + im + i) + (t * xj.im + u * xj.re));
        store(c + im + i, u);
        sum += t * z + u * o;
        other += t * o - u * z;
      }
      store(c + i, t);
    }
    if (PLANES == 2) c[im + j] = 0; /* what rounding leaves */
    y[j] += total(sum) - c[j] * xj.re;
    if (PLANES == 2) y[im + j] += total(other) - c[j] * xj.im;
  }
}

/* As LAPACK's sytrd for a lower triangle: d, e and, below the diagonal next to the main one, the vectors of the reflections with
   their factors; `work` has four columns. */
static void tridiagonal_form(columns a, int n, T *d, T *e, T *taus, T *work) {
  int im = a.im;
  T *v = work, *w = v + a.ld, *x = w + a.ld, *y = x + a.ld;
  clear(work, 4 * a.ld);
  for (int k = 0; k < n; k++) {
    trap_if_stopped();
    T *c = column_at(a, 0, k);
    if (k > 0) { /* column k, as the last pair leaves it */
      scalar f = conjugate(scalar_at(w + k, im)), g = conjugate(scalar_at(v + k, im));
      add_multiple(c + k, v + k, (scalar){-f.re, -f.im}, n - k, im);
      add_multiple(c + k, w + k, (scalar){-g.re, -g.im}, n - k, im);
    }
    d[k] = c[k];
    if (PLANES == 2) c[k + im] = 0;
    if (k == n - 1) return;
    T *from = c + k + 1;
    int count = n - k - 1;
    scalar tau = reflection(from, count, im);
    put(taus + k * PLANES, 1, tau);
    e[k] = from[0];
    clear(x, a.ld);
    for (int i = 0; i < count; i++) put(x + k + 1 + i, im, scalar_at(from + i, im));
    put(x + k + 1, im, (scalar){1, 0});
    update_and_multiply(a, k + 1, n, v, w, x, y);
    /* w = tau y - tau (tau y)^H v / 2 v */
    clear(w, a.ld);
    add_multiple(w + k + 1, y + k + 1, tau, count, im);
    scalar overlap = times(tau, dot(w + k + 1, x + k + 1, count, im));
    add_multiple(w + k + 1, x + k + 1, (scalar){overlap.re * (T)-0.5, overlap.im * (T)-0.5}, count, im);
    T *other = v;
    v = x, x = other;
  }
}

/* Reads a Hermitian matrix from one triangle; the upper one as the transpose, or with rows and columns turned round. */
static void read_triangle(columns a, const T *x, int n, int lower, int turned) {
  for (int j = 0; j < n; j++) {
    T *c = column_at(a, 0, j);
    clear(c, a.ld);
    for (int i = j; i < n; i++) {
      const T *p = x + (lower ? i * n + j : turned ? (n - 1 - i) * n + n - 1 - j : j * n + i) * PLANES;
      put(c + i, a.im, (scalar){p[0], PLANES == 1 || i == j ? 0 : lower || turned ? p[1] : -p[1]});
    }
  }
}

/* As LAPACK's sytrd and hetrd: the tridiagonal matrix, with the reflections in the triangle of x that was read. */
void NAME(tridiagonal)(T *x, T *d, T *e, T *taus, int *info, const T *a, T *work, int batch, int n, int flags) {
  int lower = flags & LOWER;
  columns m = columns_in(work, n);
  for (; batch-- > 0; a += n * n * PLANES, x += n * n * PLANES, d += n, e += n - 1, taus += (n - 1) * PLANES) {
    read_triangle(m, a, n, lower, 1);
    tridiagonal_form(m, n, d, e, taus, column_at(m, 0, n));
    for (int i = 0; i < n * n * PLANES; i++) x[i] = a[i];
    for (int j = 0; j < n; j++)
      for (int i = j; i < n; i++) {
        scalar s = i == j ? (scalar){d[j], 0} : i == j + 1 ? (scalar){e[j], 0} : scalar_at(column_at(m, i, j), m.im);
        put(x + (lower ? i * n + j : (n - 1 - i) * n + n - 1 - j) * PLANES, 1, s);
      }
    if (!lower) { /* in the order of the matrix as it stands */
      for (int i = 0, j = n - 1; i < j; i++, j--) swap_rows(d + i, d + j, 1);
      for (int i = 0, j = n - 2; i < j; i++, j--) swap_rows(e + i, e + j, 1), swap_rows(taus + i * PLANES, taus + j * PLANES, PLANES);
    }
    *info++ = 0;
  }
}

/* --- the eigenvalues of tridiagonal matrices ------------------------------------------------------------------ */

/* One sweep of implicit QL over elements 0 to `last` of d and e, `step` apart, and over the columns of z. */
static void ql_sweep(T *d, T *e, int step, int last, T *z, int ld, int rows, T *rotations) {
  T *cs = rotations, *sn = rotations + last;
  T g = (d[step] - d[0]) / (2 * e[0]), r = hypotenuse(g, 1);
  g = d[last * step] - d[0] + e[0] / (g + with_sign(r, g));
  T s = 1, c = 1, p = 0;
  for (int i = last - 1; i >= 0; i--) {
    T f = s * e[i * step], b = c * e[i * step];
    rotation q = rotation_of(g, f);
    c = q.c, s = q.s;
    if (i < last - 1) e[(i + 1) * step] = q.r;
    g = d[(i + 1) * step] - p;
    r = (d[i * step] - g) * s + 2 * c * b;
    p = s * r;
    d[(i + 1) * step] = g + p;
    g = c * r - b;
    cs[last - 1 - i] = c, sn[last - 1 - i] = s;
  }
  d[0] -= p, e[0] = g;
  if (z) rotate_columns(z + last * ld, -ld, rows, last, cs, sn);
}

INLINE int negligible(T e, T d, T next, T least) {
  return magnitude(e) <= EPS * root(magnitude(d)) * root(magnitude(next)) || magnitude(e) <= least;
}

/* The eigenvalues of a symmetric tridiagonal matrix in d; z (rows x n), unless null, is multiplied by the eigenvectors. The number of
   elements of e that did not become 0 is returned, and these are left. */
static int tridiagonal_ql(T *d, T *e, int n, T *z, int ld, int rows, T *rotations) {
  /* What does not become negligible beside its neighbours, which may be 0, is in the end held against the whole matrix. */
  T norm = largest(greatest(d, n), greatest(e, n - 1)), low = root(TINY) * norm, rounding = EPS * norm;
  int sweeps = 30 * n, since = 0;
  for (int end = n - 1; end > 0;) {
    trap_if_stopped();
    T least = since < 12 ? low : largest(low, rounding);
    if (negligible(e[end - 1], d[end - 1], d[end], least)) {
      e[--end] = 0, since = 0;
      continue;
    }
    if (sweeps-- == 0) break;
    int first = end - 1;
    for (; first > 0 && !negligible(e[first - 1], d[first - 1], d[first], least); first--) {}
    if (first > 0) e[first - 1] = 0;
    int last = end - first;
    since++;
    /* Towards the end where the diagonal is smaller, so that small eigenvalues keep their digits. */
    if (magnitude(d[end]) < magnitude(d[first]))
      ql_sweep(d + end, e + end - 1, -1, last, z ? z + end * ld : z, -ld, rows, rotations);
    else
      ql_sweep(d + first, e + first, 1, last, z ? z + first * ld : z, ld, rows, rotations);
    /* What converged at the front ends a block by itself, and is found by the search from behind. */
    if (negligible(e[first], d[first], d[first + 1], least)) e[first] = 0, since = 0;
  }
  int left = 0;
  for (int i = 0; i < n - 1; i++) left += e[i] != 0;
  return left;
}
