"""WebAssembly: opcodes, functions and modules to bytes, back to text, and checked. Knows nothing of HLO."""

from .encoding import custom_section, sleb, uleb
from .func import Func
from .module import Module
from .opcodes import CODE, Opcode, opcodes

__all__ = ["CODE", "Func", "Module", "Opcode", "custom_section", "opcodes", "sleb", "uleb"]
