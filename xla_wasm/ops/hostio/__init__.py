"""Operations that the host has a part in, and transfers; what the host does is no part."""
