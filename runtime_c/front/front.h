// What the fronts share. A front makes a program of an artifact: `command.c` a WASI command, `server.c` a server of wasi:http.
// It is linked when a model is compiled, and knows of the model what `description()` says. There is no heap: what is read goes
// straight to where the model has its arrays.
//
// Failing: `fail` keeps the first message and ends the input, and whatever reads on stops soon. A command never comes back from it.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define IMPORT(module, name) __attribute__((import_module(module), import_name(name)))
#define MODEL(name) IMPORT("xla_wasm", name) // what the assembler supplies

// ---- the model, as front.py describes it

enum { PRED, UNSIGNED, SIGNED, FLOAT, COMPLEX }; // kinds of element types; each may be converted to those behind it
enum { ROUNDED = 1, ONE_ZERO = 2, NO_SIGN = 4 };  // of a float type: NumPy has it; it has no -0; it has neither sign nor zero

typedef struct {
  char name[14];       // as in HLO
  char code[4];        // as in npy files, without the byte order
  uint8_t kind, bytes; // bytes: of an element in memory
  uint8_t bits;        // of a value; of one part of a complex number
  uint8_t mantissa, flags;
  int16_t bias;
  uint16_t largest, infinite, nan; // codes of a float type of at most 16 bits; what lies between the first two, and beyond, is NaN
} format;

typedef struct {
  uint32_t size, stride; // the bound if it is dynamic; bytes
  int32_t *actual;       // where the actual size lies, if it is dynamic
  uint32_t least;        // the least size; if it is not dynamic, the size
} dimension;

enum { INPUT, WEIGHT, STATE, OUTPUT };

typedef struct {
  const char *name;
  const format *type;
  uint32_t kind, rank;
  const dimension *dims;
  uint8_t *data;
  uint32_t bytes, init; // init: number of the step that packs a weight, plus 1; of a server's state where lies what it begins with, 0: zeros
  uint32_t given;
  uint32_t sum, start; // while an archive is written
} array;
_Static_assert(sizeof(array) == 44, "as front.py has it");

typedef struct {
  uint32_t index, bytes, offset;
  uint8_t *data;
  uint8_t digest[32];
} part; // of the sidecar

enum { INFEED, OUTFEED, RECV, SEND, CALLBACK, ASSERTION }; // CALLBACK: no front has the function; its name is where the user wrote it.
// ASSERTION: the inputs do not fit together; its name says why

typedef struct {
  uint32_t kind; // of a request
  const char *name;
  uint32_t count;
  array *arrays;
} transfer;

typedef struct {
  const char *name;
  uint32_t parameters;
  array *parameter, *end; // end: behind the last one
  uint32_t results;
  array *result;
  uint32_t inits;
  const uint32_t *init; // steps to run once, before the first run
  uint32_t parts, sidecar_bytes;
  const part *part;
  uint32_t transfers;
  const transfer *transfer;
  const uint32_t *request; // the number of the request that a run waits for
} model;

MODEL("description") model *description(void);
MODEL("run") int run(void);
MODEL("init") void init(uint32_t step);

// ---- strings and bytes

uint32_t length(const char *s);
int same(const char *a, const char *b);
int starts(const char *s, const char *with); // the length of `with`, or 0
int place_in(const char *list, const char *s); // where in a list of strings, behind which stands an empty one; -1: nowhere
int ends_with(const char *s, const char *with);
int is_raw(const char *path); // whether its ending says that there are bytes in it
void *copy(void *to, const void *from, uint32_t count);

// ---- failing (each front has its own)

enum { DAMAGED, UNFIT }; // what was given cannot be read at all; it is not what the model takes
MODEL("fail") void fail(int why, const char *what, const array *field);
MODEL("fail_name") void fail_name(const char *what, const char *name); // a name of the model's that was given
// The array that was given has another shape or type; `type` is 0 where it has none.
MODEL("fail_shape") void fail_shape(const array *field, const char *type, uint32_t rank, const uint32_t *sizes);
MODEL("failed") int failed(void);

// ---- reading

