"""Relaxed products of bytes as engines may compute them: each as code that stands in its place, so that any engine does
it."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from xla_wasm.loop import values
from xla_wasm.loop.ir import Val


class Engine(NamedTuple):
    """An engine's way of reading the bytes of the second operand, and of treating sums that leave 16 bits on the
    way."""

    sign: str
    between: str
    """exact, add (modulo 2**16) or add_sat_s."""
    clamps: bool = False
    """True if the sum is clamped to 32 bits."""

    @property
    def exact(self) -> bool:
        return self.between == "exact" and not self.clamps


ENGINES = {
    "vpdpbusd": Engine("u", "exact"),
    "sdot": Engine("s", "exact"),
    "vpmaddubsw": Engine("u", "add_sat_s"),
    "vpdpbusds": Engine("u", "exact", clamps=True),
    "smull and addp": Engine("s", "add"),
    "signed, clamped": Engine("s", "add_sat_s"),
    "unsigned, wrapped": Engine("u", "add"),
    "signed, clamped at the end": Engine("s", "exact", clamps=True),
}
"""By their instruction, where there is a processor that has it."""


def be(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    """Makes modules that are compiled from now on compute as on that engine."""
    monkeypatch.setitem(
        values._WRITE, "relaxed_dot", lambda self, val: _write_pairs(self, _products(self, val, engine), engine)
    )
    monkeypatch.setitem(values._WRITE, "relaxed_dot_add", lambda self, val: _write(self, val, engine))


def _products(self: values.Values, val: Val, engine: Engine) -> list[int]:
    """Two vectors of the products of bytes, as the engine reads these."""
    x, y = (self.temporary(arg) for arg in val.args[:2])
    products = []
    for half in ("low", "high"):
        for operand, sign in ((x, "s"), (y, engine.sign)):
            self.op("local.get", operand)
            self.op(f"i16x8.extend_{half}_i8x16_{sign}")
        self.op("i16x8.mul")  # of 8 bits each: no product leaves 16
        products.append(_kept(self))
    return products


def _write_pairs(self: values.Values, products: list[int], engine: Engine) -> None:
    """Sums of adjacent products in 16 bits, which no engine has more of there."""
    for first in (0, 2):
        _every_other(self, products, first, 2)
    self.op("i16x8.add" if engine.between == "exact" else f"i16x8.{engine.between}")


def _write(self: values.Values, val: Val, engine: Engine) -> None:
    products, total = _products(self, val, engine), self.temporary(val.args[2])
    if engine.between == "exact":
        pairs = []
        for local in products:
            self.op("local.get", local)
            self.op("i32x4.extadd_pairwise_i16x8_s")
            pairs.append(_kept(self))
        for first in (0, 4):
            _every_other(self, pairs, first, 4)
        self.op("i32x4.add")
    else:
        _write_pairs(self, products, engine)
        self.op("i32x4.extadd_pairwise_i16x8_s")
    if not engine.clamps:
        self.op("local.get", total)
        self.op("i32x4.add")
        return
    made = _kept(self)
    self.op("local.get", total)
    for lane in range(4):
        for local in (total, made):
            self.op("local.get", local)
            self.op("i32x4.extract_lane", lane)
            self.op("i64.extend_i32_s")
        self.op("i64.add")
        self.op("f64.convert_i64_s")
        self.op("i32.trunc_sat_f64_s")
        self.op("i32x4.replace_lane", lane)


def _kept(self: values.Values) -> int:
    local = self.out.local("v128")
    self.op("local.set", local)
    return local


def _every_other(self: values.Values, vectors: list[int], first: int, size: int) -> None:
    """Every other lane of so many bytes of two vectors, from byte `first` on."""
    for local in vectors:
        self.op("local.get", local)
    self.op("i8x16.shuffle", *(start + first + byte for start in range(0, 32, 2 * size) for byte in range(size)))


def spoil_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes modules that are compiled from now on compute wrong products of pairs."""

    def write(self: values.Values, val: Val) -> None:
        for arg in val.args:
            self.value(arg)
        self.op("i32x4.dot_i16x8_s")
        self.op("i32.const", 7)
        self.op("i32x4.splat")
        self.op("i32x4.add")

    monkeypatch.setitem(values._WRITE, "dot", write)
