/* Tridiagonal systems; included after columns.h with the same T, PLANES, NAME. */
#pragma once

/* A system: dl[i] and du[i] lie left and right of d[i], so that dl[0] and du[n - 1] are not read. */
typedef struct {
  const T *dl, *d, *du;
} diagonals;

/* y -= f x, `width` scalars in each */
static void subtract_row(T *y, const T *x, scalar f, int width) {
  for (int j = 0; j < width * PLANES; j += PLANES) put(y + j, 1, difference(scalar_at(y + j, 1), times(f, scalar_at(x + j, 1))));
}

static void divide_row(T *y, scalar by, int width) {
  for (int j = 0; j < width * PLANES; j += PLANES) put(y + j, 1, quotient(scalar_at(y + j, 1), by));
}

INLINE scalar element(const T *p, int i) { return scalar_at(p + i * PLANES, 1); }
INLINE void set_element(T *p, int i, scalar value) { put(p + i * PLANES, 1, value); }

/* Gauss elimination with row exchanges: `below` becomes the second diagonal above; 0, or the number of the first pivot that is 0. */
static int tridiagonal_lu(T *below, T *d, T *du, T *x, int n, int width) {
  int row = width * PLANES;
  for (int i = 0; i < n - 1; i++) {
    scalar pivot = element(d, i), under = element(below, i), right = element(du, i), next = element(d, i + 1);
    if (size_of(pivot) >= size_of(under)) {
      if (is_zero(pivot)) return i + 1;
      scalar f = quotient(under, pivot);
      set_element(d, i + 1, difference(next, times(f, right)));
      subtract_row(x + (i + 1) * row, x + i * row, f, width);
      if (i < n - 2) set_element(below, i, (scalar){0, 0});
      continue;
    }
    scalar f = quotient(pivot, under);
    set_element(d, i, under);
    set_element(d, i + 1, difference(right, times(f, next)));
    if (i < n - 2) {
      scalar far = element(du, i + 1);
      set_element(below, i, far);
      set_element(du, i + 1, negative(times(f, far)));
    }
    set_element(du, i, next);
    swap_rows(x + i * row, x + (i + 1) * row, row);
    subtract_row(x + (i + 1) * row, x + i * row, f, width);
  }
  return is_zero(element(d, n - 1)) ? n : 0;
}

/* As LAPACK's gtsv, with what it leaves of the diagonals. */
void NAME(tridiagonal_solve)(T *dl, T *d, T *du, T *x, int *info, const T *a, const T *b, const T *c, const T *right, int batch, int n,
                             int width) {
  int size = n * PLANES, row = width * PLANES;
  for (; batch-- > 0; dl += size, d += size, du += size, a += size, b += size, c += size, x += n * row, right += n * row) {
    trap_if_stopped();
    for (int i = 0; i < size; i++) dl[i] = a[i], d[i] = b[i], du[i] = c[i];
    for (int i = 0; i < n * row; i++) x[i] = right[i];
    *info++ = 0;
    if (n == 0) continue;
    info[-1] = tridiagonal_lu(dl + PLANES, d, du, x, n, width);
    for (int i = n - 1; !info[-1] && i >= 0; i--) {
      T *y = x + i * row;
      if (i < n - 1) subtract_row(y, y + row, element(du, i), width);
      if (i < n - 2) subtract_row(y, y + 2 * row, element(dl, i + 1), width);
      divide_row(y, element(d, i), width);
    }
  }
}

/* --- systems that may be singular ----------------------------------------------------------------------------- */

static T absolute(scalar a) { return PLANES == 1 ? magnitude(a.re) : hypotenuse(a.re, a.im); }

