// worker.js, whose own workers another thread keeps: it ends them when it is told so on a channel.

import { kept } from './kept.mjs';
import '../../web/worker.js';

kept();
