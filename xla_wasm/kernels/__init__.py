"""Kernels that are more than a loop nest over expressions: matrix products and convolutions, and packing for them."""

from .gemm import gemm_kernel
from .packing import pack_kernel
from .sides import Sides
from .tiles import Gemm, Tile, Types, packed_size, tile
from .winograd import Winograd, WinogradKernel, winograd_pack

__all__ = [
    "Gemm",
    "Sides",
    "Tile",
    "Types",
    "Winograd",
    "WinogradKernel",
    "gemm_kernel",
    "pack_kernel",
    "packed_size",
    "tile",
    "winograd_pack",
]
