// Weights and states of a command from files: the sidecar of the artifact, safetensors, archives of arrays.
#include "wasi.h"

enum { LONGEST = 100000000 };
void sha256(const uint8_t *from, uint32_t bytes, uint8_t digest[32]);

// The program's own name with another ending.
static const char *beside(const char *program, const char *ending) {
  static char path[300];
  uint32_t n = length(program), m = n;
  if (n > 255) return "";
  copy(path, program, n);
  while (m && program[m - 1] != '.' && program[m - 1] != '/') m--;
  if (m && program[m - 1] == '.') n = m - 1;
  copy(path + n, ending, length(ending) + 1);
  return path;
}

static void read_sidecar(model *m, const char *path) {
  uint32_t at = 0;
  uint8_t digest[32];
  open_input(path);
  for (const part *p = m->part; p < m->part + m->parts; p++) {
    for (; at < p->offset; at++) next(&input);
    if (take(&input, p->data, p->bytes) < p->bytes) stop(WRONG_INPUT, "this file is cut short, or that of another model", path);
    at += p->bytes;
    sha256(p->data, p->bytes, digest);
    for (int i = 0; i < 32; i++)
      if (digest[i] != p->digest[i]) stop(WRONG_INPUT, "this file is damaged, or that of another model", path);
    init(p->index);
  }
  close_input();
}

// ---- safetensors: the size of the header, the header as JSON, the data

static void damaged(void) { stop(WRONG_INPUT, "this is not a safetensors file, or its header is damaged", input_name); }

static void expect(int c) {
  skip_blanks(&input);
  if (next(&input) != c) damaged();
}

static void read_name(char name[NAME]) {
  skip_blanks(&input);
  if (!read_string(&input, name)) damaged();
}

static uint64_t read_size(void) {
  scalar x;
  skip_blanks(&input);
  if (!read_number(&input, &x) || x.real || x.negative) damaged();
  return x.magnitude;
}

// Up to 32 whole numbers; how many there are.
static uint32_t read_sizes(uint64_t *sizes) {
  uint32_t n = 0;
  expect('[');
  skip_blanks(&input);
  if (peek(&input) == ']') return next(&input), 0;
  for (;;) {
    if (n == 32) damaged();
    sizes[n++] = read_size();
    skip_blanks(&input);
    int c = next(&input);
    if (c == ']') return n;
    if (c != ',') damaged();
  }
}

static void skip_object(void) {
  char text[NAME];
  for (int depth = 0;;) {
    skip_blanks(&input);
    int c = peek(&input);
    if (c < 0) damaged();
    if (c == '"') {
      read_name(text);
      continue;
    }
    next(&input);
    depth += c == '{';
    depth -= c == '}';
    if (!depth) return;
  }
}

static int fits(const array *x, const char *type) {
  static const char *const pairs[][2] = {{"BOOL", "pred"}, {"BF16", "bf16"}, {"F8_E4M3", "f8e4m3fn"}, {"F8_E5M2", "f8e5m2"}};
  for (int i = 0; i < 4; i++)
    if (same(type, pairs[i][0])) return same(x->type->name, pairs[i][1]);
  return (type[0] == 'I' ? 's' : type[0] | 32) == x->type->name[0] && same(type + 1, x->type->name + 1);
}

static void read_tensor(model *m, const char *name) {
  char key[NAME], type[NAME] = "";
  uint64_t sizes[32], range[32] = {0};
  uint32_t rank = 0, given[33];
  array *x = 0;
  for (uint32_t i = 0; i < m->parameters; i++)
    if (m->parameter[i].kind != INPUT && same(m->parameter[i].name, name)) x = &m->parameter[i];
  expect('{');
  for (int more = 1; more;) {
    read_name(key);
    expect(':');
    if (same(key, "dtype")) skip_blanks(&input), read_name(type);
    else if (same(key, "shape")) rank = read_sizes(sizes);
    else if (same(key, "data_offsets")) {
      if (read_sizes(range) != 2) damaged();
    } else damaged();
    skip_blanks(&input);
    more = next(&input) == ',';
  }
  if (!x || x->given) return; // what is set by name counts
  for (uint32_t d = 0; d < rank; d++) given[d] = sizes[d] > UINT32_MAX ? UINT32_MAX : (uint32_t)sizes[d];
  if (!fits(x, type)) fail(UNFIT, "the file has this as another type", x);
  shape_array(x, 0, rank, given);
  if (range[1] - range[0] != x->bytes || range[0] > UINT32_MAX) damaged();
  x->start = (uint32_t)range[0], x->given = 2;
}

static void read_safetensors(model *m, uint64_t size) {
  char name[NAME];
  if (size > LONGEST) damaged();
  expect('{');
  skip_blanks(&input);
  for (int more = peek(&input) != '}'; more;) {
    read_name(name);
    expect(':');
    skip_blanks(&input);
    if (same(name, "__metadata__")) skip_object();
    else read_tensor(m, name);
    skip_blanks(&input);
    more = next(&input) == ',';
  }
  for (array *x = m->parameter; x < m->end; x++)
    if (x->given == 2) {
      seek_input(8 + size + x->start);
      read_raw(&input, x);
    }
}

static void read_weight_file(model *m, const char *path) {
  uint64_t size;
  open_input(path);
  if (peek(&input) == 'P') read_zip(&input, 0);
  else if (take(&input, &size, 8) < 8 || peek(&input) != '{') damaged();
  else read_safetensors(m, size);
  close_input();
  input_name = 0;
}

void xw_read_weights(model *m, const char *program, const char *sidecar, const char *weights) {
  if (weights) read_weight_file(m, weights);
  else {
    const char *path = beside(program, ".safetensors");
    int wanted = 0;
    for (uint32_t i = 0; i < m->parameters; i++) wanted |= m->parameter[i].kind == WEIGHT && !m->parameter[i].given;
    if (wanted && opens(path)) read_weight_file(m, path);
  }
  if (m->parts) read_sidecar(m, sidecar ? sidecar : beside(program, ".weights"));
  input_name = 0;
}

void xw_say_weights_usage(void) {
  say("  --weights FILE weights and states, .safetensors or .npz; --sidecar FILE the .weights file\n");
}

// For models with neither.
void xw_no_weights_usage(void) {}

void xw_no_weights(model *m, const char *program, const char *sidecar, const char *weights) {
  (void)m, (void)program;
  if (sidecar || weights) stop(USAGE, "the model has no weights beside its module", sidecar ? sidecar : weights);
}
