"""Times what xla_wasm makes against the machine's limits and the other ways to compute in WebAssembly."""

from __future__ import annotations

import sys

from .suite.command import main

if __name__ == "__main__":
    sys.exit(main())
