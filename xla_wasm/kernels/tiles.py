from dataclasses import dataclass
@dataclass(frozen=True, slots=True)
class Tile:
    mr: int
    nr: int
    barrier: int = 4
    scalar: int = 0
    unroll: int = 4
    rows: int = 64
    tie: int = 0