/* Moves a pivot away from 0, by steps of `by` that double, until no element of the row overflows when it is divided by it. */
static scalar perturbed(scalar pivot, T by, T *row, int width) {
  T low = TINY, high = 1 / low, most = 0;
  by = with_sign(largest(magnitude(by), low), pivot.re);
  for (int j = 0; j < width; j++) most = largest(most, absolute(element(row, j)));
  for (;;) {
    T size = absolute(pivot);
    if (!(size < 1)) return pivot;
    if (size < low && size != 0 && !(most * low > size)) {
      for (int j = 0; j < width * PLANES; j++) row[j] *= high;
      return (scalar){pivot.re * high, pivot.im * high};
    }
    if (size >= low && !(most > size * high)) return pivot;
    pivot.re += by, by *= 2;
  }
}

/* U, with its three diagonals in u, n apart, and x = L^-1 x. Rows are exchanged by how large pivots are in their rows; the greatest
   element of U is returned. */
static T scaled_lu(diagonals t, T *u, T *x, int n, int width) {
  int row = width * PLANES;
  T *diagonal = u, *above = u + n * PLANES, *far = above + n * PLANES, most;
  clear(u, 3 * n * PLANES);
  set_element(diagonal, 0, element(t.d, 0)), set_element(above, 0, element(t.du, 0));
  T here = absolute(element(t.d, 0)), scale = here + absolute(element(t.du, 0));
  most = largest(here, absolute(element(t.du, 0)));
  for (int k = 0; k < n - 1; k++) {
    int last = k == n - 2;
    scalar under = element(t.dl, k + 1), next = element(t.d, k + 1), right = last ? (scalar){0, 0} : element(t.du, k + 1);
    scalar pivot = element(diagonal, k), over = element(above, k);
    T next_scale = absolute(under) + absolute(next) + absolute(right);
    T by = is_zero(pivot) ? 0 : absolute(pivot) / scale, *y = x + k * row;
    if (is_zero(under) || absolute(under) / next_scale <= by) {
      scalar f = is_zero(under) ? under : quotient(under, pivot);
      set_element(diagonal, k + 1, is_zero(under) ? next : difference(next, times(f, over)));
      set_element(above, k + 1, right);
      scale = next_scale;
      if (!is_zero(under)) subtract_row(y + row, y, f, width);
    } else {
      scalar f = quotient(pivot, under);
      set_element(diagonal, k, under), set_element(above, k, next), set_element(far, k, right);
      set_element(diagonal, k + 1, difference(over, times(f, next)));
      set_element(above, k + 1, negative(times(f, right)));
      swap_rows(y, y + row, row);
      subtract_row(y + row, y, f, width);
      scale = absolute(element(diagonal, k + 1)) + absolute(element(above, k + 1));
    }
    for (int i = 0; !last && i < 3; i++) most = largest(most, absolute(element(u + i * n * PLANES, k)));
  }
  return largest(most, absolute(element(diagonal, n - 1)));
}

/* Solutions of systems that are singular, or nearly: pivots close to 0 are moved by an amount of the order of rounding. */
void NAME(tridiagonal_solve_perturbed)(T *x, const T *dl, const T *d, const T *du, const T *b, T *u, int batch, int n, int width) {
  int size = n * PLANES, row = width * PLANES;
  for (; batch-- > 0; dl += size, d += size, du += size, x += n * row, b += n * row) {
    trap_if_stopped();
    for (int i = 0; i < n * row; i++) x[i] = b[i];
    if (n == 0) continue;
    T by = 2 * EPS * (n == 1 ? absolute(element(d, 0)) : scaled_lu((diagonals){dl, d, du}, u, x, n, width));
    if (n == 1) set_element(u, 0, element(d, 0));
    for (int i = n - 1; i >= 0; i--) {
      T *y = x + i * row;
      if (i < n - 1) subtract_row(y, y + row, element(u + size, i), width);
      if (i < n - 2) subtract_row(y, y + 2 * row, element(u + 2 * size, i), width);
      scalar pivot = perturbed(element(u, i), by, y, width);
      divide_row(y, pivot, width);
    }
  }
}
