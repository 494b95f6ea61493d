// A WASI command: arguments name files with the inputs; the results are printed, or written to files.
#include "wasi.h"

MODEL("read_weights") void read_weights(model *, const char *program, const char *sidecar, const char *weights);
MODEL("say_weights_usage") void say_weights_usage(void);
MODEL("serve") void serve(const transfer *, uint32_t run);
MODEL("option") int transfer_option(const char *option, const char *value);

enum { ARGUMENTS = 32768, SHOWN = 16 };

// Options: flags, those with a value, those with a number; behind their names other names of the first and of RESULTS.
enum { HELP, SIGNATURE, JSON, TABLE, RANDOM, RESULTS, BATCH, SIDECAR, WEIGHTS, REPEAT, SEED, OPTIONS };
static const char names[] = "--help\0--signature\0--json\0--table\0--random\0-o\0--batch\0--sidecar\0--weights\0--repeat\0--seed\0-h\0--output\0";
static const char *given[OPTIONS]; // of flags something, or 0
static uint64_t numbers[OPTIONS];

// ---- messages

int xw_command_failed(void) { return 0; }

static _Noreturn void misused(const char *what, const char *which);

static void say_field(const array *x) {
  static const char *const kinds[] = {"input ", "weight ", "state ", "result "};
  if (input_name) say_foreign(input_name), say(": ");
  if (x) say(kinds[x->kind]), say(x->name), emit(' '), say_type(x), say(": ");
}

void xw_command_fail(int why, const char *what, const array *field) {
  (void)why;
  begin_messages();
  say_field(field);
  say(what), emit('\n');
  flush();
  proc_exit(WRONG_INPUT);
}

void xw_command_fail_name(const char *what, const char *name) { stop(WRONG_INPUT, what, name); }

void xw_command_fail_shape(const array *x, const char *type, uint32_t rank, const uint32_t *sizes) {
  begin_messages();
  say_field(x);
  say("this has ");
  if (type) say(type);
  say_shape(0, rank, sizes, 0), emit('\n');
  flush();
  proc_exit(WRONG_INPUT);
}

static void say_leaves(const char *title, const array *x, uint32_t count) {
  static const char *const kinds[] = {"", "  (a weight)", "  (a state)", ""};
  say(title), emit('\n');
  for (uint32_t i = 0; i < count; i++, x++) say("  "), say(x->name), say("  "), say_type(x), say(kinds[x->kind]), emit('\n');
}

static void say_usage(const model *m) {
  say("usage: wasmtime run --dir . ");
  say(m->name);
  say(".wasm [FILE ...] [--NAME FILE ...] [OPTION ...]\n\n");
  say_leaves("takes", m->parameter, m->parameters);
  say_leaves("gives", m->result, m->results);
  say("\nA FILE for each input, in order or by --NAME: .npy; .npz for all by name; .json or text with numbers; .bin or .raw with bytes;\n"
      "- is standard input.\n\n"
      "  -o FILE        write the results: .npy, .npz, .json, .bin; FOLDER/ for one .npy each; - for standard output\n"
      "  --json, --table how to print them: else a table on a terminal, and JSON elsewhere\n"
      "  --random       make up the inputs that are not given; --seed N other ones\n"
      "  --repeat N     run N times, and say how long it takes\n"
      "  --batch 'GLOB' run once for each file that fits, as the first input that is not given\n"
      "  --signature    what goes in and out, as JSON\n");
  say_weights_usage();
  say("\nexit code: 0 done, 1 wrong input, 2 wrong usage, 3 the run failed\n");
}

static _Noreturn void misused(const char *what, const char *which) {
  begin_messages();
  if (which) say_foreign(which), say(": ");
  say(what), say("\n\n");
  say_usage(description());
  flush();
  proc_exit(USAGE);
}

