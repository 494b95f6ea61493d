"""Kernels that are more than a loop nest over expressions: matrix products and convolutions, and packing for them."""

from .gemm import gemm_kernel
from .packing import pack_kernel
from .tiles import Gemm, Tile, Types, packed_size, tile

__all__ = ["Gemm", "Tile", "Types", "gemm_kernel", "pack_kernel", "packed_size", "tile"]
