"""Operations on sizes that are known at run time, and every operation on padded arrays; sizes of `dims` are no part."""
