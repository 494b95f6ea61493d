// A worker that, if it is device 1, says that it has loaded another program than it has.

import '../../web/worker.js';

const port = globalThis.process?.getBuiltinModule?.('node:worker_threads')?.parentPort ?? globalThis;
const { onmessage } = port;
const say = port.postMessage.bind(port);
let device;
let load;
port.onmessage = (event) => {
  const { method, values, id } = event.data;
  if (method === 'join') device = values[0].id;
  if (method === 'load') load = id;
  onmessage(event);
};
port.postMessage = (message, moved) =>
  say(device === 1 && message.id === load ? { ...message, value: 'another' } : message, moved);
