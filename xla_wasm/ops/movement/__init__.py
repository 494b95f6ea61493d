"""Operations that move elements and compute none, at places that are known when compiling."""
