// A worker that takes a chunk of a kernel as the threads of xla_wasm/assemble/threads.py do, and never computes it: see
// `stolen` in threads.mjs.

const node = globalThis.Worker ? undefined : process.getBuiltinModule('node:worker_threads');
const port = node?.parentPort ?? globalThis;

port.onmessage = ({ data: { buffer, control } }) => {
  const tickets = new BigInt64Array(buffer, control, 1);
  port.postMessage('begun');
  for (;;) {
    const ticket = Atomics.load(tickets, 0);
    const [next, count] = [ticket & 0xfffffn, (ticket >> 20n) & 0xfffffn];
    if (next < count && Atomics.compareExchange(tickets, 0, ticket, ticket + 1n) === ticket) return;
  }
};
