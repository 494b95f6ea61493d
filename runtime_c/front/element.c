// Elements of arrays: every type to a number and back, and where they lie.
#include "front.h"

uint64_t little(const uint8_t *from, uint32_t bytes) {
  uint64_t x = 0;
  while (bytes--) x = x << 8 | from[bytes];
  return x;
}

static double decode(const format *f, uint64_t code) {
  if (f->bits == 64) return *(double *)&code;
  if (f->bits == 32) {
    uint32_t word = (uint32_t)code;
    return *(float *)&word;
  }
  if (f->flags & NO_SIGN) return code == f->nan ? __builtin_nan("") : power_of_2((int)code - f->bias);
  uint32_t sign = (uint32_t)code >> (f->bits - 1) & 1, size = (uint32_t)code & ((1u << (f->bits - 1)) - 1);
  if (f->flags & ONE_ZERO && code == f->nan) return __builtin_nan("");
  if (size > f->largest) return size != f->infinite ? __builtin_nan("") : sign ? -__builtin_inf() : __builtin_inf();
  int exponent = (int)(size >> f->mantissa);
  uint32_t mantissa = size & ((1u << f->mantissa) - 1);
  if (exponent) mantissa |= 1u << f->mantissa;
  else exponent = 1;
  double value = mantissa * power_of_2(exponent - f->bias - f->mantissa);
  return sign ? -value : value;
}

// The code of the nearest value, ties to even. 0 in `*fits` if a finite value is too large, or there is no NaN or infinity.
static uint64_t encode(const format *f, double value, int *fits) {
  if (f->bits == 64) return bits_of(value);
  int finite = value - value == 0;
  if (f->bits == 32) {
    float rounded = (float)value;
    *fits = !finite || rounded - rounded == 0;
    return *(uint32_t *)&rounded;
  }
  uint32_t sign = (uint32_t)(bits_of(value) >> 63);
  if (value != value) {
    *fits = f->nan != 0;
    return f->nan;
  }
  if (f->flags & NO_SIGN && value <= 0) *fits = 0;
  if (sign) value = -value;
  uint32_t code = f->infinite;
  if (finite) {
    int exponent = (int)(bits_of(value) >> 52) - 1023;
    int least = (f->flags & NO_SIGN ? 0 : 1) - f->bias;
    if (exponent < least) exponent = least;
    if (exponent > 300) exponent = 300; // far beyond all of these types
    code = (uint32_t)(exponent + f->bias - 1) << f->mantissa;
    code += (uint32_t)__builtin_rint(value * power_of_2(f->mantissa - exponent));
    *fits &= code <= f->largest;
  } else
    *fits = f->infinite > f->largest;
  if (f->flags & ONE_ZERO && !code) sign = 0;
  return code | (f->flags & NO_SIGN ? 0 : sign << (f->bits - 1));
}

void load_element(const format *f, const uint8_t *from, scalar *x) {
  uint32_t bytes = f->kind == COMPLEX ? f->bits / 8 : f->bytes;
  uint64_t code = little(from, bytes);
  x->real = f->kind >= FLOAT, x->negative = 0, x->magnitude = code;
  if (x->real) x->value = decode(f, code);
  else {
    // Of an integer narrower than a byte only the low bits count.
    x->magnitude = code &= UINT64_MAX >> (64 - f->bits);
    x->negative = f->kind == SIGNED && code >> (f->bits - 1);
    if (x->negative) x->magnitude = (1ull << (f->bits - 1) << 1) - code;
  }
}

int store_element(const format *f, uint8_t *to, const scalar *x, int exact) {
  uint32_t bytes = f->kind == COMPLEX ? f->bits / 8 : f->bytes;
  uint64_t code;
  int fits = 1;
  if (f->kind >= FLOAT) {
    double value = x->real ? x->value : (double)x->magnitude;
    if (!x->real && f->bits == 32) value = (float)x->magnitude; // rounded once
    if (!x->real && x->negative) value = -value;
    code = encode(f, value, &fits);
    if (exact && !(f->flags & ROUNDED) && value == value && decode(f, code) != value) return 0;
  } else {
    uint64_t magnitude = x->magnitude, limit = f->kind == PRED ? 1 : UINT64_MAX >> (64 - f->bits);
    if (x->real) { // a whole number may be written as one of floating point
      double size = x->value < 0 ? -x->value : x->value;
      if (!(size < 0x1p64) || size != __builtin_floor(size)) return 0;
      magnitude = (uint64_t)size;
    }
    int negative = x->real ? x->value < 0 : x->negative && magnitude;
    if (f->kind == SIGNED) limit = (limit >> 1) + (uint64_t)negative;
    else if (negative) return 0;
    fits = magnitude <= limit;
    code = (negative ? -magnitude : magnitude) & UINT64_MAX >> (64 - f->bits);
  }
  for (uint32_t i = 0; i < bytes; i++) to[i] = (uint8_t)(code >> 8 * i);
  return fits;
}

int convert_element(const format *from, const uint8_t *source, const format *to, uint8_t *target) {
  scalar x = {0};
  load_element(from, source, &x);
  int fits = store_element(to, target, &x, from != to);
  if (to->kind != COMPLEX) return fits;
  if (from->kind == COMPLEX) load_element(from, source + from->bits / 8, &x);
  else x.real = 0, x.negative = 0, x.magnitude = 0;
  return fits & store_element(to, target + to->bits / 8, &x, 0);
}

uint32_t size_of(const array *x, uint32_t d) { return x->dims[d].actual ? (uint32_t)*x->dims[d].actual : x->dims[d].size; }

uint32_t count_of(const array *x) {
  uint32_t count = 1;
  for (uint32_t d = 0; d < x->rank; d++) count *= size_of(x, d);
  return count;
}

int shape_array(array *x, const char *type, uint32_t rank, const uint32_t *sizes) {
  int fits = rank == x->rank;
  for (uint32_t d = 0; fits && d < rank; d++) {
    fits = x->dims[d].actual ? sizes[d] <= x->dims[d].size : sizes[d] == x->dims[d].size;
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
