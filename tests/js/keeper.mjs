// A worker that has workers of its own, for a thread that cannot end them because it computes: see kept.mjs.

const node = globalThis.Worker ? undefined : process.getBuiltinModule('node:worker_threads');
const port = node?.parentPort ?? globalThis;
const workers = new Map();

/** Ends those that compute, after so many milliseconds. */
const kill = (after) =>
  setTimeout(() => [...workers.values()].forEach((worker) => worker.helps && worker.terminate()), after);

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
    worker.helps ||= !!send.module;
    worker.postMessage(send, moved);
  }
};
