/* QR by Householder reflections, and the matrices that they make up; included after linalg.h with the same T, PLANES, NAME.

   Columns lie one after the other, `im` apart from their imaginary parts. A reflection I - tau v v^H has v[0] = 1. */
#pragma once

typedef struct { T re, im; } scalar;

static T total(vec v) {
  T sum = 0;
  for (int i = 0; i < LANES; i++) sum += v[i];
  return sum;
}

/* The sum of conj(v) c, v[0] taken as 1. */
static scalar overlap(const T *v, const T *c, int n, int im) {
  vec a = {0}, b = {0}, d = {0}, e = {0};
  scalar sum = {c[0], PLANES == 2 ? c[im] : 0};
  int i = 1;
  for (; i + 2 * LANES <= n; i += 2 * LANES) {
    vec x = load(v + i), y = load(c + i), z = load(v + i + LANES), w = load(c + i + LANES);
    a += x * y, b += z * w;
    if (PLANES == 2) {
      vec p = load(v + i + im), q = load(c + i + im), r = load(v + i + LANES + im), s = load(c + i + LANES + im);
      a += p * q, b += r * s;
      d += x * q - p * y, e += z * s - r * w;
    }
  }
  for (; i < n; i++) {
    sum.re += v[i] * c[i];
    if (PLANES == 2) sum.re += v[i + im] * c[i + im], sum.im += v[i] * c[i + im] - v[i + im] * c[i];
  }
  return (scalar){sum.re + total(a + b), sum.im + total(d + e)};
}

/* c -= tau v (v^H c) */
static void reflect(const T *restrict v, T *restrict c, int n, int im, scalar tau) {
  scalar w = overlap(v, c, n, im);
  T re = tau.re * w.re - tau.im * w.im, other = tau.re * w.im + tau.im * w.re;
  c[0] -= re;
  if (PLANES == 1) {
    for (int i = 1; i < n; i++) c[i] -= v[i] * re;
    return;
  }
  const T *restrict vi = v + im;
  T *restrict ci = c + im;
  ci[0] -= other;
  for (int i = 1; i < n; i++) {
    c[i] -= v[i] * re - vi[i] * other;
    ci[i] -= v[i] * other + vi[i] * re;
  }
}

/* The length of x[from] to x[n - 1], scaled so that no square overflows or vanishes; NaN or infinity where there is one. */
static T length(const T *x, int from, int n, int im) {
  T most = 0, sum = 0;
  for (int i = from; i < n; i++)
    for (int p = 0; p < PLANES; p++) {
      T size = magnitude(x[i + p * im]);
      if (!(size < (T)__builtin_inf())) return size;
      if (size > most) most = size;
    }
  if (most == 0) return 0;
  for (int i = from; i < n; i++)
    for (int p = 0; p < PLANES; p++) sum += (x[i + p * im] / most) * (x[i + p * im] / most);
  return most * root(sum);
}

static void scale_part(T *x, int n, int im, T by) {
  for (int i = 0; i < n; i++)
    for (int p = 0; p < PLANES; p++) x[i + p * im] *= by;
}

/* Makes x the first unit vector times its length, and keeps the rest of v in x. */
static scalar reflection(T *x, int n, int im) {
  T re = x[0], other = PLANES == 2 ? x[im] : 0;
  if (length(x, 1, n, im) == 0 && other == 0) return (scalar){0, 0};
  T beta = length(x, 0, n, im), up = sizeof(T) == 4 ? (T)0x1p90 : (T)0x1p900;
  if (beta < 1 / up) { /* where numbers have fewer digits, or soon will */
    scale_part(x, n, im, up);
    scalar tau = reflection(x, n, im);
    x[0] /= up;
    return tau;
  }
  if (re > 0 || (re == 0 && !__builtin_signbit(re))) beta = -beta;
  scalar tau = {(beta - re) / beta, -other / beta};
  divisor d = divisor_of(re - beta, other);
  for (int i = 1; i < n; i++) {
    T v = x[i];
    if (PLANES == 1) {
      x[i] = v / (re - beta);
    } else {
      T w = x[i + im];
      x[i] = (v * d.s + w * d.t) / d.den;
      x[i + im] = (w * d.s - v * d.t) / d.den;
    }
  }
  x[0] = beta;
  if (PLANES == 2) x[im] = 0;
  return tau;
}

static void columns_of(T *work, const T *a, int m, int n) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++)
      for (int p = 0; p < PLANES; p++) work[j * m + i + p * m * n] = a[(i * n + j) * PLANES + p];
}

static void rows_of(T *x, const T *work, int m, int n) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++)
      for (int p = 0; p < PLANES; p++) x[(i * n + j) * PLANES + p] = work[j * m + i + p * m * n];
}

/* As LAPACK's geqrf: R and, below it, the vectors v of the reflections whose product is Q. */
void NAME(qr)(T *x, T *taus, const T *a, T *work, int batch, int m, int n) {
  int im = m * n, k = m < n ? m : n;
  for (; batch-- > 0; a += m * n * PLANES, x += m * n * PLANES, taus += k * PLANES) {
    columns_of(work, a, m, n);
    for (int j = 0; j < k; j++) {
      trap_if_stopped();
      T *v = work + j * m + j;
      scalar tau = reflection(v, m - j, im);
      taus[j * PLANES] = tau.re;
      if (PLANES == 2) taus[j * PLANES + 1] = tau.im;
      tau.im = -tau.im;
      for (int c = j + 1; c < n; c++) reflect(v, work + c * m + j, m - j, im, tau);
    }
    rows_of(x, work, m, n);
  }
}

/* As LAPACK's orgqr: the first n columns of the product of k reflections. */
void NAME(householder_product)(T *x, const T *a, const T *taus, T *work, int batch, int m, int n, int k) {
  int im = m * n;
  for (; batch-- > 0; a += m * n * PLANES, x += m * n * PLANES, taus += k * PLANES) {
    columns_of(work, a, m, n);
    for (int j = k; j < n; j++)
      for (int i = 0; i < m; i++)
        for (int p = 0; p < PLANES; p++) work[j * m + i + p * im] = i == j && !p;
    for (int j = k - 1; j >= 0; j--) {
      trap_if_stopped();
      scalar tau = {taus[j * PLANES], PLANES == 2 ? taus[j * PLANES + 1] : 0};
      T *column = work + j * m, *v = column + j;
      for (int c = j + 1; c < n; c++) reflect(v, work + c * m + j, m - j, im, tau);
      for (int i = j + 1; i < m; i++) {
        T re = column[i], other = PLANES == 2 ? column[i + im] : 0;
        column[i] = -(tau.re * re - tau.im * other);
        if (PLANES == 2) column[i + im] = -(tau.re * other + tau.im * re);
      }
      for (int i = 0; i <= j; i++) {
        column[i] = i == j ? 1 - tau.re : 0;
        if (PLANES == 2) column[i + im] = i == j ? -tau.im : 0;
      }
    }
    rows_of(x, work, m, n);
  }
}
