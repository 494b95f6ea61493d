// A worker that has workers of its own, for a thread that cannot end them because it computes: see kept.mjs.

const node = globalThis.Worker ? undefined : process.getBuiltinModule('node:worker_threads');
const port = node?.parentPort ?? globalThis;
const workers = new Map();

/** The word of each helping thread that is not 0 while it computes a chunk, which the watcher is told. */
const busy = new Map();

/** Ends those that help, each in the middle of a chunk: after so many milliseconds, as soon as its word says so. */
const kill = (after) =>
  setTimeout(() => {
    let left = false;
    for (const worker of workers.values()) {
      if (!worker.helps) continue;
      if (busy.get(worker.helps)?.()) {
        worker.terminate();
        worker.helps = 0;
      } else left = true;
    }
    if (left) kill(0);
  }, after);

const channel = new BroadcastChannel('kill');
channel.onmessage = ({ data }) => kill(data);
channel.unref?.();

port.onmessage = ({ data: { id, url, send, moved, end, killAfter } }) => {
  if (url) {
    const worker = node ? new node.Worker(new URL(url)) : new Worker(url, { type: 'module' });
    const hear = (said) => port.postMessage({ id, said });
    if (node) worker.on('message', hear);
    else worker.onmessage = ({ data }) => hear(data);
    workers.set(id, worker);
  } else if (end) {
    workers.get(id)?.terminate();
    workers.delete(id);
  } else if (killAfter !== undefined) {
    kill(killAfter);
  } else {
    const worker = workers.get(id);
    if (send.module) worker.helps = send.number;
    else if (send.memory)
      busy.set(send.number, () => Atomics.load(new Int32Array(send.memory.buffer), send.own / 4) !== 0);
    worker.postMessage(send, moved);
  }
};
