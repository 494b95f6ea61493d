// Files of a WASI command: below the folders that the host has opened for it.
#include "wasi.h"

enum { READ = 1 << 1, SEEK = 1 << 2, TELL = 1 << 5, WRITE = 1 << 6, READ_FOLDER = 1 << 14, CREATE = 1, FOLDER = 2, TRUNCATE = 8, MISSING = 44 };

static int source, target = 1;
static uint8_t buffer[4096];
const char *input_name;

static span piece; // of memory, that is written or read

static void write_all(int fd, const uint8_t *from, uint32_t count) {
  static uint32_t done;
  for (piece = (span){from, count}; piece.size; piece.data += done, piece.size -= done)
    if (fd_write(fd, &piece, 1, &done)) proc_exit(WRONG_INPUT); // nobody reads on
}

void xw_command_push(const uint8_t *from, uint32_t count) { write_all(target, from, count); }

uint32_t xw_command_pull(reader *in, uint8_t *to, uint32_t room) {
  static uint32_t got;
  (void)in;
  piece = (span){to, room};
  if (fd_read(source, &piece, 1, &got)) stop(WRONG_INPUT, "this cannot be read", input_name);
  return got;
}

reader input = {0, buffer, sizeof buffer, 0, 0};

void begin_messages(void) {
  out.at = out.is_summed = 0;
  target = 2;
  say(description()->name), say(": ");
}

void stop(int code, const char *what, const char *which) {
  begin_messages();
  if (which) say_foreign(which), say(": ");
  say(what), emit('\n');
  flush();
  proc_exit(code);
}

void say_foreign(const char *s) {
  for (; *s; s++) emit((uint8_t)*s < ' ' || *s == 127 ? '?' : *s);
}

static const char *rest; // of a path: what stands behind its folder

// The folder of a path: "/data" for "/data/x", "." or "/" for what is relative. -1: there is none.
static int folder_of(const char *path) {
  static char name[256];
  static uint32_t prestat[2];
  int best = -1;
  uint32_t skip = 0, longest = 0;
  while (starts(path, "./")) path += 2;
  for (int fd = 3; !fd_prestat_get(fd, prestat); fd++) {
    uint32_t n = prestat[1];
    if (prestat[0] & 255 || n >= sizeof name || fd_prestat_dir_name(fd, name, n)) continue;
    while (n && (name[n - 1] == '/' || name[n - 1] == 0)) n--;
    name[n] = 0;
    const char *own = starts(name, "./") ? name + 2 : name;
    uint32_t m = length(own), absolute = *path == '/';
    if (same(own, ".") || (!n && prestat[1] == 0)) {
      if (!absolute && best < 0) best = fd;
    } else if (m >= longest && (m ? starts(path, own) && path[m] == '/' : absolute)) best = fd, longest = m, skip = m;
  }
  for (rest = path + skip; best >= 0 && *rest == '/'; rest++) {}
  return best;
}

static int file; // that was opened last

static int try_open(const char *path, uint32_t how, uint64_t rights) {
  int folder = folder_of(path);
  if (folder < 0) return -1;
  if (!*rest) rest = ".";
  return path_open(folder, 1, rest, length(rest), how, rights, 0, 0, &file);
}

static int opened(const char *path, uint32_t how, uint64_t rights) {
  int error = try_open(path, how, rights);
  if (error < 0) stop(WRONG_INPUT, "no folder was opened in which this lies; try `wasmtime run --dir .`", path);
  if (error == MISSING) stop(WRONG_INPUT, rights & WRITE ? "its folder does not exist" : "there is no such file", path);
  if (error) stop(WRONG_INPUT, rights & WRITE ? "this file cannot be written" : "this file cannot be read", path);
  return file;
}

void open_input(const char *path) {
  input_name = path;
  input.at = input.end = 0;
  source = same(path, "-") ? 0 : opened(path, 0, READ | SEEK);
}

int opens(const char *path) {
  if (try_open(path, 0, READ)) return 0;
  fd_close(file);
  return 1;
}

void seek_input(uint64_t at) {
  static uint64_t unused;
  input.at = input.end = 0;
  if (fd_seek(source, (int64_t)at, 0, &unused)) stop(WRONG_INPUT, "this has to be a file, where one can go back and forth", input_name);
}

void close_input(void) {
  if (source) fd_close(source);
  source = 0;
}

void open_output(const char *path) {
  target = same(path, "-") ? 1 : opened(path, CREATE | TRUNCATE, WRITE);
}

void close_output(void) {
  flush();
  if (target > 2) fd_close(target);
  target = 1;
}

void make_folder(const char *path) {
  int folder = folder_of(path);
  if (folder >= 0 && *rest) path_create_directory(folder, rest, length(rest)); // if it fails, the first file in it says so
}

int is_terminal(int fd) {
  static uint8_t stat[24];
  return !fd_fdstat_get(fd, stat) && stat[0] == 2 && !(stat[8] & (SEEK | TELL)); // a character device on which one cannot go back
}

static int matches(const char *pattern, const char *text) {
  for (; *pattern; pattern++, text++) {
    if (*pattern == '*') {
      do
        if (matches(pattern + 1, text)) return 1;
      while (*text++);
      return 0;
    }
    if (!*text || (*pattern != '?' && *pattern != *text)) return 0;
  }
  return !*text;
}

static int is_before(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return (uint8_t)*a < (uint8_t)*b;
}

int next_match(const char *pattern, char path[512]) {
  static uint8_t entries[32768]; // a host may go through the whole folder for each call
  static char found[256], name[256];
  static uint32_t used;
  uint32_t start = length(pattern);
  while (start && pattern[start - 1] != '/') start--;
  if (start > 250) stop(USAGE, "this path is too long", pattern);
  char *after = path + start;
  copy(path, pattern, start);
  uint32_t end = start > 1 ? start - 1 : start;
  char keep = path[end];
  path[end] = 0;
  int fd = opened(start ? path : ".", FOLDER, READ_FOLDER);
  path[end] = keep;
  found[0] = 0;
  uint64_t cookie = 0;
  do {
    if (fd_readdir(fd, entries, sizeof entries, cookie, &used)) stop(WRONG_INPUT, "this folder cannot be read", pattern);
    for (uint32_t at = 0; at + 24 <= used;) {
      uint32_t n = *(uint32_t *)(entries + at + 16);
      if (at + 24 + n > used) break; // the rest of it comes next time
      if (n < sizeof name) {
        copy(name, entries + at + 24, n);
        name[n] = 0;
        if (name[0] != '.' && is_before(after, name) && (!found[0] || is_before(name, found)) && matches(pattern + start, name)) copy(found, name, n + 1);
      }
      cookie = *(uint64_t *)(entries + at);
      at += 24 + n;
    }
  } while (used == sizeof entries);
  fd_close(fd);
  copy(after, found, length(found) + 1);
  return found[0] != 0;
}
