/* QR with pivots, products with its Q, and Hessenberg form; included after columns.h with the same T, PLANES, NAME. */
#pragma once

static void swap_columns(columns a, int i, int j) {
  if (i != j) swap_rows(column_at(a, 0, i), column_at(a, 0, j), a.ld);
}

/* Moves the columns that `pivots` names to the front, and numbers all from 1; how many there are. */
static int fix_columns(columns a, int n, int *pivots) {
  int fixed = 0;
  for (int j = 0; j < n; j++) {
    int wanted = pivots[j] != 0;
    pivots[j] = j + 1;
    if (!wanted) continue;
    swap_columns(a, j, fixed);
    pivots[j] = pivots[fixed], pivots[fixed++] = j + 1;
  }
  return fixed;
}

/* The lengths of what is left of columns once row i is done: `norms`, kept up from step to step, and `known`, from when they were last
   computed anew. */
static void shorten(columns a, int m, int i, int j, T *norms, T *known) {
  if (norms[j] == 0) return;
  scalar top = scalar_at(column_at(a, i, j), a.im);
  T part = hypotenuse(top.re, top.im) / norms[j], rest = largest(1 - part * part, 0), ratio = norms[j] / known[j];
  if (rest * ratio * ratio > root(EPS))
    norms[j] *= root(rest);
  else
    norms[j] = known[j] = length(column_at(a, 0, j), i + 1, m, a.im);
}

/* As LAPACK's geqp3: R and the reflections in x, their factors, and the columns in their new order, from 1. Those whose numbers in `wanted`
   are not 0 come first. */
void NAME(pivoted_qr)(T *x, int *pivots, T *taus, const T *a, const int *wanted, T *work, int batch, int m, int n) {
  columns c = columns_in(work, m);
  int k = m < n ? m : n;
  T *norms = column_at(c, 0, n), *known = norms + n;
  for (; batch-- > 0; a += m * n * PLANES, x += m * n * PLANES, taus += k * PLANES, pivots += n, wanted += n) {
    read_columns(c, a, m, n, n, 1, 1);
    for (int j = 0; j < n; j++) pivots[j] = wanted[j];
    int fixed = fix_columns(c, n, pivots);
    for (int i = 0; i < k; i++) {
      trap_if_stopped();
      for (int j = i; i == fixed && j < n; j++) norms[j] = known[j] = length(column_at(c, 0, j), i, m, c.im);
      if (i >= fixed) {
        int best = i;
        for (int j = i + 1; j < n; j++)
          if (norms[j] > norms[best]) best = j;
        swap_columns(c, i, best);
        int number = pivots[i];
        pivots[i] = pivots[best], pivots[best] = number;
        norms[best] = norms[i], known[best] = known[i];
      }
      T *v = column_at(c, i, i);
      scalar tau = reflection(v, m - i, c.im), beta = scalar_at(v, c.im);
      put(taus + i * PLANES, 1, tau);
      put(v, c.im, (scalar){1, 0});
      reflect_columns(v, column_at(c, i, i + 1), c.ld, n - i - 1, m - i, c.im, conjugate(tau));
      put(v, c.im, beta);
      for (int j = i + 1; i >= fixed && j < n; j++) shorten(c, m, i, j, norms, known);
    }
    write_columns(x, c, m, n, n, 1, 1, 0);
  }
}

enum { RIGHT = 128 };

/* As LAPACK's ormqr and unmqr: x = op(Q) c or, with RIGHT, c op(Q), where Q is the product of the first k reflections in the columns of a
   (n of them) and op the adjoint with TRANSPOSED. */
void NAME(multiply_by_q)(T *x, const T *a, const T *taus, const T *c, T *work, int batch, int rows, int width, int n, int k, int flags) {
  int right = flags & RIGHT, across = !(flags & TRANSPOSED) != !right, high = right ? width : rows, count = right ? rows : width;
  columns v = columns_in(work, high), z = columns_in(column_at(v, 0, k), high);
  int rs = right ? 1 : width, cs = right ? width : 1, size = rows * width * PLANES;
  T sign = right ? -1 : 1;
  for (; batch-- > 0; a += high * n * PLANES, taus += k * PLANES, c += size, x += size) {
    read_columns(v, a, high, k, n, 1, 1);
    read_columns(z, c, high, count, rs, cs, sign);
    multiply_by_reflections(v, 0, k, taus, z, high, count, across);
    write_columns(x, z, high, count, rs, cs, sign, 0);
  }
}

/* Columns and rows `low` to `high` in Hessenberg form, with reflections below it; what lies below the diagonal outside of them is 0. */
static void hessenberg_form(columns a, int n, int low, int high, T *taus, T *w) {
  for (int k = 0; k < n - 1; k++) put(taus + k * PLANES, 1, (scalar){0, 0});
  for (int k = low; k < high - 2 + (PLANES == 2); k++) {
    trap_if_stopped();
    T *v = column_at(a, k + 1, k);
    int count = high - k - 1;
    scalar tau = reflection(v, count, a.im), beta = scalar_at(v, a.im);
    put(taus + k * PLANES, 1, tau);
    put(v, a.im, (scalar){1, 0});
    clear(w, a.ld);
    for (int j = 0; j < count; j++) add_multiple(w, column_at(a, 0, k + 1 + j), scalar_at(v + j, a.im), high, a.im);
    for (int j = 0; j < count; j++) {
      scalar by = times(tau, conjugate(scalar_at(v + j, a.im)));
      add_multiple(column_at(a, 0, k + 1 + j), w, negative(by), high, a.im);
    }
    reflect_columns(v, column_at(a, k + 1, k + 1), a.ld, n - k - 1, count, a.im, conjugate(tau));
    put(v, a.im, beta);
  }
}

/* As LAPACK's gehrd for whole matrices. */
void NAME(hessenberg)(T *x, T *taus, int *info, const T *a, T *work, int batch, int n) {
  columns c = columns_in(work, n);
  int count = n > 0 ? n - 1 : 0;
  for (; batch-- > 0; a += n * n * PLANES, x += n * n * PLANES, taus += count * PLANES) {
    read_columns(c, a, n, n, n, 1, 1);
    hessenberg_form(c, n, 0, n, taus, column_at(c, 0, n));
    write_columns(x, c, n, n, n, 1, 1, 0);
    *info++ = 0;
  }
}