static void say_signature_of(const char *key, const array *x, uint32_t count) {
  say(",\""), say(key), say("\":[");
  for (uint32_t i = 0; i < count; i++, x++) {
    static const char *const kinds[] = {"input", "weight", "state", "output"};
    if (i) emit(',');
    say("{\"name\":"), say_json_text(x->name);
    say(",\"kind\":\""), say(kinds[x->kind]);
    say("\",\"type\":\""), say(x->type->name), say("\",\"shape\":"), say_shape(x, x->rank, 0, "\""), emit('}');
  }
  emit(']');
}

// ---- inputs

static void read_file(model *m, const char *path, array *x) {
  open_input(path);
  if (!is_raw(path)) skip_blanks(&input);
  int first = peek(&input);
  if (first == 'P' && (!x || given[BATCH])) read_zip(&input, 0);
  else if (first == '{' && (!x || given[BATCH])) read_object(&input, m), skip_blanks(&input);
  else {
    if (!x) x = next_input(m);
    if (!x) misused("the model takes no further input", path);
    if (x->given) misused("this input is given twice", x->name);
    if (first == 0x93) read_npy(&input, x);
    else if (first == 'P') fail(UNFIT, "an archive of arrays goes without a name: its arrays have their own", x);
    else if (is_raw(path)) read_raw(&input, x);
    else read_text(&input, x);
  }
  if (first != 0x93 && peek(&input) >= 0) fail(UNFIT, "this has more data than the input takes", x);
  close_input();
  input_name = 0;
}

