"""The linker, and the C runtime that it links."""
