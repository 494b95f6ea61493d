// Arrays as files of NumPy, and as their bytes.
#include "front.h"

MODEL("raw_bounds") void raw_bounds(const array *); // where there are dynamic dimensions

enum { HEADER = 10000 }; // NumPy reads none that is longer, either

// NumPy's types as element types; those that it lacks are bytes of the width that the model's have.
static int numpy_type(const char *code, format *f) {
  static const char letters[] = "buifc";
  uint32_t kind = 0, bytes = 0;
  while (letters[kind] && letters[kind] != code[0]) kind++;
  while (*++code >= '0' && *code <= '9' && bytes < 10) bytes = bytes * 10 + (uint32_t)(*code - '0');
  uint32_t part = kind == COMPLEX ? bytes / 2 : bytes;
  if (kind > COMPLEX || !part || part > 8 || part & (part - 1) || *code || (kind >= FLOAT && part < 2)) return 0;
  f->kind = (uint8_t)kind, f->bytes = (uint8_t)bytes, f->bits = (uint8_t)(8 * part), f->flags = ROUNDED;
  if (kind) f->name[0] = "?usfc"[kind], f->name[1 + print_integer(8 * bytes, f->name + 1)] = 0;
  else copy(f->name, "pred", 5);
  f->mantissa = 10, f->bias = 15, f->largest = 0x7bff, f->infinite = 0x7c00; // of f16: wider types do not need them
  return 1;
}

// There are fewer bytes than the array has. `whole`: nothing has said how many there are, so that there may be fewer rows where their
// number is dynamic, and whole elements alone do not say that some are lost.
static void end_early(const array *x, uint32_t got, int whole) {
  uint32_t element = x->type->bytes, row = element;
  for (uint32_t d = 1; d < x->rank; d++) row *= x->dims[d].size;
  if (whole && x->rank && x->dims[0].actual && got % row == 0 && got / row >= x->dims[0].least) *x->dims[0].actual = (int32_t)(got / row);
  else fail(whole && got % element == 0 ? UNFIT : DAMAGED, "the data end too early", x);
}

// The elements that follow, of a type, in an order.
static void read_elements(reader *in, array *x, const format *f, int swap, int first_is_fastest, int whole) {
  uint32_t count = count_of(x), bytes = f->bytes, part = f->kind == COMPLEX ? bytes / 2 : bytes;
  int all_codes = f->kind == COMPLEX || (f->kind != PRED && f->bits == 8 * bytes);
  x->given = 1;
  if (f == x->type && all_codes && !swap && !first_is_fastest && is_dense(x)) {
    uint32_t got = take(in, x->data, count * bytes);
    if (got < count * bytes) end_early(x, got, whole);
    return;
  }
  for (uint32_t i = 0; i < count && !failed(); i++) {
    static uint8_t raw[16], element[16];
    uint32_t got = take(in, raw, bytes);
    if (got < bytes) return end_early(x, i * bytes + got, whole);
    for (uint32_t k = 0; k < bytes; k++) element[swap ? k ^ (part - 1) : k] = raw[k];
    uint8_t *to = place_of(x, i, first_is_fastest);
    // Of what is narrower than a byte the other bits are zeros, or copies of its sign.
    int8_t code = (int8_t)element[0];
    int whole_code = f->bits >= 8 || !((uint8_t)code >> f->bits) || (f->kind == SIGNED && code >> (f->bits - 1) == -1);
    if (f == x->type && all_codes) copy(to, element, bytes);
    else if (!whole_code || !convert_element(f, element, x->type, to)) fail(UNFIT, "a value is not one of its type", x);
  }
}

// ---- the header: a dictionary as Python writes it

static char *at;

static int accept(char c) {
  while (*at == ' ' || *at == '\n') at++;
  return *at == c && at++;
}

// What stands in quotation marks, of which the second becomes a zero; 0: something else does.
static const char *quoted(void) {
  char mark = accept('"') ? '"' : '\'';
  if (mark == '\'' && !accept(mark)) return 0;
  const char *text = at;
  while (*at && *at != mark) at++;
  if (!*at) return 0;
  *at++ = 0;
  return text;
}

static struct {
  const char *code; // without the byte order, if it has one
  char order;       // of bytes
  int first_is_fastest;
  uint32_t rank, sizes[33];
} described;

