import * as api from '/web/xla_wasm.js';
import { answering } from './worker_answers.mjs';

globalThis.onconnect = ({ ports: [port] }) => {
  answering(api, port);
  port.start();
};
