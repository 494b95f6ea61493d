/* Runs a program: the step table, as assemble/driver.py of the package writes it, from entry to entry. */
#include "stop.h"
#include <stdbool.h>
#include <stdint.h>

#define MODEL(name) __attribute__((import_module("xla_wasm"), import_name(name))) /* what the assembler supplies */

enum { HALT, KERNEL, JUMP, BRANCH, SWITCH, REQUEST, LONG_KERNEL };
enum { WAIT = -2 }; /* the result of a step at a request that the host has to serve; at the end, it is -1 */

typedef struct {
  uint32_t kind, slot;
  const void *block;
  uint32_t begin, end, target; /* target: of a kernel how much of its range a call takes; of a halt -1 */
  uint32_t targets; /* of a kernel: how much of its range threads take at a time */
  uint32_t count;
} entry;

typedef struct {
  uint32_t count; /* of the calls of init */
  const int32_t *starts; /* the first entry of each, then a halt */
} inits;

#define AT ((volatile uint32_t *)64) /* CONFIG of target.py: the counter, where a host finds it after a trap */
#define REQUESTED ((uint32_t *)80)   /* the number of a request, and the step to go on with */
#define INITS ((const inits *)120)
#define TABLE ((const entry *)128)

typedef void kernel(const void *arguments, uint32_t begin, uint32_t end);
MODEL("dispatch") void dispatch(uint32_t number, const void *arguments, uint32_t begin, uint32_t end);
MODEL("fork") void fork_kernel(const entry *e);
MODEL("step") int32_t step(int32_t at);
MODEL("bring") void bring(uint32_t call);

#define SMALL __attribute__((minsize))

static inline __attribute__((always_inline)) int32_t take(int32_t at, bool direct, bool threads) {
  *AT = at;
  const entry *e = TABLE + at;
  switch (e->kind) {
  default:
    trap_if_stopped();
    __attribute__((fallthrough));
  case KERNEL:
    if (threads && e->targets) {
      fork_kernel(e);
      return at + 1;
    }
    for (uint32_t begin = e->begin, end, last = e->end;; begin = end) {
      end = begin + e->target < last ? begin + e->target : last;
      if (direct)
        dispatch(e->slot, e->block, begin, end);
      else
        ((kernel *)e->slot)(e->block, begin, end);
      __asm__("" : "+r"(end)); /* else it is compared before the call, and one value more is kept across it */
      if (end >= last)
        return at + 1;
      trap_if_stopped();
    }
  case JUMP:
    trap_if_stopped();
    __attribute__((fallthrough));
  case HALT:
    return e->target;
  case BRANCH: {
    int32_t target = e->target; /* before it is clear which: a choice without a branch */
    return *(const uint8_t *)e->block ? at + 1 : target;
  }
  case SWITCH: { /* An index out of range, read as unsigned, runs the last branch. */
    uint32_t index = *(const uint32_t *)e->block, last = e->count - 1;
    return ((const int32_t *)e->targets)[index < last ? index : last];
  }
  case REQUEST:
    REQUESTED[0] = e->slot;
    REQUESTED[1] = at + 1;
    return WAIT;
  }
}

SMALL int32_t xw_step(int32_t at) { return take(at, false, false); }
SMALL int32_t xw_step_of_threads(int32_t at) { return take(at, false, true); }
SMALL int32_t xw_step_direct(int32_t at) { return take(at, true, false); }

static inline __attribute__((always_inline)) int32_t run_from(int32_t at) {
  do
    at = step(at);
  while (at >= 0);
  return at;
}

SMALL int32_t xw_run(void) {
  run_from(0);
  return 0;
}

/* 1 if the host has to serve a request, and to call it again then. */
SMALL int32_t xw_run_with_requests(void) {
  if (run_from(REQUESTED[1]) == WAIT)
    return 1;
  REQUESTED[1] = 0;
  return 0;
}

/* Runs one of the calls that prepare constants and weights; the number after the last does nothing. `brings`: some read
   a constant that is to be copied from the module before. */
static inline __attribute__((always_inline)) void init(uint32_t call, bool brings) {
  if (call > INITS->count)
    __builtin_trap();
  if (brings)
    bring(call);
  run_from(INITS->starts[call]);
}

SMALL void xw_init(uint32_t call) { init(call, false); }
SMALL void xw_init_bringing(uint32_t call) { init(call, true); }
void xw_init_nothing(uint32_t call) {
  if (call)
    __builtin_trap();
}
