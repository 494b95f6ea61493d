import * as api from '/web/standalone.js';
import { answering } from './worker_answers.mjs';

answering(api);
