"""The loop language: typed values in loops over buffers, and their way to WebAssembly; nothing of HLO instructions."""