static uint64_t random_bits(void) { // splitmix64
  uint64_t x = numbers[SEED] += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

static void make_up(array *x) {
  const format *f = x->type;
  to_bounds(x);
  for (uint32_t i = 0, n = count_of(x); i < n; i++)
    for (uint32_t part = 0; part < (f->kind == COMPLEX ? 2 : 1); part++) {
      uint64_t bits = random_bits();
      static scalar value;
      value.real = f->kind >= FLOAT, value.value = 0;
      value.magnitude = f->kind == PRED ? bits & 1 : bits % (f->bits < 4 ? 1u << (f->bits - (f->kind == SIGNED)) : f->bits < 8 ? 8 : 10);
      // The sum of four even numbers is nearly normal.
      for (int k = 0; k < 4; k++) value.value += (double)(bits >> 16 * k & 65535) / 65536 - 0.5;
      value.value *= 1.7320508075688772;
      if (f->flags & NO_SIGN) value.value = power_of_2((int)(bits & 7) - 4);
      store_element(f, place_of(x, i, 0) + part * (f->bits / 8), &value, 0);
    }
  x->given = 1;
}

// ---- running

static void run_once(model *m, uint32_t count) {
  while (run()) {
    uint32_t number = *m->request;
    if (number >= m->transfers) stop(FAILED, "the run waits for something that nobody gives", 0);
    serve(&m->transfer[number], count);
  }
}

static uint64_t nanoseconds(void) {
  static uint64_t time;
  clock_time_get(1, 1, &time);
  return time;
}

static void say_duration(uint64_t ns) {
  say_integer(ns / 1000), emit('.'), emit('0' + (int)(ns / 100 % 10)), say(" us");
}

static void run_all(model *m) {
  uint64_t least = UINT64_MAX, most = 0, sum = 0;
  uint64_t repeat = given[REPEAT] ? numbers[REPEAT] : 1;
  for (uint64_t i = 0; i < repeat; i++) {
    uint64_t began = nanoseconds();
    run_once(m, (uint32_t)i);
    uint64_t took = nanoseconds() - began;
    sum += took;
    if (took < least) least = took;
    if (took > most) most = took;
  }
  if (repeat < 2) return;
  begin_messages();
  say_integer(repeat), say(" runs: fastest "), say_duration(least);
  say(", mean "), say_duration(sum / repeat), say(", slowest "), say_duration(most), emit('\n');
  flush();
}

// ---- results

static void say_value(const array *x, double value) {
  static const format wide = {.kind = FLOAT, .bits = 64, .mantissa = 52, .bias = 1023, .bytes = 8};
  static scalar s;
  s.real = 1, s.value = value;
  say_number(x->type->kind < FLOAT ? &wide : x->type, &s);
}

static void say_summary(const array *x) {
  uint32_t n = count_of(x);
  if (n <= SHOWN || x->type->kind == COMPLEX) return write_json(x);
  double least = __builtin_inf(), most = -__builtin_inf(), sum = 0;
  for (uint32_t i = 0; i < n; i++) {
    static scalar s;
    load_element(x->type, place_of(x, i, 0), &s);
    double value = s.real ? s.value : s.negative ? -(double)s.magnitude : (double)s.magnitude;
    if (!(value >= least)) least = value;
    if (!(value <= most)) most = value;
    sum += value;
  }
  say("min "), say_value(x, least), say(", max "), say_value(x, most), say(", mean "), say_value(x, (double)(float)(sum / n));
}

static void say_results(model *m, const char *file) {
  open_output("-");
  if (given[JSON] || (!given[TABLE] && !is_terminal(1))) write_json_results(m, file);
  else {
    if (file) say_foreign(file), emit('\n');
    for (array *x = m->result; x < m->result + m->results; x++) say(x->name), say("  "), say_type(x), say("  "), say_summary(x), emit('\n');
  }
  close_output();
}

static char *joined(char *to, const char *text) {
  uint32_t n = length(text);
  copy(to, text, n + 1);
  return to + n;
}

// A file for each result, in a folder: names of results as names of files.
static void write_folder(model *m, const char *folder, const char *stem) {
  static char path[1024];
  if (length(folder) + (stem ? length(stem) : 0) > 600) stop(USAGE, "this path is too long", folder);
  make_folder(folder);
  char *end = joined(path, folder);
  if (end[-1] != '/') *end++ = '/';
  if (stem) end = joined(end, stem);
  for (uint32_t i = 0; i < m->results; i++) {
    char *name = end;
    if (stem && m->results > 1) *name++ = '.';
    if (!stem || m->results > 1)
      for (const char *c = m->result[i].name; *c && name < path + 1000; c++) *name++ = *c == '/' || *c == '\\' || *c == ':' ? '_' : *c;
    joined(name, ".npy");
    open_output(path);
    write_npy(&m->result[i]);
    close_output();
  }
}

static void write_results(model *m, const char *file) {
  const char *path = given[RESULTS], *ending = 0;
  for (const char *c = path; *c; c++)
    if (*c == '.' || *c == '/') ending = c;
  int as = ending ? place_in(".npy\0.npz\0.json\0.bin\0.raw\0", ending) : -1;
  if (file && (as >= 0 || same(path, "-"))) stop(USAGE, "with --batch this is a folder, as in -o out/", path);
  if (file) { // the input's name without its folder and ending
    static char stem[512];
    uint32_t start = length(file);
    while (start && file[start - 1] != '/') start--;
    uint32_t end = length(joined(stem, file + start) - length(file + start));
    while (end && stem[end] != '.') end--;
    if (end) stem[end] = 0;
    return write_folder(m, path, stem);
  }
  if (ends_with(path, "/")) return write_folder(m, path, 0);
  int archive = as == 1, json = as == 2, raw = as > 2;
  if (as < 0 && ending && *ending == '.') stop(USAGE, "this has to end in .npy, .npz, .json, .bin or .raw, or be a folder, as in out/", path);
  if (m->results != 1 && !archive && !json && !(same(path, "-") && (archive = 1)))
    stop(USAGE, "there are several results: name a .npz file, a .json file or a folder, as in -o out/", path);
  open_output(path);
  if (archive) write_zip(m->result, m->results);
  else if (raw) write_raw(m->result);
  else if (json) write_json_results(m, 0);
  else write_npy(m->result);
  close_output();
}

static void give(model *m, const char *file) {
  run_all(m);
  if (given[RESULTS]) write_results(m, file);
  else say_results(m, file);
}

// ---- the command line

static uint64_t number_of(const char *option, const char *text) {
  uint64_t n = 0;
  const char *c = text;
  while (*c >= '0' && *c <= '9' && n < UINT64_MAX / 20) n = n * 10 + (uint64_t)(*c++ - '0');
  if (*c || c == text) misused("a whole number is wanted", option);
  return n;
}

static int option_of(const char *a) {
  int i = place_in(names, a);
  return i < OPTIONS ? i : i == OPTIONS ? HELP : RESULTS;
}

// Takes the options out of the arguments, and reads the files of what they name.
static void take_options(model *m, char **args, uint32_t count) {
  for (uint32_t i = 1; i < count; i++) {
    char *a = args[i], *value = 0;
    if (a[0] != '-' || !a[1]) continue;
    args[i] = 0;
    if (same(a, "--")) break; // what follows is files
    int option = option_of(a);
    if (option >= 0 && option <= RANDOM) {
      given[option] = a;
      continue;
    }
    for (char *c = a; *c && !value; c++)
      if (*c == '=') *c = 0, value = c + 1;
    if (!value) {
      if (i + 1 == count) misused("there is no such option, or its value is missing", a);
      value = args[++i], args[i] = 0;
    }
    option = option_of(a);
    if (option > RANDOM) {
      given[option] = value;
      if (option >= REPEAT) numbers[option] = number_of(a, value);
      if (option == REPEAT && !numbers[REPEAT]) misused("this is at least 1", a);
      if (option == SEED) given[RANDOM] = value;
      continue;
    }
    if (transfer_option(a, value)) continue;
    array *x = a[1] == '-' ? named(m, a + 2) : 0;
    if (!x) misused("there is no such option or input", a);
    read_file(m, value, x);
  }
}

static void run_batch(model *m, array *x) {
  static char path[512];
  uint32_t runs = 0;
  if (!x) misused("every input is given; --batch is for one that is not", given[BATCH]);
  for (array *y = m->parameter; y < m->end; y++) y->given *= 2; // those that are the same for all files
  for (; next_match(given[BATCH], path); runs++) {
    read_file(m, path, x);
    if (!x->given) stop(WRONG_INPUT, "the archive lacks the input that --batch is for", path);
    give(m, path);
    for (array *y = m->parameter; y < m->end; y++) y->given &= 2;
  }
  if (!runs) stop(WRONG_INPUT, "no file fits", given[BATCH]);
}

void xw_command(void) {
  static char text[ARGUMENTS];
  model *m = description();
  static uint32_t count, bytes;
  char **args = (char **)text;
  if (args_sizes_get(&count, &bytes) || 4 * count + bytes > ARGUMENTS || args_get(args, text + 4 * count)) stop(USAGE, "there are too many arguments", 0);
  for (uint32_t i = 1; i < count; i++)
    if ((uint32_t)option_of(args[i]) <= SIGNATURE) given[option_of(args[i])] = args[i];
  open_output("-");
  if (given[HELP]) say_usage(m);
  else if (given[SIGNATURE]) {
    say("{\"name\":"), say_json_text(m->name);
    say_signature_of("parameters", m->parameter, m->parameters);
    say_signature_of("results", m->result, m->results);
    say("}\n");
  }
  flush();
  if (given[HELP] || given[SIGNATURE]) return;
  take_options(m, args, count);
  for (uint32_t i = 1; i < count; i++)
    if (args[i]) read_file(m, args[i], 0);
  read_weights(m, count ? args[0] : "", given[SIDECAR], given[WEIGHTS]);
  array *batch = given[BATCH] ? next_input(m) : 0;
  for (array *x = m->parameter; x < m->end; x++) {
    if (x->given || x == batch || x->kind == STATE) continue; // states start as the module has them
    if (!given[RANDOM]) misused(x->kind == INPUT ? "this input is missing" : "this weight is missing: name a file with --weights", x->name);
    make_up(x);
  }
  for (uint32_t i = 0; i < m->inits; i++) init(m->init[i]);
  for (array *x = m->parameter; x < m->end; x++)
    if (x->init) init(x->init - 1);
  if (given[BATCH]) run_batch(m, batch);
  else give(m, 0);
}
