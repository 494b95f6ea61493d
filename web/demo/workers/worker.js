// The loader's worker. The site has it and what it imports in one script, in the place of this file.

import '../../worker.js';
