// Numbers as text, exactly: the double nearest to what is written, and the fewest digits that read back to the same value.
#include "front.h"

enum { DIGITS = 800, WORDS = 112 }; // digits beyond these can only change ties: the number is odd then

// A fraction of two large numbers times a power of 2, and how many words of them are in use; those behind are zero.
static struct {
  uint32_t above[WORDS], below[WORDS];
} of;
static uint32_t words;
static int exponent;

static void times(uint32_t *x, uint32_t by, uint32_t plus) {
  uint64_t carry = plus;
  for (uint32_t i = 0; i < words; i++) {
    carry += (uint64_t)x[i] * by;
    x[i] = (uint32_t)carry;
    carry >>= 32;
  }
  if (carry) x[words++] = (uint32_t)carry;
}

static void set(uint64_t value) {
  __builtin_memset(&of, 0, sizeof of);
  words = 2, of.above[0] = (uint32_t)value, of.above[1] = (uint32_t)(value >> 32), of.below[0] = 1;
}

static void times_power_of_10(int power) {
  exponent += power;
  for (; power > 0; power--) times(of.above, 5, 0);
  for (; power < 0; power++) times(of.below, 5, 0);
}

static int is_below_1(void) {
  uint32_t i = words;
  while (--i && of.above[i] == of.below[i]) {}
  return of.above[i] < of.below[i];
}

// The fraction as a whole number, rounded down, that is to be multiplied with 2^exponent: as soon as it has 62 bits, or `exponent` is
// at the least. What `of.above` is then was lost.
static uint64_t divide(int least) {
  uint64_t made = 0;
  while (!is_below_1()) times(of.below, 1 << 8, 0), exponent += 8;
  for (; !(made >> 61) && exponent > least; exponent--) {
    times(of.above, 2, 0);
    made *= 2;
    if (is_below_1()) continue;
    made++;
    int64_t carry = 0;
    for (uint32_t i = 0; i < words; i++) {
      carry += (int64_t)of.above[i] - of.below[i];
      of.above[i] = (uint32_t)carry;
      carry >>= 32;
    }
  }
  return made;
}

static int is_rest(void) {
  uint32_t i = words;
  while (i && !of.above[i - 1]) i--;
  return i != 0;
}

double power_of_2(int exponent) {
  union {
    uint64_t bits;
    double value;
  } x = {(uint64_t)(exponent + 1023) << 52};
  return x.value;
}

// The double nearest to what is set, times a power of 10.
static double nearest(int power) {
  if (power < -1150 || !is_rest()) return 0;
  if (power > 310) return __builtin_inf();
  exponent = 0;
  times_power_of_10(power);
  // Of what is below the normal numbers there are two bits more than they have, and the second says whether anything else follows.
  uint64_t made = divide(-1076);
  made |= (uint64_t)is_rest();
  // In two steps: 2^exponent may be beyond the range of doubles where the product is not.
  return (double)made * power_of_2(exponent / 2) * power_of_2(exponent - exponent / 2);
}

// whole / power, rounded once: as many bits of the quotient as settle that, and one for all the others. `power` is below 2^63.
static double quotient(uint64_t whole, uint64_t power) {
  uint64_t made = whole / power, rest = whole % power;
  int exponent = 0;
  while (whole && !(made >> 55)) {
    int step = __builtin_clzll(power), room = __builtin_clzll(made | 1);
    if (step > room) step = room;
    uint64_t bits = (rest <<= step) / power;
    made = made << step | bits;
    rest -= bits * power;
    exponent -= step;
  }
  return (double)(made | (rest != 0)) * power_of_2(exponent);
}

static double nearest_to(uint64_t whole, int power) {
  if (power > 0 || power < -18) return set(whole), nearest(power);
  uint64_t divisor = 1;
  while (power++) divisor *= 10;
  return quotient(whole, divisor);
}

