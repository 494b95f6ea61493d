// What a run of a command exchanges with its host: items of infeed and recv come from files, those of outfeed and send go to files.
#include "wasi.h"

enum { MOST = 64 };

static struct {
  uint32_t kind;
  const char *name, *path;
  uint32_t name_size, used;
} feed[MOST];
static uint32_t feeds;

// --infeed FILE, --outfeed FOLDER/, --recv NAME=FILE, --send NAME=FOLDER/; those with a name split at the last "=".
int xw_transfer_option(const char *option, const char *value) {
  static const char *const names[] = {"--infeed", "--outfeed", "--recv", "--send"};
  for (uint32_t kind = 0; kind < 4; kind++) {
    if (!same(option, names[kind])) continue;
    if (feeds == MOST) stop(USAGE, "there are too many of these", option);
    uint32_t n = 0;
    if (kind >= RECV) {
      n = length(value);
      while (n && value[n] != '=') n--;
      if (!n) stop(USAGE, "this has to be NAME=FILE", value);
    }
    feed[feeds].kind = kind, feed[feeds].name = value, feed[feeds].name_size = n, feed[feeds].used = 0;
    feed[feeds++].path = n ? value + n + 1 : value;
    return 1;
  }
  return 0;
}

int xw_no_transfer_option(const char *option, const char *value) {
  (void)option, (void)value;
  return 0;
}

static int is_of(uint32_t i, const transfer *t) {
  if (feed[i].kind != t->kind) return 0;
  uint32_t n = 0;
  while (n < feed[i].name_size && t->name[n] && t->name[n] == feed[i].name[n]) n++;
  return n == feed[i].name_size && !t->name[n];
}

static void read_item(const transfer *t, const char *path) {
  uint32_t came = 0;
  open_input(path);
  if (peek(&input) == 'P') came = read_zip(&input, t);
  else if (t->count == 1) {
    if (peek(&input) == 0x93) read_npy(&input, t->arrays);
    else if (is_raw(path)) read_raw(&input, t->arrays);
    else read_text(&input, t->arrays);
    came = 1;
  }
  if (came != t->count) stop(WRONG_INPUT, "the item has other arrays: an .npz file has to have them all, in order", path);
  close_input();
  input_name = 0;
}

static void write_item(const transfer *t, const char *folder, uint32_t number) {
  static char path[600];
  uint32_t n = length(folder);
  if (n > 500) stop(USAGE, "this path is too long", folder);
  make_folder(folder);
  copy(path, folder, n);
  if (path[n - 1] != '/') path[n++] = '/';
  n += print_integer(number, path + n);
  copy(path + n, t->count == 1 ? ".npy" : ".npz", 5);
  open_output(path);
  if (t->count == 1) write_npy(t->arrays);
  else write_zip(t->arrays, t->count);
  close_output();
}

void xw_serve(const transfer *t, uint32_t run) {
  if (t->kind == ASSERTION) stop(WRONG_INPUT, "the inputs do not fit together", t->name);
  if (t->kind == CALLBACK) stop(FAILED, "the run has reached a Python function, which a command does not have", t->name);
  int reads = t->kind == INFEED || t->kind == RECV;
  static uint32_t last_run;
  if (run != last_run) { // every run gets the same items
    last_run = run;
    for (uint32_t i = 0; i < feeds; i++) feed[i].used = 0;
  }
  for (uint32_t i = 0; i < feeds; i++) {
    if (!is_of(i, t) || (reads && feed[i].used)) continue;
    if (reads) read_item(t, feed[i].path);
    else write_item(t, feed[i].path, feed[i].used);
    feed[i].used++;
    return;
  }
  if (reads) stop(FAILED, t->kind == INFEED ? "the run needs a further item of infeed: --infeed FILE" : "the run needs a further item: --recv NAME=FILE", *t->name ? t->name : 0);
}

void xw_no_serve(const transfer *t, uint32_t run) { (void)t, (void)run; }
