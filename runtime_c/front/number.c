// Numbers as text, exactly: the double nearest to what is written, and the fewest digits that read back to the same value.
#include "front.h"

enum { DIGITS = 800 }; // beyond these only ties can change: the last one is odd then

typedef struct {
  int count, point; // 0.d1 d2 d3 ... * 10^point, where d1 is not 0
  uint8_t digit[DIGITS];
} decimal;

static void append(decimal *x, uint32_t digit) {
  if (!x->count && !digit) x->point--;
  else if (x->count < DIGITS) x->digit[x->count++] = (uint8_t)digit;
  else if (digit) x->digit[DIGITS - 1] |= 1;
}

static void set_to(decimal *x, const decimal *y) { copy(x, y, sizeof(int) * 2 + (uint32_t)y->count); }

static void strip(decimal *x) {
  while (x->count && !x->digit[x->count - 1]) x->count--;
}

// Multiplies by 2^by, which is from -56 to 56.
static void scale(decimal *x, int by) {
  static decimal from;
  uint64_t rest = 0;
  set_to(&from, x);
  x->count = 0;
  if (by < 0) { // a long division
    for (int i = 0; i < from.count || rest; i++) {
      rest = rest * 10 + (i < from.count ? from.digit[i] : 0);
      append(x, (uint32_t)(rest >> -by));
      rest &= (1ull << -by) - 1;
    }
  } else { // the digits come from the last one on, and are turned round
    static uint8_t made[DIGITS + 20];
    int n = 0;
    for (int i = from.count; i-- || rest;) {
      if (i >= 0) rest += (uint64_t)from.digit[i] << by;
      else i = 0;
      made[n++] = (uint8_t)(rest % 10);
      rest /= 10;
    }
    x->point += n - from.count;
    while (n--) append(x, made[n]);
  }
  strip(x);
}

static void times_power_of_2(decimal *x, int by) {
  for (; by > 56; by -= 56) scale(x, 56);
  for (; by < -56; by += 56) scale(x, -56);
  scale(x, by);
}

// The first `count` digits, one more in the last place if the rest is more than half of it, or half and that digit is odd.
static void round_to(decimal *x, int count) {
  if (count >= x->count) return;
  int up = x->digit[count] > 5 || (x->digit[count] == 5 && (x->count > count + 1 || (count && x->digit[count - 1] & 1)));
  x->count = count;
  while (up && x->count && x->digit[x->count - 1] == 9) x->count--;
  if (up && x->count) x->digit[x->count - 1]++;
  else if (up) x->count = 1, x->digit[0] = 1, x->point++;
  strip(x);
}

static int compare(const decimal *x, const decimal *y) {
  if (x->point != y->point) return x->point - y->point;
  for (int i = 0; i < x->count || i < y->count; i++) {
    int a = i < x->count ? x->digit[i] : 0, b = i < y->count ? y->digit[i] : 0;
    if (a != b) return a - b;
  }
  return 0;
}

double power_of_2(int exponent) {
  union {
    uint64_t bits;
    double value;
  } x = {(uint64_t)(exponent + 1023) << 52};
  return x.value;
}

static double nearest(decimal *x) {
  int exponent = 0;
  if (!x->count || x->point < -330) return 0;
  if (x->point > 310) return __builtin_inf();
  // First to a value from 1/2 up to 1. A digit is more than three bits, so that no step goes too far.
  while (x->point || x->digit[0] < 5) {
    int by = x->point > 1 ? 3 - 3 * x->point : x->point == 1 ? -1 : x->point ? -3 * x->point : 1;
    if (by < -50) by = -50;
    if (by > 50) by = 50;
    scale(x, by);
    exponent -= by;
  }
  int bits = exponent < -1021 ? 1074 + exponent : 53;
  if (bits < 0) return 0;
  scale(x, bits);
  round_to(x, x->point);
  uint64_t whole = 0;
  for (int i = 0; i < x->point; i++) whole = whole * 10 + (i < x->count ? x->digit[i] : 0);
  exponent -= bits;
  // In two steps: 2^exponent may be beyond the range of doubles where the product is not.
  return (double)whole * power_of_2(exponent / 2) * power_of_2(exponent - exponent / 2);
}

// whole / power, rounded once: as many bits of the quotient as settle that, and one for all the others. `power` is below 2^63.
static double quotient(uint64_t whole, uint64_t power) {
  uint64_t made = whole / power, rest = whole % power;
  int exponent = 0, step = __builtin_clzll(power);
  if (step > 9) step = 9;
  for (; whole && !(made >> 55); exponent -= step) {
    uint64_t bits = (rest <<= step) / power;
    made = made << step | bits;
    rest -= bits * power;
  }
  return (double)(made | (rest != 0)) * power_of_2(exponent);
}

static void set_integer(decimal *x, uint64_t value) {
  char digits[20];
  uint32_t n = print_integer(value, digits);
  x->count = 0, x->point = (int)n;
  for (uint32_t i = 0; i < n; i++) append(x, (uint32_t)digits[i] - '0');
}

// 1, and reads the word, if that is what comes, in small or capital letters.
static int read_word(reader *in, const char *word) {
  for (; *word; word++)
    if ((peek(in) | 32) != *word) return 0;
    else next(in);
  return 1;
}

