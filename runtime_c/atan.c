/* atan, atan2, asin and acos out of one double-double arctangent of a ratio. */
#include "dd.h"

static const dd pi = {0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};
static const dd half_pi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};

/* atan(i / 8) */
static const dd atan_eighths[9] = {
    {0x0.0p+0, 0x0.0p+0},
    {0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
    {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
    {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
    {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
    {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
    {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
    {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
    {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55},
};

/* atan(y / x) for y, x >= 0, not both 0, within 2**500 of 1 */
static dd atan_ratio(dd y, dd x) {
  int swapped = y.hi > x.hi;
  if (swapped) {
    dd t = x;
    x = y;
    y = t;
  }
  /* atan(y / x) = atan(c) + atan((y - c x) / (x + c y)), c the nearest eighth */
  int i = (int)nearest64(8 * (y.hi / x.hi));
  double c = 0.125 * i;
  dd cx = exact_product(c, x.hi), cy = exact_product(c, y.hi);
  cx.lo += c * x.lo;
  cy.lo += c * y.lo;
  dd t = dd_div(dd_add(y, dd_negate(cx)), dd_add(x, cy));
  double z = t.hi * t.hi;
  /* (atan t / t - 1) / t**2 */
  double p = -0x1.5555555555555p-2 +
             z * (0x1.999999999994ap-3 +
                  z * (-0x1.2492492458997p-3 + z * (0x1.c71c6fdf79976p-4 + z * (-0x1.74597338ba13ap-4 + z * 0x1.37ddac1310e80p-4))));
  t = quick_sum(t.hi, t.lo + t.hi * z * p);
  dd angle = dd_add(atan_eighths[i], t);
  return swapped ? dd_add(half_pi, dd_negate(angle)) : angle;
}

double xw_atan2_f64(double y, double x) {
  if (is_nan(x) || is_nan(y)) return x + y;
  double ax = fabs64(x), ay = fabs64(y), infinity = __builtin_inf();
  int left = (int)(bits_of(x) >> 63);
  dd angle;
  if (ay == 0) {
    angle = left ? pi : (dd){0, 0};
  } else if (ax == infinity) {
    dd diagonal = ay == infinity ? atan_eighths[8] : (dd){0, 0};
    angle = left ? dd_add(pi, dd_negate(diagonal)) : diagonal;
  } else {
    int apart = (int)(bits_of(ay) >> 52) - (int)(bits_of(ax) >> 52);
    if (apart > 64 || ax == 0 || ay == infinity) {
      angle = half_pi;
    } else if (apart < -64) {
      angle = left ? pi : (dd){ay / ax, 0};
    } else {
      double larger = ax > ay ? ax : ay;
      double power = larger > 0x1p400 ? 0x1p-600 : larger < 0x1p-400 ? 0x1p600 : 1;
      angle = atan_ratio((dd){ay * power, 0}, (dd){ax * power, 0});
      if (left) angle = dd_add(pi, dd_negate(angle));
    }
  }
  return copysign64(angle.hi + angle.lo, y);
}

double xw_atan_f64(double x) {
  double ax = fabs64(x);
  if (ax < 0x1p-28 || is_nan(x)) return x;
  if (ax > 0x1p64) return copysign64(half_pi.hi, x);
  return copysign64(atan_ratio((dd){ax, 0}, (dd){1, 0}).hi, x);
}

/* sqrt(1 - x**2) */
static dd cofactor(double ax) { return dd_sqrt(dd_mul(exact_sum(1, -ax), exact_sum(1, ax))); }

double xw_asin_f64(double x) {
  double ax = fabs64(x);
  if (ax < 0x1p-28 || is_nan(x)) return x;
  if (ax > 1) return (x - x) / 0.0;
  return copysign64(atan_ratio((dd){ax, 0}, cofactor(ax)).hi, x);
}

double xw_acos_f64(double x) {
  double ax = fabs64(x);
  if (is_nan(x)) return x;
  if (ax > 1) return (x - x) / 0.0;
  dd angle = atan_ratio(cofactor(ax), (dd){ax, 0});
  return x < 0 ? dd_add(pi, dd_negate(angle)).hi : angle.hi;
}
