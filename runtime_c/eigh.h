/* Eigenvalues and eigenvectors of Hermitian matrices; included after divide.h with the same T, PLANES, NAME. */
#pragma once

/* As LAPACK's syevd and heevd: eigenvalues in ascending order and, with VECTORS, an orthonormal basis of eigenvectors in x. */
void NAME(eigh)(T *x, T *w, int *info, const T *a, T *work, int *order, int batch, int n, int flags) {
  int lower = flags & LOWER, vectors = flags & VECTORS;
  columns m = columns_in(work, n), z = columns_in(column_at(m, 0, n), n);
  T *taus = column_at(z, 0, n), *d = taus + n * PLANES, *e = d + n, *more = e + n;
  workspace space = workspace_in(more, order + n, n);
  for (; batch-- > 0; a += n * n * PLANES, x += n * n * PLANES, w += n) {
    read_triangle(m, a, n, lower, 0);
    T size = greatest(m.data, n * m.ld), scale = is_finite(size) ? scale_for(size) : 1;
    *info++ = 0;
    if (!is_finite(size)) {
      fill(w, n, (T)__builtin_nan("")), fill(x, n * n * PLANES, (T)__builtin_nan(""));
      info[-1] = n;
      continue;
    }
    multiply(m.data, n * m.ld, scale);
    tridiagonal_form(m, n, d, e, taus, more);
    if (vectors) identity(z, n, n);
    info[-1] = vectors ? divide(d, e, n, z.data, z.ld, space) : tridiagonal_ql(d, e, n, 0, 0, 0, more);
    sort_order(order, d, n, 1);
    for (int i = 0; i < n; i++) w[i] = d[order[i]] / scale;
    if (vectors) {
      multiply_by_reflections(m, 1, n - 1, taus, z, n, n, 0);
      write_columns(x, z, n, n, n, 1, 1, order);
    } else {
      for (int i = 0; i < n * n * PLANES; i++) x[i] = a[i];
    }
  }
}
