// Runs an artifact of xla_wasm in C, through wasmtime's C API. What it needs of the manifest is in model.h, which
// `xla-wasm inspect --c-header --c-prefix MODEL` writes, so it reads no JSON. README.md has the command lines;
// docs/embedding.md says what has to be done, and why in this order. For little-endian machines.

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capi.h"
#include "model.h"

#if MODEL_DYNAMIC
#error "arrays of this model have dynamic dimensions, and this host writes and reads no sizes: see docs/embedding.md"
#elif MODEL_LEAST_DEVICES > 1
#error "this model runs on several devices, and this host is one"
#endif

// The rows of the tables in model.h. Each table ends with a row of zeros.
struct array { const char *name, *type; uint32_t at, bytes; int32_t init; };
struct constant { const char *name; uint32_t at, bytes; int32_t init; uint64_t in_file; const char *sha256; };
struct request { const char *kind, *name, *target, *opaque; };
struct request_array { uint32_t request; int written; const char *type; uint32_t at, bytes; };
static const struct array inputs[] = {MODEL_INPUTS {0}}, outputs[] = {MODEL_OUTPUTS {0}};
static const struct array weights[] = {MODEL_WEIGHTS {0}}, states[] = {MODEL_STATES {0}};
static const struct constant constants[] = {MODEL_CONSTANTS {0}};
static const struct request requests[] = {MODEL_REQUESTS {0}};
static const struct request_array request_arrays[] = {MODEL_REQUEST_ARRAYS {0}};

static wasmtime_context_t *context;
static wasmtime_func_t init_function, run_function;
static uint8_t *memory;  // stays where it is, since it cannot grow

static _Noreturn void fail(const char *format, ...) {
  va_list values;
  va_start(values, format);
  fflush(stdout);
  fputs("error: ", stderr);
  vfprintf(stderr, format, values);
  fputc('\n', stderr);
  exit(1);
}

// Ends with what wasmtime says, if it says something. After a trap the memory still tells the step.
static void check(wasmtime_error_t *error, wasm_trap_t *trap, const char *what) {
  if (!error && !trap) return;
  wasm_byte_vec_t text;
  char message[1000], where[60] = "";
  uint32_t step;
  if (trap && memory) {
    memcpy(&step, memory + MODEL_CONFIG, sizeof step);
    snprintf(where, sizeof where, "the module trapped in step %u of %u: ", step, MODEL_STEP_COUNT);
  }
  if (error) wasmtime_error_message(error, &text), wasmtime_error_delete(error);
  else wasm_trap_message(trap, &text), wasm_trap_delete(trap);
  snprintf(message, sizeof message, "%.*s", (int)text.size, text.data);
  wasm_byte_vec_delete(&text);
  fail("%s: %s%s", what, where, message);
}

static FILE *open_file(const char *path, const char *mode) {
  FILE *file = fopen(path, mode);
  if (!file) fail("%s: %s", path, strerror(errno));
  return file;
}

static uint8_t *read_file(const char *path, size_t *size) {
  FILE *file = open_file(path, "rb");
  fseek(file, 0, SEEK_END);
  long length = ftell(file);
  rewind(file);
  uint8_t *data = length < 0 || length > 1 << 30 ? NULL : malloc((size_t)length + 1);  // no engine takes modules above 1 GB
  if (!data || fread(data, 1, (size_t)length, file) != (size_t)length) fail("%s: it cannot be read", path);
  fclose(file);
  *size = (size_t)length;
  return data;
}

// Fills an array from a file, which has to hold so many bytes; and if it is read as a whole, no more.
static void fill(FILE *file, const char *path, uint32_t at, uint32_t bytes, const char *name, bool whole) {
  size_t got = fread(memory + at, 1, bytes, file);
  if (got != bytes) fail("%s: it ends after %zu of the %u bytes of '%s'", path, got, bytes, name);
  if (whole && fgetc(file) != EOF) fail("%s: it has more than the %u bytes of '%s'", path, bytes, name);
}

static void put(const uint8_t *data, uint32_t bytes, FILE *file, const char *path) {
  if (fwrite(data, 1, bytes, file) != bytes || fflush(file)) fail("%s: %s", path, strerror(errno));
}

// Calls a function of the module with the arguments and the results that it has.
static void call(const wasmtime_func_t *function, wasmtime_val_t *argument, wasmtime_val_t *result, const char *what) {
  wasm_trap_t *trap = NULL;
  wasmtime_error_t *error = wasmtime_func_call(context, function, argument, argument ? 1 : 0, result, result ? 1 : 0, &trap);
  check(error, trap, what);
}

