"""`python -m xla_wasm` is the command `xla-wasm`."""

from .command import main

if __name__ == "__main__":
    main()
