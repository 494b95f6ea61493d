/* exp, log, pow and their relatives in double-double arithmetic without tables: below 1 ulp, mostly just above half.
   C99's special cases throughout. */
#include "dd.h"

#define INV_LN2 0x1.71547652b82fep+0
/* ln 2 = LN2_HIGH (33 bits: exact products with exponents) + LN2_LOW */
#define LN2_HIGH 0x1.62e42fefp-1
#define LN2_LOW 0x1.473de6af278edp-34
static const dd ln2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

static const double infinity = __builtin_inf();

/* exp(x) = (1 + part) * 2**exponent, |part| below 0.42 */
typedef struct { dd part; int exponent; } powered;

static powered exp_parts(dd x) {
  double n = nearest64(x.hi * INV_LN2);
  dd r = exact_sum(x.hi - n * LN2_HIGH, -n * LN2_LOW);
  r = quick_sum(r.hi, r.lo + x.lo);
  dd square = exact_product(r.hi, r.hi);
  double h = r.hi;
  /* (e**r - 1 - r - r**2/2) / r**3 */
  double p = 0x1.5555555555556p-3 +
             h * (0x1.5555555555555p-5 +
                  h * (0x1.11111111109b3p-7 +
                       h * (0x1.6c16c16c167e1p-10 +
                            h * (0x1.a01a01a7c41d5p-13 +
                                 h * (0x1.a01a01a47b054p-16 +
                                      h * (0x1.71de0dae63bb3p-19 +
                                           h * (0x1.27e4e1f48534fp-22 +
                                                h * (0x1.af38a9b0ec855p-26 + h * 0x1.1f66df7fca49fp-29))))))));
  dd sum = quick_sum(h, 0.5 * square.hi);
  sum = quick_sum(sum.hi, sum.lo + (0.5 * square.lo + r.lo * (1 + h) + square.hi * h * p));
  return (powered){sum, (int)n};
}

/* value * 2**n with at most one rounding */
static double scale(double value, int n) {
  if (n > 1023) return n > 1100 ? value * 0x1p1023 * 0x1p1023 : value * power_of_two(n - 1000) * 0x1p1000;
  if (n < -1021) return n < -1100 ? value * 0x1p-1000 * 0x1p-1000 : value * 0x1p-1000 * power_of_two(n + 1000);
  return value * power_of_two(n);
}

static dd exp_dd(dd x, int *exponent) {
  powered e = exp_parts(x);
  dd sum = quick_sum(1, e.part.hi);
  *exponent = e.exponent;
  return quick_sum(sum.hi, sum.lo + e.part.lo);
}

double xw_exp_f64(double x) {
  if (is_nan(x)) return x;
  if (x > 710) return infinity;
  if (x < -746) return 0;
  int n;
  double value = exp_dd((dd){x, 0}, &n).hi;
  return scale(value, n);
}

/* e**x - 1 for |x| < 700 */
static dd expm1_dd(dd x) {
  powered e = exp_parts(x);
  if (e.exponent == 0) return e.part;
  dd power = dd_scale(dd_add((dd){1, 0}, e.part), power_of_two(e.exponent));
  return dd_add(power, (dd){-1, 0});
}

double xw_expm1_f64(double x) {
  if (fabs64(x) < 0x1p-54 || is_nan(x)) return x;
  if (x > 100) return xw_exp_f64(x);
  if (x < -40) return -1;
  return expm1_dd((dd){x, 0}).hi;
}

/* e**|x| / 2 for large |x| */
static double half_exp(double ax) {
  if (ax > 711) return infinity;
  int n;
  double value = exp_dd((dd){ax, 0}, &n).hi;
  return scale(value, n - 1);
}

double xw_sinh_f64(double x) {
  double ax = fabs64(x);
  if (ax < 0x1p-28 || is_nan(x)) return x;
  if (ax > 40) return copysign64(half_exp(ax), x);
  dd t = expm1_dd((dd){ax, 0});
  dd sum = dd_add(t, dd_div(t, dd_add(t, (dd){1, 0})));
  return copysign64(0.5 * sum.hi, x);
}

double xw_cosh_f64(double x) {
  double ax = fabs64(x);
  if (is_nan(x)) return x;
  if (ax > 40) return half_exp(ax);
  int n;
  dd e = exp_dd((dd){ax, 0}, &n);
  e = dd_scale(e, power_of_two(n));
  return 0.5 * dd_add(e, dd_div((dd){1, 0}, e)).hi;
}