static void call_init(int32_t index, const char *name) {
  wasmtime_val_t value = {WASMTIME_I32, {.i32 = index}};
  call(&init_function, &value, NULL, name);
}

static bool run_waits(const char *path) {
  wasmtime_val_t waits = {WASMTIME_I32, {.i32 = 0}};
  call(&run_function, NULL, &waits, path);
  return waits.of.i32 != 0;
}

// What the command line gives behind NAME=, or NULL.
static const char *option(char **argv, const char *name) {
  size_t length = strlen(name);
  for (; *argv; argv++)
    if (!strncmp(*argv, name, length) && (*argv)[length] == '=') return *argv + length + 1;
  return NULL;
}

static void check_options(char **argv) {
  const struct array *tables[] = {inputs, weights, states};
  for (; *argv; argv++) {
    bool known = !strncmp(*argv, "--runs=", 7) || !strncmp(*argv, "--infeed=", 9) || !strncmp(*argv, "--outfeed=", 10);
    for (int i = 0; i < 3; i++)
      for (const struct array *array = tables[i]; array->name; array++) known |= option((char *[]){*argv, NULL}, array->name) != NULL;
    if (!known) fail("%s: there is no such option, input, weight or state", *argv);
  }
}

// Sets weights, which must be given, and states, which otherwise begin as zeros.
static void set(const struct array *array, bool needed, char **argv) {
  for (; array->name; array++) {
    const char *path = option(argv, array->name);
    if (!path && needed) fail("weight '%s' has not been set: give %s=FILE, %u bytes of %s", array->name, array->name, array->bytes, array->type);
    if (!path) continue;
    FILE *file = open_file(path, "rb");
    fill(file, path, array->at, array->bytes, array->name, true);
    fclose(file);
    if (array->init >= 0) call_init(array->init, array->name);
  }
}

// The custom section "xla_wasm" of a module. A section is a byte for its kind, its size as LEB128, and its content; that of a custom
// section (kind 0) begins with the size and the bytes of its name.
static const char *find_manifest(const uint8_t *wasm, size_t size, size_t *length, const char *path) {
  if (size < 8 || memcmp(wasm, "\0asm\1\0\0", 8)) fail("%s: this is not a WebAssembly module", path);
  for (size_t at = 8; at < size;) {
    uint8_t kind = wasm[at++];
    uint64_t bytes = 0;
    for (int shift = 0; at < size && shift < 35; shift += 7) {
      bytes |= (uint64_t)(wasm[at] & 127) << shift;
      if (wasm[at++] < 128) break;
    }
    if (bytes > size - at) fail("%s: it is damaged: it ends within a section", path);
    if (kind == 0 && bytes >= 9 && !memcmp(wasm + at, "\10xla_wasm", 9)) {
      *length = bytes - 9;
      return (const char *)wasm + at + 9;
    }
    at += bytes;
  }
  fail("%s: it has no section 'xla_wasm': it was not made by xla_wasm, or was stripped", path);
}

// Whether this is the artifact that model.h describes. The format is the first field, and the hash is of all the rest.
static void check_manifest(const char *manifest, size_t length, const char *path) {
  static const char begin[] = "{\"format\":", hash[] = "\"hash\":\"" MODEL_HASH "\"";
  char number[12] = "";
  if (length < sizeof begin + sizeof number || memcmp(manifest, begin, sizeof begin - 1)) fail("%s: its manifest does not begin with the format", path);
  memcpy(number, manifest + sizeof begin - 1, sizeof number - 1);
  long format = strtol(number, NULL, 10);
  if (format != MODEL_FORMAT) fail("%s: this host reads format %d, the artifact has %ld: compile it again", path, MODEL_FORMAT, format);
  for (size_t i = 0; i + sizeof hash - 1 <= length; i++)
    if (!memcmp(manifest + i, hash, sizeof hash - 1)) return;
  fail("%s: model.h is of another artifact: write it anew, and compile this host with it", path);
}

static wasmtime_extern_t export_of(const wasmtime_instance_t *instance, const char *name, uint8_t kind) {
  wasmtime_extern_t found;
  if (!wasmtime_instance_export_get(context, instance, name, strlen(name), &found) || found.kind != kind) fail("the module exports no '%s'", name);
  return found;
}