static int read_shape(void) {
  described.rank = 0;
  if (!accept('(')) return 0;
  while (!accept(')')) {
    if (described.rank && !accept(',')) return 0;
    if (described.rank && accept(')')) return 1;
    uint64_t n = 0;
    accept(' ');
    if (*at < '0' || *at > '9' || described.rank == 33) return 0;
    for (; *at >= '0' && *at <= '9'; at++) n = n > UINT32_MAX ? n : n * 10 + (uint64_t)(*at - '0');
    if (*at == 'L') at++; // Python 2
    described.sizes[described.rank++] = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
  }
  return 1;
}

static int read_dictionary(void) {
  uint32_t seen = 0;
  if (!accept('{')) return 0;
  while (!accept('}')) {
    const char *key = quoted();
    int which = key ? place_in("descr\0fortran_order\0shape\0", key) : -1;
    if (which < 0 || !accept(':')) return 0;
    seen |= 1u << which;
    accept(' ');
    if (which == 2) {
      if (!read_shape()) return 0;
    } else if (which == 1) {
      described.first_is_fastest = *at == 'T';
      int n = starts(at, described.first_is_fastest ? "True" : "False");
      if (!n) return 0;
      at += n;
    } else if (accept('[')) { // records
      described.code = "";
      for (int depth = 1; depth && *at; at++) depth += (*at == '[') - (*at == ']');
    } else {
      described.code = quoted();
      if (!described.code) return 0;
      if (*described.code < 'A' || *described.code == '|') described.order = *described.code++; // one of <>=|
    }
    if (!accept(',') && (accept(' '), *at != '}')) return 0;
  }
  return seen == 7;
}

void read_npy(reader *in, array *x) {
  static char header[HEADER];
  static struct {
    char magic[6];
    uint8_t version, minor;
    uint32_t size;
  } head;
  uint32_t size = HEADER;
  if (take(in, &head, 8) == 8 && starts(head.magic, "\x93NUMPY") && head.version >= 1 && head.version <= 3) {
    head.size = 0;
    take(in, &head.size, head.version > 1 ? 4 : 2);
    size = head.size;
  }
  if (size >= HEADER || take(in, header, size) < size) size = 0;
  header[size] = 0, at = header, described.order = 0;
  if (!read_dictionary()) return fail(DAMAGED, "this is not an npy file, or one with a damaged header", x);
  static format type;
  copy(type.name, "another type", 13);
  const format *f = &type;
  const char *own = x->type->code;
  // What NumPy lacks it writes as bytes, and float8_e5m2 as a type that it cannot read.
  if (same(described.code, own) || (same(own, "V1") && same(described.code, "f1"))) f = x->type;
  if ((f == &type && !numpy_type(described.code, &type)) || f->kind > x->type->kind) return fail_shape(x, f->name, described.rank, described.sizes);
  if (shape_array(x, f->name, described.rank, described.sizes)) read_elements(in, x, f, described.order == '>', described.first_is_fastest && x->rank > 1, 0);
}

void xw_raw_bounds(const array *x) {
  if (to_bounds(x) > 1) fail(UNFIT, "its bytes alone do not tell the sizes of its dynamic dimensions", x);
}

void xw_no_raw_bounds(const array *x) { (void)x; }

void read_raw(reader *in, array *x) {
  raw_bounds(x);
  if (failed()) return;
  read_elements(in, x, x->type, 0, 0, 1);
}

// Enough for all that a header says, in a multiple of 64 bytes.
static uint32_t header_bytes(const array *x) { return (67 + 11 * x->rank + 63) / 64 * 64; }

uint32_t npy_bytes(const array *x) { return header_bytes(x) + count_of(x) * x->type->bytes; }

void write_raw(const array *x) {
  uint32_t count = count_of(x), bytes = x->type->bytes;
  if (is_dense(x)) emit_bytes(x->data, count * bytes);
  else
    for (uint32_t i = 0; i < count; i++) emit_bytes(place_of(x, i, 0), bytes);
}

void write_npy(const array *x) {
  uint32_t bytes = header_bytes(x);
  if (out.at + bytes > sizeof out.buffer) flush();
  uint32_t end = out.at + bytes - 1;
  say("\x93NUMPY\1"), emit(0), emit((int)(bytes - 10)), emit((int)((bytes - 10) >> 8));
  say("{'descr': '"), emit(x->type->bytes == 1 ? '|' : '<'), say(x->type->code), say("', 'fortran_order': False, 'shape': (");
  for (uint32_t d = 0; d < x->rank; d++) {
    say_integer(size_of(x, d));
    if (d + 1 < x->rank || x->rank == 1) emit(',');
  }
  say("), }");
  while (out.at < end) emit(' ');
  emit('\n');
  write_raw(x);
}
