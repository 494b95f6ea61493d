// The loader's worker, under the pages: only scripts from here on get the headers that headers.js adds where a host
// sends none.

import '../../worker.js';
