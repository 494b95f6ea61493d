// Strings, buffered reading, buffered writing.
//
// Where nothing calls itself, what has to have an address is static: a frame of the stack costs 20 bytes of code in each function.
#include "front.h"

uint32_t length(const char *s) {
  uint32_t n = 0;
  while (s[n]) n++;
  return n;
}

int same(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}

int starts(const char *s, const char *with) {
  int n = 0;
  while (with[n] && s[n] == with[n]) n++;
  return with[n] ? 0 : n;
}

int place_in(const char *list, const char *s) {
  for (int i = 0; *list; list += length(list) + 1, i++)
    if (same(list, s)) return i;
  return -1;
}

int ends_with(const char *text, const char *with) {
  uint32_t n = length(text), m = length(with);
  return n >= m && same(text + n - m, with);
}

int is_raw(const char *path) { return ends_with(path, ".bin") || ends_with(path, ".raw"); }

void *copy(void *to, const void *from, uint32_t count) { return __builtin_memcpy(to, from, count); }

static uint32_t pull_any(reader *in, uint8_t *to, uint32_t room) { return in->is_entry ? pull_entry(in, to, room) : pull(in, to, room); }

int peek(reader *in) {
  if (in->at == in->end) {
    in->at = 0;
    in->end = pull_any(in, in->buffer, in->room);
  }
  return in->at == in->end ? -1 : in->buffer[in->at];
}

int next(reader *in) {
  int c = peek(in);
  if (c >= 0) in->at++;
  return c;
}

uint32_t take(reader *in, void *to, uint32_t count) {
  uint32_t had = in->end - in->at, got = 0;
  if (had > count) had = count;
  copy(to, in->buffer + in->at, had);
  in->at += had;
  while (had < count && !failed() && (got = pull_any(in, (uint8_t *)to + had, count - had))) had += got;
  return had;
}

writer out;

static void pass(const uint8_t *from, uint32_t count) {
  if (out.is_summed) out.sum = crc32(out.sum, from, count);
  else push(from, count);
}

void flush(void) {
  uint32_t count = out.at;
  out.at = 0;
  pass(out.buffer, count);
}

void emit(int c) {
  if (out.at == sizeof out.buffer) flush();
  out.buffer[out.at++] = (uint8_t)c;
}

void emit_bytes(const void *from, uint32_t count) {
  if (count < sizeof out.buffer - out.at) {
    copy(out.buffer + out.at, from, count);
    out.at += count;
    return;
  }
  flush();
  pass(from, count);
}

void say(const char *s) { emit_bytes(s, length(s)); }

void say_integer(uint64_t value) {
  static char digits[20];
  emit_bytes(digits, print_integer(value, digits));
}

void say_shape(const array *x, uint32_t rank, const uint32_t *sizes, const char *mark) {
  emit('[');
  for (uint32_t d = 0; d < rank; d++) {
    int dynamic = x && x->dims[d].actual;
    if (d) emit(',');
    if (dynamic) {
      say(mark);
      if (x->dims[d].least) say_integer(x->dims[d].least), say("..");
      else say("<=");
    }
    say_integer(x ? x->dims[d].size : sizes[d]);
    if (dynamic) say(mark);
  }
  emit(']');
}

void say_type(const array *x) { say(x->type->name), say_shape(x, x->rank, 0, ""); }