double xw_tanh_f64(double x) {
  double ax = fabs64(x);
  if (ax < 0x1p-28 || is_nan(x)) return x;
  if (ax > 22) return copysign64(1, x);
  dd t = expm1_dd((dd){2 * ax, 0});
  return copysign64(dd_div(t, dd_add(t, (dd){2, 0})).hi, x);
}

/* (atanh(s) / s - 1 - w/3) / w in w = s**2 */
static inline double atanh_tail(double w) {
  return w * (0x1.999999999999ap-3 +
              w * (0x1.2492492492491p-3 +
                   w * (0x1.c71c71c71cfd9p-4 +
                        w * (0x1.745d174513593p-4 +
                             w * (0x1.3b13b1bc75cd4p-4 +
                                  w * (0x1.1110dfad0f8e7p-4 +
                                       w * (0x1.e1f7fa7547233p-5 + w * (0x1.ac4a89c963d3dp-5 + w * 0x1.b8d4331142a10p-5))))))));
}

/* log(1 + f), f in [-0.293, 0.415]: twice the series of atanh at f / (2 + f) */
static dd log1p_near(dd f) {
  dd s = dd_div(f, dd_add_smaller((dd){2, 0}, f));
  dd w = dd_mul(s, s);
  dd t = quick_sum(0x1.5555555555555p-2, atanh_tail(w.hi));
  t.lo += 0x1.5555555555555p-56;
  return dd_scale(dd_add_smaller(s, dd_mul(s, dd_mul(w, t))), 2);
}

/* log of u * 2**exponent, u.hi positive and normal */
static dd log_dd(dd u, int exponent) {
  s64 above = (s64)(bits_of(u.hi) - bits_of(0x1.6a09e667f3bcdp-1));
  int k = (int)(above >> 52);
  /* two factors, since 2**-k itself may be out of range */
  int half = k / 2;
  u = dd_scale(u, power_of_two(-half));
  u = dd_scale(u, power_of_two(half - k));
  dd result = log1p_near(exact_sum(u.hi - 1, u.lo));
  double n = k + exponent;
  if (n == 0) return result;
  dd low = exact_product(n, LN2_LOW);
  result.lo += low.lo;
  return dd_add_smaller(quick_sum(n * LN2_HIGH, low.hi), result);
}

static dd log_of(double x) {
  return x < 0x1p-1022 ? log_dd((dd){x * 0x1p54, 0}, -54) : log_dd((dd){x, 0}, 0);
}

/* The plain logarithm of a positive finite x: f - f**2/2 is exact enough that one word does. */
static double log_plain(double x) {
  int k = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    k = -54;
  }
  s64 above = (s64)(bits_of(x) - bits_of(0x1.6a09e667f3bcdp-1));
  k += (int)(above >> 52);
  double f = from_bits(bits_of(x) - (u64)(above & ~0xfffffffffffffll)) - 1;
  double s = f / (2 + f), w = s * s, half = 0.5 * f * f;
  double rest = s * (half + 2 * w * (0x1.5555555555555p-2 + atanh_tail(w)));
  return k * LN2_HIGH - ((half - (rest + k * LN2_LOW)) - f);
}

double xw_log_f64(double x) {
  if (x == 0) return -infinity;
  if (x < 0) return (x - x) / 0.0;
  if (!(x < infinity)) return x;
  return log_plain(x);
}

/* log(1 + f) for f above -1 */
static dd log1p_dd(dd f) {
  if (f.hi > -0.29 && f.hi < 0.41) return log1p_near(f);
  return log_dd(dd_add((dd){1, 0}, f), 0);
}

double xw_log1p_f64(double x) {
  if (fabs64(x) < 0x1p-54) return x;
  if (x == -1) return -infinity;
  if (x < -1) return (x - x) / 0.0;
  if (!(x < infinity)) return x;
  return log1p_dd((dd){x, 0}).hi;
}

