/* sin, cos and tan for every argument, f64 (well below 1 ulp) and f32 (rounded from f64 arithmetic).
   The argument is brought to [-pi/4, pi/4] and a quadrant: by a subtraction in parts (Cody and Waite) up to 2**20,
   by an integer product with the bits of 2/pi (Payne and Hanek) beyond. */
#include "dd.h"

/* 2/pi in words of 32 bits behind two words of zeros, which let the window start before the binary point. */
static const u32 two_over_pi[] = {
    0, 0,
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561,
    0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484,
    0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f,
    0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b,
    0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046, 0xfc7b6bab};

/* pi/2 = PIO2_1 + PIO2_2 + PIO2_3 + PIO2_4, the first three of 33 bits, so that their products with n < 2**20 are exact. */
#define PIO2_1 0x1.921fb544p+0
#define PIO2_2 0x1.0b4611a6p-34
#define PIO2_3 0x1.3198a2ep-69
#define PIO2_4 0x1.b839a252049c1p-104
#define TWO_OVER_PI 0x1.45f306dc9c883p-1
static const dd pio2 = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};

typedef struct { dd rest; int quadrant; } reduced;

/* x * 2/pi modulo 4 as an integer of 192 bits with 190 of them behind the binary point. A double comes no closer to a
   multiple of pi/2 than about 2**-62, and cutting off 2/pi costs 53 bits: some 75 good bits remain. */
static reduced reduce_huge(double x) {
  u64 bits = bits_of(x);
  u64 mantissa = (bits & 0xfffffffffffffull) | 1ull << 52;
  u32 low = (u32)mantissa, high = (u32)(mantissa >> 32);
  int start = (int)(bits >> 52 & 0x7ff) - 1075 - 2 + 64;
  int word = start >> 5, shift = start & 31;
  u32 window[6], product[6];
  for (int k = 0; k < 6; k++) {
    u64 pair = (u64)two_over_pi[word + k] << 32 | two_over_pi[word + k + 1];
    window[k] = (u32)(pair >> (32 - shift));
  }
  u64 carry = 0;
  for (int k = 5; k >= 0; k--) {
    carry += (u64)window[k] * low;
    product[k] = (u32)carry;
    carry >>= 32;
  }
  carry = 0;
  for (int k = 5; k >= 1; k--) {
    carry += (u64)window[k] * high + product[k - 1];
    product[k - 1] = (u32)carry;
    carry >>= 32;
  }
  u64 a = (u64)product[0] << 32 | product[1], b = (u64)product[2] << 32 | product[3], c = (u64)product[4] << 32 | product[5];
  int quadrant = (int)(a >> 62);
  a = a << 2 | b >> 62;
  b = b << 2 | c >> 62;
  int negative = (int)(a >> 63);
  if (negative) {
    quadrant++;
    a = ~a;
    b = ~b;
  }
  int zeros = a ? __builtin_clzll(a) : 63;
  if (zeros) {
    a = a << zeros | b >> (64 - zeros);
    b <<= zeros;
  }
  double unit = power_of_two(-53 - zeros);
  dd fraction = {(double)(a >> 11) * unit, (double)((a & 0x7ff) << 42 | b >> 22) * (unit * 0x1p-53)};
  dd rest = dd_mul(quick_sum(fraction.hi, fraction.lo), pio2);
  if (negative ^ (int)(bits >> 63)) rest = dd_negate(rest);
  return (reduced){rest, bits >> 63 ? -quadrant : quadrant};
}

static reduced reduce(double x) {
  double ax = fabs64(x);
  if (ax <= 0x1.921fb54442d18p-1) return (reduced){{x, 0}, 0};
  if (ax >= 0x1p20) return reduce_huge(x);
  double n = nearest64(x * TWO_OVER_PI);
  double first = x - n * PIO2_1;
  dd second = exact_sum(first, -n * PIO2_2);
  dd third = exact_sum(second.hi, -n * PIO2_3);
  double tail = (second.lo + third.lo) - n * PIO2_4;
  return (reduced){exact_sum(third.hi, tail), (int)n};
}

