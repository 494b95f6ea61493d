// The loader with all files that run a module in this thread, for service workers and worklets, which have no
// `import()`. There are no workers either, so what only starts these is left out. In the npm package this is one file.

import * as budget from './limits/budget.js';
import * as bytes from './bytes.js';
import * as callbacks from './requests/callbacks.js';
import * as dynamic from './arrays/dynamic.js';
import { UnsupportedError } from './errors.js';
import * as exchange from './devices/exchange.js';
import * as feeds from './requests/feeds.js';
import * as hints from './diagnostics/hints.js';
import * as host from './requests/host.js';
import * as layouts from './arrays/layouts.js';
import * as orders from './arrays/orders.js';
import * as requests from './requests/requests.js';
import * as shown from './diagnostics/shown.js';
import * as slices from './limits/slices.js';
import * as structures from './arrays/structures.js';
import * as threads from './threads/threads.js';
import * as untrusted from './limits/untrusted.js';
import * as weights from './weights/weights.js';
import { FILES } from './source.js';

export * from './xla_wasm.js';

const workers = () => {
  throw new UnsupportedError(
    'a service worker or worklet starts no workers, and the loader for these neither: leave out worker, devices and ' +
      'untrusted, or load in a page',
  );
};
Object.assign(FILES, { budget, bytes, callbacks, dynamic, exchange, feeds, hints, host, layouts, orders, requests });
Object.assign(FILES, { shown, slices, structures, threads, untrusted, weights });
Object.assign(FILES, { remote: { start: workers, loadRemote: workers }, replicated: { loadReplicated: workers } });
FILES.TextDecoder =
  globalThis.TextDecoder ??
  class {
    /** @param {ArrayBuffer | Uint8Array} bytes */
    decode(bytes) {
      const digits = new Uint8Array(bytes).reduce((all, byte) => `${all}%${(byte + 256).toString(16).slice(1)}`, '');
      return decodeURIComponent(digits);
    }
  };