double xw_asinh_f64(double x) {
  double ax = fabs64(x);
  if (ax < 0x1p-28 || !(ax < infinity)) return x;
  if (ax > 0x1p30) return copysign64(dd_add(log_of(ax), ln2).hi, x);
  dd square = exact_product(ax, ax);
  dd root = dd_sqrt(dd_add((dd){1, 0}, square));
  dd f = dd_add((dd){ax, 0}, dd_div(square, dd_add((dd){1, 0}, root)));
  return copysign64(log1p_dd(f).hi, x);
}

double xw_acosh_f64(double x) {
  if (x < 1) return (x - x) / 0.0;
  if (!(x < infinity)) return x;
  if (x > 0x1p30) return dd_add(log_of(x), ln2).hi;
  dd t = exact_sum(x, -1);
  return log1p_dd(dd_add(t, dd_sqrt(dd_mul(t, dd_add(t, (dd){2, 0}))))).hi;
}

double xw_atanh_f64(double x) {
  double ax = fabs64(x);
  if (ax < 0x1p-28 || is_nan(x)) return x;
  if (ax >= 1) return ax > 1 ? (x - x) / 0.0 : x / 0.0;
  dd f = dd_div((dd){2 * ax, 0}, exact_sum(1, -ax));
  return copysign64(0.5 * log1p_dd(f).hi, x);
}

/* 0: y is no integer, 1: an odd one, 2: an even one */
static int parity(double y) {
  double ay = fabs64(y);
  if (ay >= 0x1p53) return 2;
  if (__builtin_floor(ay) != ay) return 0;
  return (u64)ay & 1 ? 1 : 2;
}

/* Whether C99 prescribes the result, which is then stored; otherwise x and y are finite, x neither 0 nor 1 in size,
   and *result is the sign. */
static int pow_prescribed(double x, double y, double *result) {
  double ax = fabs64(x);
  int kind = parity(y);
  if (y == 0 || x == 1) return *result = 1, 1;
  if (is_nan(x) || is_nan(y)) return *result = x + y, 1;
  if (fabs64(y) == infinity) return *result = ax == 1 ? 1 : (ax > 1) == (y > 0) ? infinity : 0, 1;
  if (ax == 0 || ax == infinity) {
    double size = (ax == 0) == (y > 0) ? 0 : infinity;
    return *result = kind == 1 ? copysign64(size, x) : size, 1;
  }
  if (x < 0 && kind == 0) return *result = (x - x) / 0.0, 1;
  *result = x < 0 && kind == 1 ? -1 : 1;
  return ax == 1;
}

double xw_pow_f64(double x, double y) {
  double sign;
  if (pow_prescribed(x, y, &sign)) return sign;
  dd l = log_of(fabs64(x));
  double rough = y * l.hi;
  if (rough > 711) return sign * infinity;
  if (rough < -746) return sign * 0.0;
  if (fabs64(rough) < 0x1p-60) return sign;
  dd product = exact_product(y, l.hi);
  int n;
  dd power = exp_dd(quick_sum(product.hi, product.lo + y * l.lo), &n);
  return sign * scale(power.hi, n);
}

/* One word of f64 has bits to spare: |y log x| stays below 104 unless the result is 0 or infinite. */
float xw_pow_f32(float x, float y) {
  double sign;
  if (pow_prescribed(x, y, &sign)) return (float)sign;
  return (float)(sign * xw_exp_f64(y * log_plain(fabs64(x))));
}

double xw_cbrt_f64(double x) {
  double ax = fabs64(x);
  if (ax == 0 || !(ax < infinity)) return x;
  int exponent = 0;
  if (ax < 0x1p-1022) {
    ax *= 0x1p54;
    exponent = -54;
  }
  exponent += (int)(bits_of(ax) >> 52) - 1023;
  int third = (exponent + 3000) / 3 - 1000, rest = exponent - 3 * third;
  double m = from_bits((bits_of(ax) & 0xfffffffffffffull) | (u64)(1023 + rest) << 52);
  double y = 0.87 + m * (0.16 - m * 0.0051); /* within 4 % on [1, 8), and Halley's steps triple the digits */
  for (int i = 0; i < 3; i++) {
    double cube = y * y * y;
    y = y * (cube + 2 * m) / (2 * cube + m);
  }
  dd square = exact_product(y, y), cube = dd_mul(square, (dd){y, 0});
  y += ((m - cube.hi) - cube.lo) / (3 * square.hi);
  return copysign64(y * power_of_two(third), x);
}
