// Arrays as JSON, and as numbers without brackets.
#include "front.h"

MODEL("settle_complex") uint32_t settle_complex(const array *, uint32_t rank); // where there are complex numbers

enum { DEEPEST = 34 };

static int is_blank(int c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

void skip_blanks(reader *in) {
  while (is_blank(in->at < in->end ? in->buffer[in->at] : peek(in))) in->at++;
}

// NESTED: lists as the array has dimensions. FLAT: one list of all elements. BARE: numbers without a list around them.
enum form { NESTED, FLAT, BARE };

// What is read so far: the position in each list, and how long the lists of each depth are.
static struct {
  uint32_t at[DEEPEST], size[DEEPEST];
  uint8_t known[DEEPEST];
  uint32_t depth, numbers; // numbers: the depth at which they stand, plus 1; 0: there was none
  enum form form;
} now;

static enum form form_of(const array *x, uint32_t complex) {
  if (now.depth == 0) return BARE;
  return now.depth == 1 + complex && x->rank != 1 && !to_bounds(x) ? FLAT : NESTED;
}

// Stores a number if it lies inside the array. What does not is told by the sizes at the end.
static void store(array *x, const scalar *value, uint32_t complex) {
  uint32_t index = now.at[now.form != BARE], second = complex ? now.at[now.depth] : 0;
  uint8_t *to = x->data;
  if (now.form == BARE) index >>= complex, second &= 1;
  if (now.form != NESTED) {
    if (index >= count_of(x)) return;
    to = place_of(x, index, 0);
  } else {
    if (now.depth != x->rank + complex) return;
    for (uint32_t d = 0; d < x->rank; d++) {
      if (now.at[d + 1] >= x->dims[d].size) return;
      to += now.at[d + 1] * x->dims[d].stride;
    }
  }
  if (second > 1) return;
  if (!store_element(x->type, to + second * (x->type->bits / 8), value, 0)) fail(UNFIT, "a number is not one of its type", x);
}

static void read_value(reader *in, array *x) {
  uint32_t complex = x->type->kind == COMPLEX;
  static scalar value;
  if (!now.numbers) {
    now.numbers = now.depth + 1;
    now.form = form_of(x, complex);
  }
  if (!read_number(in, &value)) fail(DAMAGED, "this is not a number", x);
  else if (value.real == BEYOND) fail(UNFIT, "a number is not one of its type", x);
  else if (now.numbers != now.depth + 1) fail(UNFIT, "its lists are not nested evenly", x);
  else store(x, &value, complex);
  now.at[now.depth]++;
}

static void close_list(array *x) {
  uint32_t d = now.depth--, n = now.at[d];
  if (now.known[d] && now.size[d] != n) fail(UNFIT, "its lists are not equally long", x);
  now.known[d] = 1, now.size[d] = n;
  now.at[now.depth]++;
}

// The rank of an array whose elements are numbers, or pairs of numbers.
uint32_t xw_settle_complex(const array *x, uint32_t rank) {
  if (x->type->kind != COMPLEX) return rank;
  uint32_t *last = now.size + rank;
  if (now.form != BARE && rank && *last == 2) return rank - 1;
  if (now.form != BARE || *last & 1) fail(UNFIT, now.form == BARE ? "a complex number is two numbers" : "a complex number is a list of two numbers", x);
  *last >>= 1;
  return rank;
}

uint32_t xw_no_settle_complex(const array *x, uint32_t rank) { return (void)x, rank; }

// All of it has been read: is it what the array takes?
static void settle(array *x) {
  uint32_t rank = 0, *sizes = now.size + 1;
  x->given = 1;
  while (rank + 1 < DEEPEST && now.known[rank + 1]) rank++;
  if (!now.numbers && !rank) fail(DAMAGED, "this is empty", x);
  if (now.numbers && now.form == BARE) sizes[0] = now.at[0], rank = 1;
  if (now.numbers) rank = settle_complex(x, rank);
  else if (rank && rank <= x->rank && sizes[rank - 1] == 0)
    for (; rank < x->rank; rank++) sizes[rank] = x->dims[rank].size; // of lists without elements the sizes are not seen
  if (failed()) return;
  if (now.numbers && now.form != NESTED && !to_bounds(x) && rank == 1 && sizes[0] == count_of(x)) return;
  shape_array(x, 0, rank, sizes);
}

static void begin(array *x) {
  __builtin_memset(&now, 0, sizeof now);
  to_bounds(x);
}

static void read_lists(reader *in, array *x) {
  int value = 1; // what has to come: a value or a list, else a comma or the end of the list
  do {
    skip_blanks(in);
    int c = peek(in);
    if (value && c == '[') {
      next(in);
      if (now.numbers && now.depth + 1 >= now.numbers) fail(UNFIT, "its lists are not nested evenly", x);
      else if (++now.depth == DEEPEST) fail(UNFIT, "its lists are nested too deeply", x);
      if (failed()) return;
      now.at[now.depth] = 0;
      skip_blanks(in);
      if (peek(in) != ']') continue;
      value = 0, c = ']';
    }
    if (!value && now.depth && c == ']') next(in), close_list(x);
    else if (!value && now.depth && c == ',') next(in), value = 1;
    else if (value && c >= 0) read_value(in, x), value = 0;
    else fail(DAMAGED, c < 0 ? "its lists do not end" : "between its values stands something else than a comma", x);
  } while (!failed() && (now.depth || value));
}

void read_json(reader *in, array *x) {
  begin(x);
  read_lists(in, x);
  if (!failed()) settle(x);
}

void read_text(reader *in, array *x) {
  begin(x);
  skip_blanks(in);
  if (peek(in) == '[') read_lists(in, x);
  else {
    for (int c = ','; !failed() && peek(in) >= 0;) {
      if (c != ',' && !is_blank(c)) fail(DAMAGED, "this is not a number", x);
      read_value(in, x);
      c = peek(in);
      skip_blanks(in);
      if (peek(in) == ',') c = next(in), skip_blanks(in);
    }
  }
  skip_blanks(in);
  if (!failed() && peek(in) >= 0) fail(DAMAGED, "something follows its last list", x);
  if (!failed()) settle(x);
}

// Four digits of base 16; -1: there are others.
static int read_code(reader *in) {
  int code = 0;
  for (int i = 0; i < 4; i++) {
    int c = next(in), digit = c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
    if (digit < 0 || digit > 15 || (c > '9' && digit < 10)) return -1;
    code = code << 4 | digit;
  }
  return code;
}

int read_string(reader *in, char to[NAME]) {
  uint32_t n = 0;
  int high = 0; // the first half of a character that takes two escapes
  if (next(in) != '"') return 0;
  for (int c; (c = next(in)) != '"'; high = c >> 10 == 0x36 ? c : 0) {
    if (c < ' ' || n + 5 > NAME) return 0;
    int byte = c != '\\';
    if (!byte && (c = next(in)) == 'u') {
      if ((c = read_code(in)) < 0) return 0;
      if (high && c >> 10 == 0x37) c = 0x10000 + ((high & 1023) << 10 | (c & 1023)), n -= 3;
    } else if (!byte) {
      static const char escapes[] = "b\bf\fn\nr\rt\t\"\"\\\\//";
      const char *pair = escapes;
      while (*pair && *pair != c) pair += 2;
      if (!*pair) return 0;
      c = pair[1];
    }
    uint32_t more = byte || c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    to[n++] = (char)(more ? (0xff00 >> (more + 1) & 0xff) | c >> 6 * more : c);
    while (more--) to[n++] = (char)(0x80 | (c >> 6 * more & 63));
    if (byte) c = 0;
  }
  to[n] = 0;
  return 1;
}

void read_object(reader *in, model *m) {
  static char name[NAME];
  next(in);
  skip_blanks(in);
  if (peek(in) == '}') {
    next(in);
    return;
  }
  for (int c = ','; c == ',' && !failed();) {
    skip_blanks(in);
    if (!read_string(in, name)) return fail(DAMAGED, "the JSON object has no name in quotes here, or too long a one", 0);
    skip_blanks(in);
    if (next(in) != ':') return fail(DAMAGED, "the JSON object lacks a colon", 0);
    array *x = named(m, name);
    if (!is_new(x && x->kind == INPUT ? x : 0, name)) return;
    skip_blanks(in);
    read_json(in, x);
    skip_blanks(in);
    c = next(in);
    if (c != ',' && c != '}') return fail(DAMAGED, "the JSON object does not end", 0);
  }
}

static void write_number(const format *f, const uint8_t *from) {
  static scalar x;
  load_element(f, from, &x);
  if (f->kind == PRED) say(x.magnitude ? "true" : "false");
  else {
    int quoted = x.real && x.value - x.value != 0; // JSON has neither NaN nor infinities
    if (quoted) emit('"');
    say_number(f, &x);
    if (quoted) emit('"');
  }
}

static void write_level(const array *x, uint32_t d, const uint8_t *from) {
  if (d == x->rank) {
    int complex = x->type->kind == COMPLEX;
    if (complex) emit('[');
    write_number(x->type, from);
    if (!complex) return;
    emit(',');
    write_number(x->type, from + x->type->bits / 8);
    emit(']');
    return;
  }
  emit('[');
  for (uint32_t i = 0; i < size_of(x, d); i++, from += x->dims[d].stride) {
    if (i) emit(',');
    write_level(x, d + 1, from);
  }
  emit(']');
}

void write_json(const array *x) { write_level(x, 0, x->data); }

void say_json_text(const char *s) {
  emit('"');
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') emit('\\');
    if ((uint8_t)*s < ' ') say("\\u00"), emit('0' + (*s >> 4)), emit("0123456789abcdef"[*s & 15]);
    else emit(*s);
  }
  emit('"');
}

void write_json_results(const model *m, const char *file) {
  emit('{');
  if (file) say("\"file\":"), say_json_text(file);
  for (uint32_t i = 0; i < m->results; i++) {
    if (i || file) emit(',');
    say_json_text(m->result[i].name), emit(':'), write_json(&m->result[i]);
  }
  say("}\n");
}
