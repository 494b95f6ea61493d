"""The linker: takes functions of the C runtime into a generated module, without a C compiler at hand."""

from .link import Linker, runtime_functions

__all__ = ["Linker", "runtime_functions"]
