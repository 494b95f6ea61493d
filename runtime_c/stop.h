/* How a run ends that its host gives up: another thread writes a word, and loops whose trips take long look there. */
#pragma once

#define STOP_WORD 72 /* STOP of xla_wasm/target.py */

static inline void trap_if_stopped(void) {
  if (*(volatile const int *)STOP_WORD) __builtin_trap();
}
