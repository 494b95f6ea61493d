// Locks that workers hold, which come free when they end.

import { builtin } from '../source.js';

/** Whether an ended worker is told by a lock only, and there are locks: in pages of https or localhost. */
export const hasLocks = () => !builtin('node:worker_threads') && !!globalThis.navigator?.locks;