static int read_digits(reader *in, scalar *x) {
  static decimal d;
  int any = 0, point = 0, exponent = 0, behind = 0, fits = 1; // behind: how many digits follow the point; fits: all of them in magnitude
  uint64_t whole = 0;
  x->real = 0;
  for (;; next(in)) {
    int c = in->at < in->end ? in->buffer[in->at] : peek(in);
    uint32_t digit = (uint32_t)c - '0';
    if (c == '.' && !point) point = x->real = 1;
    else if (digit < 10) {
      any = 1, behind += point;
      if (fits && (whole > UINT64_MAX / 10 || (whole == UINT64_MAX / 10 && digit > UINT64_MAX % 10))) set_integer(&d, whole), x->real = 1, fits = 0;
      if (fits) whole = whole * 10 + digit;
      else d.point++, append(&d, digit);
    } else
      break;
  }
  if ((peek(in) | 32) == 'e') {
    next(in);
    int sign = peek(in), power = 0;
    if (sign == '-' || sign == '+') next(in);
    any = 0, x->real = 1;
    for (; peek(in) >= '0' && peek(in) <= '9'; any = 1) {
      int digit = next(in) - '0';
      if (power < 100000) power = power * 10 + digit;
    }
    exponent = sign == '-' ? -power : power;
  }
  x->magnitude = whole;
  if (!x->real) return any;
  behind -= exponent;
  if (fits && behind >= 0 && behind < 19) {
    uint64_t power = 1;
    while (behind--) power *= 10;
    x->value = quotient(whole, power);
    return any;
  }
  if (fits) set_integer(&d, whole);
  strip(&d);
  d.point -= behind;
  x->value = nearest(&d);
  return any;
}

int read_number(reader *in, scalar *x) {
  int quoted = peek(in) == '"', read = 1;
  if (quoted) next(in);
  int sign = peek(in);
  if (sign == '-' || sign == '+') next(in);
  x->negative = sign == '-';
  int first = peek(in) | 32;
  if (first == 't' || first == 'f') x->real = 0, x->magnitude = first == 't', read = read_word(in, first == 't' ? "true" : "false");
  else if (first == 'n') x->real = 1, x->value = __builtin_nan(""), read = read_word(in, "nan");
  else if (first == 'i') {
    x->real = 1, x->value = __builtin_inf(), read = read_word(in, "inf");
    if (peek(in) == 'i') read &= read_word(in, "inity");
  } else
    read = read_digits(in, x);
  if (x->negative) x->value = -x->value;
  return read && (!quoted || next(in) == '"');
}

uint32_t print_integer(uint64_t value, char *to) {
  uint32_t n = 0;
  uint64_t power = 1;
  while (value / power >= 10) power *= 10;
  for (; power; power /= 10) to[n++] = (char)('0' + value / power % 10);
  return n;
}

static void set(decimal *x, uint64_t whole, int exponent) {
  set_integer(x, whole);
  strip(x);
  times_power_of_2(x, exponent);
}

// The fewest digits that lie nearer to mantissa * 2^exponent than to its neighbours. `close`: the one below is only half as far away.
static decimal *shortest(uint64_t mantissa, int exponent, int close) {
  static decimal exact, low, high, made;
  int edges = !(mantissa & 1); // halfway reads back to the even one
  set(&exact, mantissa, exponent);
  set(&high, 2 * mantissa + 1, exponent - 1);
  set(&low, (mantissa << (1 + close)) - 1, exponent - 1 - close);
  for (int n = 1;; n++) {
    set_to(&made, &exact);
    round_to(&made, n);
    if (compare(&made, &low) > -edges && compare(&made, &high) < edges) return &made;
  }
}

uint32_t print_number(const format *f, const scalar *x, char to[32]) {
  uint32_t n = 0;
  double value = x->value;
  if (x->real ? bits_of(value) >> 63 && value == value : x->negative) to[n++] = '-', value = -value;
  if (!x->real) return n + print_integer(x->magnitude, to + n);
  const char *word = value != value ? "NaN" : value == __builtin_inf() ? "Infinity" : value == 0 ? "0.0" : 0;
  if (word) return copy(to + n, word, length(word)), n + length(word);
  // The value as a whole number of as many bits as the type has, times a power of 2.
  int exponent = (int)(bits_of(value) >> 52), least = (f->flags & NO_SIGN ? 0 : 1) - f->bias - f->mantissa;
  uint64_t mantissa = bits_of(value) & ((1ull << 52) - 1);
  if (exponent) mantissa |= 1ull << 52, exponent--;
  exponent -= 1022 + f->mantissa;
  int beyond = exponent < least ? least - exponent : 0;
  mantissa >>= 52 - f->mantissa + beyond;
  exponent += beyond;
  const decimal *d = shortest(mantissa, exponent, mantissa == 1ull << f->mantissa && exponent > least);
  int point = d->point, long_form = point > 16 || point < -3;
  if (long_form) point = 1;
  if (point <= 0) to[n++] = '0', to[n++] = '.';
  for (int i = point; i < 0; i++) to[n++] = '0';
  for (int i = 0; i < d->count || i < point; i++) {
    if (i && i == point) to[n++] = '.';
    to[n++] = (char)('0' + (i < d->count ? d->digit[i] : 0));
  }
  if (!long_form) {
    if (d->count <= point) to[n++] = '.', to[n++] = '0';
    return n;
  }
  point = d->point - 1;
  to[n++] = 'e', to[n++] = point < 0 ? '-' : '+';
  if (point < 0) point = -point;
  if (point < 10) to[n++] = '0';
  return n + print_integer((uint64_t)point, to + n);
}
