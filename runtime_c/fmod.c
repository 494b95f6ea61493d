/* Exact remainders with the sign of the dividend, as C's fmod: long division of the significands, many bits at a time. */
#include "dd.h"

/* significand << exponent, the significand below 2**53; x positive and finite */
typedef struct { u64 significand; int exponent; } parts;

static parts split(u64 bits, int width) {
  u64 fraction = bits & ((1ull << width) - 1);
  int exponent = (int)(bits >> width);
  return exponent ? (parts){fraction | 1ull << width, exponent - 1} : (parts){fraction, 0};
}

/* x mod y in the format with `width` fraction bits; both as bits, positive, y not 0 */
static u64 remainder_bits(u64 x, u64 y, int width) {
  if (x < y) return x;
  parts a = split(x, width), b = split(y, width);
  u64 rest = a.significand % b.significand;
  int step = 63 - width;
  for (int left = a.exponent - b.exponent; left > 0 && rest; left -= step) rest = (rest << (left < step ? left : step)) % b.significand;
  if (!rest) return 0;
  int exponent = b.exponent;
  int shift = __builtin_clzll(rest) - step;
  if (shift > exponent) shift = exponent;
  rest <<= shift;
  exponent -= shift;
  /* a set bit `width` adds one to the exponent field, and is absent from a subnormal */
  return ((u64)exponent << width) + rest;
}

double xw_fmod_f64(double x, double y) {
  u64 ax = bits_of(fabs64(x)), ay = bits_of(fabs64(y)), infinite = 0x7ffull << 52;
  if (ax >= infinite || ay > infinite || ay == 0) return (x * y) / (x * y);
  return copysign64(from_bits(remainder_bits(ax, ay, 52)), x);
}

float xw_fmod_f32(float x, float y) {
  u32 ax = bits_of_f32(x) & 0x7fffffff, ay = bits_of_f32(y) & 0x7fffffff, infinite = 0xff << 23;
  if (ax >= infinite || ay > infinite || ay == 0) return (x * y) / (x * y);
  return __builtin_copysignf(f32_from_bits((u32)remainder_bits(ax, ay, 23)), x);
}
