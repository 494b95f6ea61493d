"""From a plan to an artifact: addresses, the program that runs the steps, what surrounds it, and the manifest.

Kernels are written before (`loop`, `kernels`), and the bytes of WebAssembly by `wasm`.
"""
