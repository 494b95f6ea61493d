"""Damaged HLO texts: they parse, or give an error of ours with a place, within bounded time."""

from __future__ import annotations

import re
import time
from functools import cache

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import seeds
from tests.support.text_cases import CASES
from xla_wasm.errors import XlaWasmError
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.verify import verify

FAST = settings(
    max_examples=seeds.count(1500, 10_000), suppress_health_check=list(HealthCheck), database=None, derandomize=True
)
PIECES = (
    "{ } ( ) [ ] , = : * # + ~ -> <= ... % \" ' \\ /* */ // - . 0 1 -1 9999999999999999999 1e400 nan inf nan(0x0) 1x1 "
    "0_0 b01f_01io->b01f "
    "ROOT ENTRY HloModule f32[2] (f32[],s32[2]) {0} {1,0:T(2)} f32[<=3] ? a add({...}) calls=add to_apply={ "
    "sharding={ metadata={ \u00e9 \0"
).split(" ")


@cache
def tokens() -> list[list[str]]:
    """The texts cut into tokens, blanks included."""
    return [re.findall(r"\w+|\s+|[^\w\s]", text) for text in CASES.values()]


@FAST
@given(
    st.integers(0, len(CASES) - 1),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 5), st.integers(0, 10_000)), min_size=1, max_size=4),
)
def test_damaged_text(seed: int, changes: list[tuple[int, int, int]]) -> None:
    """Tokens left out, doubled, swapped, replaced by pieces of the grammar or of other texts; the text cut off."""
    parts = list(tokens()[seed])
    for place, change, other in changes:
        at = place % max(len(parts), 1)
        if change == 0:
            del parts[at : at + 1]
        elif change == 1:
            parts[at:at] = parts[at : at + 1 + other % 8]
        elif change == 2:
            parts[at:at] = [PIECES[other % len(PIECES)]]
        elif change == 3:
            parts[at : at + 1] = [PIECES[other % len(PIECES)]]
        elif change == 4:
            source = tokens()[other % len(CASES)]
            parts[at : at + 1] = source[other % len(source) :][:6]
        else:
            parts = parts[: at + 1] if other % 8 == 0 else parts[:at] + parts[at + 2 :]
    start = time.thread_time()
    try:
        module = Module.from_text("".join(parts))
    except XlaWasmError as error:
        assert str(error)
    else:
        for step in (Module.to_text, Module.to_proto, verify):
            try:
                step(module)
            except XlaWasmError:
                pass
    assert time.thread_time() - start < 5
