"""Operations on each element by itself; a function's formula is in `loop/math/`."""
