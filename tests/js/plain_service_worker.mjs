import * as api from '/web/xla_wasm.js';
import { answering } from './worker_answers.mjs';

answering(api);
