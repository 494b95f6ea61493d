// Elements of arrays: every type to a number and back, and where they lie.
#include "front.h"

MODEL("encode_short") uint64_t encode_short(const format *, double value); // where there are types of at most 16 bits
MODEL("encode_integer") uint64_t encode_integer(const format *, const scalar *); // where there are integers, or predicates

static double decode(const format *f, uint64_t code) {
  if (f->bits == 64) return *(double *)&code;
  if (f->bits == 32) {
    uint32_t word = (uint32_t)code;
    return *(float *)&word;
  }
  uint32_t half = 1u << (f->bits - 1), size = (uint32_t)code & (half - 1);
  double value = __builtin_nan("");
  if (f->flags & NO_SIGN) return code == f->nan ? value : power_of_2((int)code - f->bias);
  if (f->flags & ONE_ZERO && code == f->nan) return value;
  if (size <= f->largest) {
    int exponent = (int)(size >> f->mantissa);
    uint32_t mantissa = size & ((1u << f->mantissa) - 1);
    if (exponent) mantissa |= 1u << f->mantissa;
    else exponent = 1;
    value = mantissa * power_of_2(exponent - f->bias - f->mantissa);
  } else if (size == f->infinite) value = __builtin_inf();
  else return value;
  return code & half ? -value : value;
}

static int fits; // what was stored last

// The code of the nearest value, ties to even. It does not fit if a finite value is too large, or there is no NaN or infinity.
uint64_t xw_encode_short(const format *f, double value) {
  uint32_t sign = (uint32_t)(bits_of(value) >> 63), code = f->infinite;
  if (value != value) {
    fits = f->nan != 0;
    return f->nan;
  }
  if (f->flags & NO_SIGN && value <= 0) fits = 0;
  if (value - value == 0) {
    value = __builtin_fabs(value);
    int exponent = (int)(bits_of(value) >> 52) - 1023;
    int least = (f->flags & NO_SIGN ? 0 : 1) - f->bias;
    if (exponent < least) exponent = least;
    if (exponent > 300) exponent = 300; // far beyond all of these types
    code = (uint32_t)(exponent + f->bias - 1) << f->mantissa;
    code += (uint32_t)__builtin_rint(value * power_of_2(f->mantissa - exponent));
    fits &= code <= f->largest;
  } else
    fits = f->infinite > f->largest;
  if (f->flags & ONE_ZERO && !code) sign = 0;
  return code | (f->flags & NO_SIGN ? 0 : sign << (f->bits - 1));
}

uint64_t xw_no_encode_short(const format *f, double value) { return (void)f, (void)value, 0; }

static uint64_t encode(const format *f, double value) {
  if (f->bits == 64) return bits_of(value);
  if (f->bits < 32) return encode_short(f, value);
  float rounded = (float)value;
  fits = value - value != 0 || rounded - rounded == 0;
  return *(uint32_t *)&rounded;
}

uint64_t xw_encode_integer(const format *f, const scalar *x) {
  uint64_t magnitude = x->magnitude, limit = UINT64_MAX >> (64 - f->bits);
  int negative = x->negative && magnitude;
  if (x->real) { // a whole number may be written as one of floating point
    double size = __builtin_fabs(x->value);
    fits = size < 0x1p64 && size == __builtin_floor(size);
    magnitude = (uint64_t)size;
    negative = x->value < 0;
  }
  uint64_t code = (negative ? -magnitude : magnitude) & limit;
  if (f->kind == PRED) limit = 1;
  else if (f->kind == SIGNED) limit = (limit >> 1) + (uint64_t)negative;
  fits &= magnitude <= limit && (!negative || f->kind == SIGNED);
  return code;
}

uint64_t xw_no_encode_integer(const format *f, const scalar *x) { return (void)f, (void)x, 0; }

void load_element(const format *f, const uint8_t *from, scalar *x) {
  // Of an integer narrower than a byte only the low bits count. There is memory behind all arrays.
  uint64_t code = *(const uint64_t *)from & UINT64_MAX >> (64 - f->bits);
  x->real = f->kind >= FLOAT, x->negative = 0, x->magnitude = f->kind == PRED ? code != 0 : code;
  if (x->real) x->value = decode(f, code);
  else if (f->kind == SIGNED && code >> (f->bits - 1)) x->negative = 1, x->magnitude = (2ull << (f->bits - 1)) - code;
}

int store_element(const format *f, uint8_t *to, const scalar *x, int exact) {
  uint64_t code;
  fits = 1;
  if (f->kind >= FLOAT) {
    double value = x->value;
    if (!x->real) {
      value = f->bits == 32 ? (float)x->magnitude : (double)x->magnitude; // rounded once
      if (x->negative) value = -value;
    }
    code = encode(f, value);
    if (exact && !(f->flags & ROUNDED) && value == value && decode(f, code) != value) return 0;
  } else
    code = encode_integer(f, x);
  for (uint32_t i = 0; i < f->bits; i += 8) *to++ = (uint8_t)(code >> i);
  return fits;
}

int convert_element(const format *from, const uint8_t *source, const format *to, uint8_t *target) {
  static scalar x;
  load_element(from, source, &x);
  int fit = store_element(to, target, &x, from != to);
  if (to->kind != COMPLEX) return fit;
  if (from->kind == COMPLEX) load_element(from, source + from->bits / 8, &x);
  else x.real = 0, x.negative = 0, x.magnitude = 0;
  return fit & store_element(to, target + to->bits / 8, &x, 0);
}

uint32_t size_of(const array *x, uint32_t d) { return x->dims[d].actual ? (uint32_t)*x->dims[d].actual : x->dims[d].size; }

uint32_t count_of(const array *x) {
  uint32_t count = 1;
  for (uint32_t d = 0; d < x->rank; d++) count *= size_of(x, d);
  return count;
}

uint32_t xw_to_bounds(const array *x) {
  uint32_t last = 0;
  for (uint32_t d = 0; d < x->rank; d++)
    if (x->dims[d].actual) *x->dims[d].actual = (int32_t)x->dims[d].size, last = d + 1;
  return last;
}

uint32_t xw_no_bounds(const array *x) { return (void)x, 0; }

int shape_array(array *x, const char *type, uint32_t rank, const uint32_t *sizes) {
  int fits = rank == x->rank;
  for (uint32_t d = 0; fits && d < rank; d++) {
    fits = x->dims[d].least <= sizes[d] && sizes[d] <= x->dims[d].size;
    if (fits && x->dims[d].actual) *x->dims[d].actual = (int32_t)sizes[d];
  }
  if (!fits) fail_shape(x, type, rank, sizes);
  return fits;
}

uint8_t *place_of(const array *x, uint32_t index, int first_is_fastest) {
  uint8_t *at = x->data;
  for (uint32_t k = 0; k < x->rank; k++) {
    uint32_t d = first_is_fastest ? k : x->rank - 1 - k, size = size_of(x, d);
    at += index % size * x->dims[d].stride;
    index /= size;
  }
  return at;
}

int is_dense(const array *x) {
  uint32_t stride = x->type->bytes;
  for (uint32_t d = x->rank; d--;) {
    if (x->dims[d].stride != stride && size_of(x, d) != 1) return 0;
    stride *= size_of(x, d);
  }
  return 1;
}