// No pointers to functions: for each new instance an engine has to clear a table of functions, where there is one.
typedef struct {
  uint32_t is_entry; // of an archive, else what the front reads
  uint8_t *buffer;
  uint32_t room, at, end;
} reader;

MODEL("pull") uint32_t pull(reader *, uint8_t *to, uint32_t room); // how many bytes came; 0 at the end
uint32_t pull_entry(reader *, uint8_t *to, uint32_t room);

int peek(reader *); // -1 at the end
int next(reader *);
uint32_t take(reader *, void *to, uint32_t count); // how many there were

// ---- elements

enum { BEYOND = 2 };
typedef struct {
  int real, negative; // BEYOND: of floating point, and written with digits that are too large for a double; an integer is its sign and magnitude
  uint64_t magnitude;
  double value;
} scalar;

void load_element(const format *, const uint8_t *from, scalar *);
// 0: it does not fit. `exact`: rounding does not fit either, if NumPy lacks the type.
int store_element(const format *, uint8_t *to, const scalar *, int exact);
int convert_element(const format *from, const uint8_t *source, const format *to, uint8_t *target);
static inline __attribute__((always_inline)) uint64_t bits_of(double value) { return *(uint64_t *)&value; }
double power_of_2(int exponent);

uint32_t size_of(const array *, uint32_t d);  // actual sizes
uint32_t count_of(const array *);
// Dynamic dimensions get the sizes that are their bounds. Behind the last of them, 0 if there is none.
MODEL("to_bounds") uint32_t to_bounds(const array *);
// Fixes the sizes of an array that is to be read. 0, and it has failed: they do not fit.
int shape_array(array *, const char *type, uint32_t rank, const uint32_t *sizes);
// Where the element lies that is the index-th of an array of its actual sizes, the last dimension being the fastest; or the first.
uint8_t *place_of(const array *, uint32_t index, int first_is_fastest);
int is_dense(const array *); // whether it lies in memory as row-major order has it

// ---- numbers

// Reads a number, or true, false, NaN, Infinity, in quotation marks or not. 0: there is none.
int read_number(reader *, scalar *);
uint32_t print_integer(uint64_t value, char *to);

// ---- arrays in files

void read_npy(reader *, array *);
void read_json(reader *, array *);
void read_text(reader *, array *); // JSON, or numbers without brackets
void read_object(reader *, model *); // JSON: inputs by name
enum { NAME = 512 };
int read_string(reader *, char to[NAME]); // of JSON, in UTF-8; 0: it is none, or too long
void read_raw(reader *, array *);
// Reads the inputs by their names, or all arrays of an item, by their numbers; how many there were.
uint32_t read_zip(reader *, const transfer *item);
void skip_blanks(reader *);

array *next_input(model *); // the first input that is not given
array *named(model *, const char *name);
int is_new(array *, const char *name); // 0, and it has failed: there is no such array, or it is given already
void read_entry(reader *, const char *name, uint32_t number, const transfer *item); // of an archive; a name without .npy

// ---- writing

typedef struct {
  uint32_t at, is_summed, sum; // is_summed: nothing is written, sum becomes the CRC-32 of it
  uint8_t buffer[4096];
} writer;
MODEL("push") void push(const uint8_t *from, uint32_t count);
extern writer out;

void emit(int c);
void emit_bytes(const void *from, uint32_t count);
void say(const char *s);
void say_integer(uint64_t value);
void say_number(const format *, const scalar *); // with the fewest digits that read back to the same value of the type
void say_type(const array *); // f32[1,64]; of dynamic dimensions the bounds
// [1,64]: the bounds of an array, those of dynamic dimensions between marks, or without one the sizes.
void say_shape(const array *, uint32_t rank, const uint32_t *sizes, const char *mark);
void flush(void);
uint32_t npy_bytes(const array *);
void write_npy(const array *);
void write_raw(const array *);
void write_json(const array *);
void say_json_text(const char *);
void write_json_results(const model *, const char *file); // by name; `file`: what they were made of, or 0
uint32_t zip_bytes(const array *, uint32_t count);
void write_zip(array *, uint32_t count); 
uint32_t crc32(uint32_t sum, const uint8_t *from, uint32_t count);