static int read_digits(reader *in, scalar *x) {
  int any = 0, point = 0, power = 0, digits = 0; // digits: how many 64 bits do not hold
  uint64_t whole = 0, more;
  x->real = 0;
  for (;; next(in)) {
    int c = in->at < in->end ? in->buffer[in->at] : peek(in);
    uint32_t digit = (uint32_t)c - '0';
    if (c == '.' && !point) point = x->real = 1;
    else if (digit < 10) {
      any = 1, power -= point;
      if (!digits && whole <= UINT64_MAX / 10 && (more = whole * 10 + digit) >= digit) whole = more;
      else {
        if (!digits++) set(whole), x->real = 1;
        if (digits < DIGITS) times(of.above, 10, digit);
        else power++, of.above[0] |= digit != 0;
      }
    } else
      break;
  }
  if ((peek(in) | 32) == 'e') {
    next(in);
    int sign = peek(in), stated = 0;
    if (sign == '-' || sign == '+') next(in);
    any = 0, x->real = 1;
    for (uint32_t digit; (digit = (uint32_t)peek(in) - '0') < 10; any = 1, next(in))
      if (stated < 100000) stated = stated * 10 + (int)digit;
    power += sign == '-' ? -stated : stated;
  }
  x->magnitude = whole;
  if (x->real) x->value = digits ? nearest(power) : nearest_to(whole, power);
  if (x->real && x->value == __builtin_inf()) x->real = BEYOND;
  return any;
}

// A word, in small or capital letters.
static int read_word(reader *in, scalar *x) {
  static char word[9];
  uint32_t n = 0;
  for (; n < 8 && (uint32_t)(peek(in) | 32) - 'a' < 26; n++) word[n] = (char)(next(in) | 32);
  word[n] = 0;
  int which = place_in("false\0true\0nan\0inf\0infinity\0", word);
  x->real = which > 1, x->magnitude = (uint64_t)which;
  x->value = which == 2 ? __builtin_nan("") : __builtin_inf();
  return which >= 0;
}

int read_number(reader *in, scalar *x) {
  int quoted = peek(in) == '"';
  if (quoted) next(in);
  int sign = peek(in);
  if (sign == '-' || sign == '+') next(in);
  x->negative = sign == '-';
  int read = peek(in) >= 'A' ? read_word(in, x) : read_digits(in, x);
  if (x->negative) x->value = -x->value;
  return read && (!quoted || next(in) == '"');
}

uint32_t print_integer(uint64_t value, char *to) {
  uint32_t n = 1;
  for (uint64_t rest = value; rest /= 10;) n++;
  for (uint32_t i = n; i--; value /= 10) to[i] = (char)('0' + value % 10);
  return n;
}

void say_number(const format *f, const scalar *x) {
  double value = x->value;
  if (x->real ? bits_of(value) >> 63 && value == value : x->negative) emit('-'), value = -value;
  if (!x->real) return say_integer(x->magnitude);
  const char *word = value != value ? "NaN" : value == __builtin_inf() ? "Infinity" : value == 0 ? "0.0" : 0;
  if (word) return say(word);
  // More of its digits than can be needed, exactly; the last are taken away as long as what is left reads back as the same value.
  uint64_t mantissa = bits_of(value) & ((1ull << 52) - 1);
  exponent = (int)(bits_of(value) >> 52) - 1075;
  if (exponent > -1075) mantissa |= 1ull << 52;
  else exponent++;
  // Of 2^n the logarithm to base 10, rounded down.
  int power = f->mantissa * 9 / 32 + 3 - ((exponent + 63 - __builtin_clzll(mantissa)) * 78913 >> 18);
  set(mantissa);
  times_power_of_10(power);
  uint64_t digits = divide(0), made = 0;
  int more = is_rest(), taken = 0;
  static scalar back;
  static uint8_t code[8];
  for (uint64_t unit = 10; unit <= digits; unit *= 10) {
    uint64_t next = digits / unit, rest = digits % unit * 2;
    next += rest > unit || (rest == unit && (more || next & 1));
    power--;
    // Above a power of 2 the next value is twice as far as below it: there one more in the last place may read back.
    int once = mantissa & (mantissa - 1) ? 0 : 1, reads;
    do {
      back.real = 1, back.value = nearest_to(next, -power);
      store_element(f, code, &back, 0), load_element(f, code, &back);
      reads = back.value == value;
      if (reads) made = next, taken = power;
    } while (!reads && once-- && next++);
    if (!reads && mantissa & (mantissa - 1)) break; // no fewer digits do
  }
  for (; made % 10 == 0; made /= 10) taken--;
  static char text[20];
  int count = (int)print_integer(made, text), point = count - taken, last = point + 1; // the point stands before the digit of its number
  power = point - 1;
  int long_form = point > 16 || point < -3;
  if (long_form) point = last = 1;
  for (int i = point > 0 ? 0 : point - 1; i < count || i < last; i++) {
    if (i == point) emit('.');
    emit((uint32_t)i < (uint32_t)count ? text[i] : '0');
  }
  if (!long_form) return;
  emit('e'), emit(power < 0 ? '-' : '+');
  if (power < 0) power = -power;
  if (power < 10) emit('0');
  say_integer((uint64_t)power);
}