/* (sin r - r) / r**3 and (cos r - 1 + r**2/2) / r**4 in z = r**2 */
static inline double sin_poly(double z) {
  return -0x1.5555555555555p-3 +
         z * (0x1.1111111110bb2p-7 +
              z * (-0x1.a01a019e83816p-13 +
                   z * (0x1.71de379654304p-19 + z * (-0x1.ae600aca92c63p-26 + z * 0x1.5e0b05bff20a2p-33))));
}
static inline double cos_poly(double z) {
  return 0x1.5555555555555p-5 +
         z * (-0x1.6c16c16c16967p-10 +
              z * (0x1.a01a019f4e9b4p-16 +
                   z * (-0x1.27e4fa17bf139p-22 + z * (0x1.1eeb68cd22f56p-29 + z * -0x1.907d8f29fe7e1p-37))));
}

static dd sin_near(dd r) {
  double z = r.hi * r.hi;
  return quick_sum(r.hi, r.hi * z * sin_poly(z) + r.lo * (1 - 0.5 * z));
}
static dd cos_near(dd r) {
  dd z = exact_product(r.hi, r.hi);
  dd w = quick_sum(1, -0.5 * z.hi);
  return quick_sum(w.hi, w.lo + (z.hi * z.hi * cos_poly(z.hi) - (0.5 * z.lo + r.hi * r.lo)));
}

static double pick(reduced r, int quadrant) {
  dd value = quadrant & 1 ? cos_near(r.rest) : sin_near(r.rest);
  return quadrant & 2 ? -value.hi : value.hi;
}

double xw_sin_f64(double x) {
  double ax = fabs64(x);
  if (ax < 0x1p-27) return x;
  if (!(ax < __builtin_inf())) return x - x;
  reduced r = reduce(x);
  return pick(r, r.quadrant);
}

double xw_cos_f64(double x) {
  if (!(fabs64(x) < __builtin_inf())) return x - x;
  reduced r = reduce(x);
  return pick(r, r.quadrant + 1);
}

double xw_tan_f64(double x) {
  double ax = fabs64(x);
  if (ax < 0x1p-27) return x;
  if (!(ax < __builtin_inf())) return x - x;
  reduced r = reduce(x);
  dd s = sin_near(r.rest), c = cos_near(r.rest);
  return r.quadrant & 1 ? dd_div(dd_negate(c), s).hi : dd_div(s, c).hi;
}

/* f32: the same in f64 with shorter polynomials (2**-35 is far below half an ulp of f32) */

typedef struct { double rest; int quadrant; } reduced_f32;

static reduced_f32 reduce_f32(double x) {
  if (fabs64(x) >= 0x1p20) {
    reduced r = reduce_huge(x);
    return (reduced_f32){r.rest.hi, r.quadrant};
  }
  double n = nearest64(x * TWO_OVER_PI);
  return (reduced_f32){(x - n * PIO2_1) - n * (PIO2_2 + PIO2_3), (int)n};
}

static inline double sin_near_f32(double r) {
  double z = r * r;
  return r + r * z * (-0x1.555555545df18p-3 + z * (0x1.11110deef0ae3p-7 + z * (-0x1.a013a740c35ccp-13 + z * 0x1.6dbded5452c31p-19)));
}
static inline double cos_near_f32(double r) {
  double z = r * r;
  double p = 0x1.5555555502c6dp-5 + z * (-0x1.6c16bf54be1f5p-10 + z * (0x1.a015c4462d9e1p-16 + z * -0x1.25243c2f39509p-22));
  return 1 - 0.5 * z + z * z * p;
}
static float pick_f32(double r, int quadrant) {
  double value = quadrant & 1 ? cos_near_f32(r) : sin_near_f32(r);
  return (float)(quadrant & 2 ? -value : value);
}

float xw_sin_f32(float x) {
  float ax = __builtin_fabsf(x);
  if (ax < 0x1p-12f) return x; /* the cubic term is below half an ulp */
  if (!(ax < __builtin_inff())) return x - x;
  reduced_f32 r = reduce_f32(x);
  return pick_f32(r.rest, r.quadrant);
}

float xw_cos_f32(float x) {
  if (!(__builtin_fabsf(x) < __builtin_inff())) return x - x;
  reduced_f32 r = reduce_f32(x);
  return pick_f32(r.rest, r.quadrant + 1);
}

float xw_tan_f32(float x) {
  float ax = __builtin_fabsf(x);
  if (ax < 0x1p-12f) return x;
  if (!(ax < __builtin_inff())) return x - x;
  reduced_f32 r = reduce_f32(x);
  double s = sin_near_f32(r.rest), c = cos_near_f32(r.rest);
  return (float)(r.quadrant & 1 ? -c / s : s / c);
}
