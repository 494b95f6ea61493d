/* How a run ends that its host gives up: another thread writes -1 to a word, which is 0 before, and loops whose trips take
   long load from where it points to: outside of every memory. */
#pragma once

#define STOP_WORD 72 /* STOP of xla_wasm/target.py */

static inline void trap_if_stopped(void) {
  (void)**(volatile const int *volatile *)STOP_WORD;
}
