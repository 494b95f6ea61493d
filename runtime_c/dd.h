/* Double-double arithmetic: a value is the unevaluated sum hi + lo with |lo| at most half an ulp of hi.
   It carries about 106 bits, so that a function's last rounding is almost its only error. wasm has no fused
   multiply-add, hence the products are split by hand. Compile without -ffast-math. */
#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

typedef struct { double hi, lo; } dd;

static inline u64 bits_of(double x) { union { double d; u64 u; } v = {x}; return v.u; }
static inline double from_bits(u64 u) { union { u64 u; double d; } v = {u}; return v.d; }
static inline u32 bits_of_f32(float x) { union { float f; u32 u; } v = {x}; return v.u; }
static inline float f32_from_bits(u32 u) { union { u32 u; float f; } v = {u}; return v.f; }

/* 2**n for n in -1022..1023 */
static inline double power_of_two(int n) { return from_bits((u64)(n + 1023) << 52); }

static inline double fabs64(double x) { return __builtin_fabs(x); }
static inline double copysign64(double x, double y) { return __builtin_copysign(x, y); }
static inline double nearest64(double x) { return __builtin_rint(x); }
static inline int is_nan(double x) { return x != x; }

/* a + b exactly, where |a| >= |b| or a is 0 */
static inline dd quick_sum(double a, double b) { double s = a + b; return (dd){s, b - (s - a)}; }

/* a + b exactly */
static inline dd exact_sum(double a, double b) {
  double s = a + b, t = s - a;
  return (dd){s, (a - (s - t)) + (b - t)};
}

/* a * b exactly, short of overflow (beyond 2**990) and underflow */
static inline dd exact_product(double a, double b) {
  double p = a * b;
  double ta = 134217729.0 * a, ah = ta - (ta - a), al = a - ah;
  double tb = 134217729.0 * b, bh = tb - (tb - b), bl = b - bh;
  return (dd){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

static inline dd dd_negate(dd a) { return (dd){-a.hi, -a.lo}; }
static inline dd dd_scale(dd a, double power) { return (dd){a.hi * power, a.lo * power}; }

static inline dd dd_add(dd a, dd b) {
  dd s = exact_sum(a.hi, b.hi), t = exact_sum(a.lo, b.lo);
  s = quick_sum(s.hi, s.lo + t.hi);
  return quick_sum(s.hi, s.lo + t.lo);
}

/* a + b where |a| >= |b|, with fewer steps */
static inline dd dd_add_smaller(dd a, dd b) {
  dd s = quick_sum(a.hi, b.hi);
  return quick_sum(s.hi, s.lo + (a.lo + b.lo));
}

static inline dd dd_mul(dd a, dd b) {
  dd p = exact_product(a.hi, b.hi);
  return quick_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

static inline dd dd_div(dd a, dd b) {
  double q = a.hi / b.hi;
  dd p = exact_product(q, b.hi);
  double rest = ((a.hi - p.hi) - p.lo) + (a.lo - q * b.lo);
  return quick_sum(q, rest / b.hi);
}

static inline dd dd_sqrt(dd a) {
  if (a.hi <= 0) return (dd){0, 0};
  double s = __builtin_sqrt(a.hi);
  dd p = exact_product(s, s);
  return quick_sum(s, (((a.hi - p.hi) - p.lo) + a.lo) / (2 * s));
}
