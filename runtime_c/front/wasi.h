// The part of WASI preview 1 that a command uses, and files on top of it.
#pragma once
#include "front.h"

#define WASI(name) IMPORT("wasi_snapshot_preview1", #name)
typedef struct {
  const uint8_t *data;
  uint32_t size;
} span;
WASI(args_sizes_get) int args_sizes_get(uint32_t *count, uint32_t *bytes);
WASI(args_get) int args_get(char **list, char *text);
WASI(clock_time_get) int clock_time_get(uint32_t clock, uint64_t precision, uint64_t *time);
WASI(fd_close) int fd_close(int fd);
WASI(fd_fdstat_get) int fd_fdstat_get(int fd, uint8_t stat[24]);
WASI(fd_prestat_get) int fd_prestat_get(int fd, uint32_t prestat[2]);
WASI(fd_prestat_dir_name) int fd_prestat_dir_name(int fd, char *path, uint32_t size);
WASI(fd_read) int fd_read(int fd, const span *parts, uint32_t count, uint32_t *got);
WASI(fd_readdir) int fd_readdir(int fd, uint8_t *to, uint32_t size, uint64_t cookie, uint32_t *used);
WASI(fd_seek) int fd_seek(int fd, int64_t offset, uint32_t from, uint64_t *at);
WASI(fd_write) int fd_write(int fd, const span *parts, uint32_t count, uint32_t *written);
WASI(path_create_directory) int path_create_directory(int fd, const char *path, uint32_t size);
WASI(path_open) int path_open(int fd, uint32_t look, const char *path, uint32_t size, uint32_t how, uint64_t rights, uint64_t inheriting, uint32_t flags, int *opened);
WASI(proc_exit) _Noreturn void proc_exit(int code);

enum { WRONG_INPUT = 1, USAGE = 2, FAILED = 3 }; // exit codes

_Noreturn void stop(int code, const char *what, const char *which); // says both, and ends the program
void begin_messages(void);         // what `say` says goes to standard error
void say_foreign(const char *);    // a text that is not the model's: nothing in it that a terminal obeys
void open_input(const char *path); // the file that `input` reads from now on; - is standard input
int opens(const char *path);       // whether there is such a file to read
void close_input(void);
void open_output(const char *path); // where `out` goes; - is standard output
void close_output(void);
void seek_input(uint64_t at);
void make_folder(const char *path);
int is_terminal(int fd);
// The next file, in alphabetical order, behind the one in `path`, that fits the pattern; its path goes there. 0: there is none.
int next_match(const char *pattern, char path[512]);
extern reader input;
extern const char *input_name;
