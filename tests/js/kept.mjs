// For tests in which workers end while the thread that has started them computes.

/** Has another thread start and end the workers of this one: it can end them while this thread computes. */
export function kept() {
  const threads = globalThis.Worker ? undefined : process.getBuiltinModule('node:worker_threads');
  const holder = threads ?? globalThis;
  const Original = holder.Worker;
  const script = new URL('keeper.mjs', import.meta.url);
  const keeper = threads ? new Original(script) : new Original(script, { type: 'module' });
  const started = [];
  const receive = ({ id, said }) => started[id].hear(said);
  if (threads) keeper.on('message', receive);
  else keeper.onmessage = ({ data }) => receive(data);
  class Kept {
    constructor(url) {
      this.id = started.push(this) - 1;
      keeper.postMessage({ id: this.id, url: String(url) });
    }

    hear(said) {
      if (threads) this.listener?.(said);
      else this.onmessage({ data: said });
    }

    postMessage(send, moved = []) {
      keeper.postMessage({ id: this.id, send, moved }, moved);
    }

    terminate() {
      keeper.postMessage({ id: this.id, end: true });
    }
  }
  if (threads) {
    Kept.prototype.on = function (name, listener) {
      if (name === 'message') this.listener = listener;
      return this;
    };
    Kept.prototype.unref = () => {};
  }
  holder.Worker = Kept;
  return {
    kill: (after) => keeper.postMessage({ killAfter: after }),
    async end() {
      holder.Worker = Original;
      await new Promise((resolve) => setTimeout(resolve, 100)); // what it has been told, it does
      await keeper.terminate();
    },
  };
}