// Large constants from the .weights file, and what else `init` makes ready, in the order of the table. Of the file the size is
// checked, not the SHA-256 of each constant, which the table has too.
static void prepare_constants(const char *path) {
  FILE *file = NULL;
  char beside[4096];
  const char *dot = strrchr(path, '.');
  int stem = dot && !strchr(dot, '/') ? (int)(dot - path) : (int)strlen(path);
  if (snprintf(beside, sizeof beside, "%.*s.weights", stem, path) >= (int)sizeof beside) fail("%s: the path is too long", path);
  if (MODEL_SIDECAR_BYTES) file = open_file(beside, "rb");
  for (const struct constant *c = constants; c->name; c++) {
    if (c->bytes && fseek(file, (long)c->in_file, SEEK_SET)) fail("%s: %s", beside, strerror(errno));
    if (c->bytes) fill(file, beside, c->at, c->bytes, c->name, false);
    call_init(c->init, c->name);
  }
  if (file) fclose(file);
}

// Serves the request that a run waits for: an infeed takes from one file, an outfeed puts into another.
static void serve(FILE *infeed, FILE *outfeed) {
  uint32_t number;
  memcpy(&number, memory + MODEL_REQUEST, sizeof number);
  const struct request *request = requests;
  for (uint32_t i = 0; i < number && request->kind; i++) request++;
  if (!request->kind) fail("the module makes request %u, and there is none", number);
  FILE *file = !strcmp(request->kind, "infeed") ? infeed : !strcmp(request->kind, "outfeed") ? outfeed : NULL;
  if (!file) fail("'%s' asks for %s %s: this host serves --infeed=FILE and --outfeed=FILE", request->name, request->kind, request->target);
  for (const struct request_array *array = request_arrays; array->type; array++) {
    if (array->request != number) continue;
    if (array->written) fill(file, "the infeed", array->at, array->bytes, request->name, false);
    else put(memory + array->at, array->bytes, file, "the outfeed");
  }
}

int main(int argc, char **argv) {
  if (argc < 2) fail("usage: %s MODEL.wasm [--runs=N] [--infeed=FILE] [--outfeed=FILE] [NAME=FILE ...] < inputs > results", argv[0]);
  const char *path = argv[1];
  check_options(argv += 2);
  const char *runs = option(argv, "--runs"), *infeed_path = option(argv, "--infeed"), *outfeed_path = option(argv, "--outfeed");

  size_t size, length;
  uint8_t *wasm = read_file(path, &size);
  const char *manifest = find_manifest(wasm, size, &length, path);
  check_manifest(manifest, length, path);
  wasm_engine_t *engine = wasm_engine_new();
  wasmtime_store_t *store = wasmtime_store_new(engine, NULL, NULL);
  wasmtime_module_t *module = NULL;
  wasmtime_instance_t instance;
  wasm_trap_t *trap = NULL;
  context = wasmtime_store_context(store);
  check(wasmtime_module_new(engine, wasm, size, &module), NULL, path);  // refuses what this machine or engine cannot run
  wasmtime_error_t *error = wasmtime_instance_new(context, module, NULL, 0, &instance, &trap);
  check(error, trap, path);
  wasmtime_memory_t exported = export_of(&instance, "memory", WASMTIME_EXTERN_MEMORY).of.memory;
  init_function = export_of(&instance, "init", WASMTIME_EXTERN_FUNC).of.func;
  run_function = export_of(&instance, "run", WASMTIME_EXTERN_FUNC).of.func;
  if (wasmtime_memory_data_size(context, &exported) != (size_t)MODEL_PAGES << 16) fail("%s: its memory has not the %u pages of model.h", path, MODEL_PAGES);
  memory = wasmtime_memory_data(context, &exported);
  free(wasm);

  prepare_constants(path);
  set(weights, true, argv);
  set(states, false, argv);
  FILE *infeed = infeed_path ? open_file(infeed_path, "rb") : NULL, *outfeed = outfeed_path ? open_file(outfeed_path, "wb") : NULL;
  bool streamed = false;
  long count = runs ? strtol(runs, NULL, 10) : 1;
  if (count < 1) fail("--runs=%s: it must be 1 or more", runs);
  while (count--) {
    for (const struct array *input = inputs; input->name; input++) {
      const char *given = option(argv, input->name);
      FILE *file = given ? open_file(given, "rb") : stdin;
      fill(file, given ? given : "standard input", input->at, input->bytes, input->name, given);
      if (given) fclose(file);
      streamed |= !given;
    }
    while (run_waits(path)) serve(infeed, outfeed);
    for (const struct array *output = outputs; output->name; output++) put(memory + output->at, output->bytes, stdout, "standard output");
  }
  if (streamed && fgetc(stdin) != EOF) fail("standard input: it has more than the inputs of these runs");
  wasmtime_module_delete(module);
  wasmtime_store_delete(store);
  wasm_engine_delete(engine);
  if (infeed) fclose(infeed);
  if (outfeed) fclose(outfeed);
  return 0;
}
