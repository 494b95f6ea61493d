// Locks that workers hold, which come free when they end.

import { builtin } from '../source.js';

/** Returns true if only a lock tells of an ended worker, and there are locks: in pages of https or localhost. */
export const hasLocks = () => !builtin('node:worker_threads') && !!globalThis.navigator?.locks;
