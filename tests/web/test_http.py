"""The forms in which a served model takes and gives arrays, of every element type, under workerd: what NumPy writes,
reads and casts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.support.bodies import JSON, NPY, NPZ, RAW, Array, load_npy, load_npz, npz
from tests.support.miniflare import identity, post, serving, write_worker
from xla_wasm.hlo.types import ARRAY_TYPES, TYPES
from xla_wasm.host.arrays import dtype_of

ALL = sorted(ARRAY_TYPES)
NUMPY = [name for name in ALL if dtype_of(name).type.__module__ == "numpy"]
FLOATS = [name for name in ALL if TYPES[name].kind == "float"]
KINDS = ["pred", "unsigned", "signed", "float", "complex"]
NAMED = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}


def length(type_: str) -> int:
    """As many elements as the type has, if that is feasible."""
    bits = TYPES[type_].bits
    return 2**bits if 1 < bits <= 16 else 2048


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    models = {}
    for name in ALL:
        models[f"matrix-{name}"] = identity({"x": name}, "2,3")
        models[f"long-{name}"] = identity({"x": name}, str(length(name)))
    folder = tmp_path_factory.mktemp("all")
    write_worker(folder, models)
    with serving(folder) as address:
        yield address


def elements(type_: str) -> Array:
    """Every element of a type that has few, bits at random of the others."""
    dtype, rng = dtype_of(type_), np.random.default_rng(7)
    bits, count = TYPES[type_].bits, length(type_)
    if type_ == "pred":
        return rng.integers(0, 2, count).astype(bool)
    if bits <= 16 and dtype.itemsize * 8 == 16:
        return np.arange(count).astype(np.uint16).view(dtype)
    if bits < 8 and TYPES[type_].kind in ("signed", "unsigned"):
        low = -(1 << bits - 1) if TYPES[type_].kind == "signed" else 0
        return (np.arange(count) % (1 << bits) + low).astype(np.int8).astype(dtype)
    if bits <= 8:
        return np.arange(count).astype(np.uint8).view(dtype)
    made = rng.integers(0, 256, (count, dtype.itemsize)).astype(np.uint8).view(dtype).ravel()
    if dtype.kind in "fc":
        # Powers of two, where rounding is of another kind, and what is short in digits.
        part = made.view(made.real.dtype)
        exponents = np.arange(-149, 128) if part.itemsize == 4 else np.arange(-1074, 1000, 6)
        powers = np.ldexp(np.ones(400, part.dtype), np.resize(exponents, 400))
        part[:400], part[400:800] = powers, np.arange(400) / 8 - 20
    return made


def wide(array: Array, dtype: Any = np.float64) -> Array:
    """The numbers in a type that has them all."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return array.astype(dtype)


def is_nan(array: Array) -> Array:
    return np.isnan(wide(array, np.complex128))


def as_json(array: Array) -> Any:
    """The array as nested lists of what JSON has."""
    if array.dtype.kind == "c":
        return as_json(np.stack([array.real, array.imag], -1))
    values = (
        array if array.dtype.kind in "biu" else wide(array, np.float64 if "float" in array.dtype.name else np.int64)
    ).tolist()

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        return next(
            (name for name, v in NAMED.items() if isinstance(value, float) and (value == v or value != value)), value
        )

    return plain(values)


def from_json(value: Any, dtype: np.dtype[Any]) -> Array:
    """The array that nested lists of an answer stand for."""
    if dtype == dtype_of("f8e8m0fnu"):
        # What lies between the two least is always rounded up by ml_dtypes.
        mantissas, exponents = np.frexp(np.array([NAMED.get(v, v) for v in value], np.float64))
        return np.ldexp(np.where(mantissas >= 0.75, 1, np.sign(mantissas) / 2), exponents).astype(dtype)

    def number(item: Any) -> Any:
        return (
            [number(i) for i in item]
            if isinstance(item, list)
            else NAMED.get(item, item)
            if isinstance(item, str)
            else item
        )

    made = number(value)
    if dtype.kind == "c":
        pairs = np.array(made, np.float64)
        real = np.zeros(pairs.shape[:-1], dtype)
        real.real, real.imag = pairs[..., 0], pairs[..., 1]
        return real
    return np.array(made, dtype if dtype.kind in "biu" else np.int64 if "int" in dtype.name else np.float64).astype(
        dtype
    )


def assert_same(got: Array, want: Array) -> None:
    """Bit for bit, but for the bits of a NaN, and those above the bits of an integer of less than a byte."""
    assert got.shape == want.shape and got.dtype == want.dtype
    assert (is_nan(got) == is_nan(want)).all()
    real = ~is_nan(want)
    if "int" in want.dtype.name:
        got, want = (
            got.astype(want.dtype if want.dtype.kind in "iu" else np.int8),
            want.astype(want.dtype if want.dtype.kind in "iu" else np.int8),
        )
    assert got[real].tobytes() == want[real].tobytes()


@pytest.mark.parametrize("type_", ALL)
def test_bits_come_back(type_: str, url: str) -> None:
    """As raw bytes, .npy and .npz, NaNs with their payload."""
    array = elements(type_)
    at = f"{url}long-{type_}/"
    raw = post(at, array.tobytes(), RAW)
    assert raw.status == 200 and raw.headers["content-type"] == RAW
    answer = post(at, array)
    assert answer.status == 200 and answer.headers["content-type"] == NPY
    got = load_npy(answer.body)
    assert got.shape == array.shape
    assert got.dtype == (array.dtype if type_ in NUMPY else np.dtype(f"V{array.dtype.itemsize}"))
    (packed,) = load_npz(post(at, npz(x=array), NPZ).body).values()
    assert packed.dtype == got.dtype
    if type_ in ("s1", "s2", "s4"):
        # Here the sign fills the byte; ml_dtypes reads it either way.
        array = array.astype(np.int8)
    assert raw.body == got.tobytes() == packed.tobytes() == array.tobytes()


@pytest.mark.parametrize("type_", ALL)
def test_numbers_come_back(type_: str, url: str) -> None:
    """As JSON, both ways; what is written is read back as the same element."""
    array = elements(type_)
    at = f"{url}long-{type_}/"
    answer = post(at, array.tobytes(), RAW, Accept=JSON)
    assert answer.status == 200
    assert_same(from_json(answer.json["result"], array.dtype), array)
    back = post(at, as_json(array), Accept=NPY)
    if type_ in ("f4e2m1fn", "f6e2m3fn", "f6e3m2fn"):
        assert not is_nan(array).any()
    assert back.status == 200, back
    assert_same(load_npy(back.body).view(array.dtype), array)


def digits(text: str) -> int:
    """Returns the number of significant digits of a number in JSON, at least 1."""
    mantissa = text.lstrip("-").partition("e")[0].replace(".", "").lstrip("0")
    return len(mantissa.rstrip("0")) or 1


@pytest.mark.parametrize("type_", FLOATS)
def test_the_fewest_digits(type_: str, url: str) -> None:
    array = elements(type_)
    body = post(f"{url}long-{type_}/", array.tobytes(), RAW, Accept=JSON).body.decode()
    finite = wide(array)[np.isfinite(wide(array))]
    texts = re.findall(r"-?\d[\d.e+-]*|\"[^\"]*\"", body.partition("[")[2])
    assert len(texts) == len(array)
    for text, value in zip(texts, array):
        if text[0] == '"' or value == 0:
            continue
        if type_ in NUMPY:
            # NumPy finds the fewest by Steele and White's algorithm.
            assert digits(text) == digits(np.format_float_scientific(value, unique=True, trim="-")), (text, value)
        else:
            # What lies far above the largest is none of the type's, though ml_dtypes takes it for that one.
            largest = abs(float(value)) == float(np.nanmax(finite))
            enough = next(
                n for n in range(1, 9) if array.dtype.type(near := float(f"{float(value):.{n - 1}e}")) == value
            )
            assert digits(text) <= enough or (largest and abs(near) > abs(value)), (text, value)


@pytest.mark.parametrize("type_", [name for name in FLOATS if name not in ("f32", "f64")])
def test_rounding(type_: str, url: str) -> None:
    """Numbers between those of the type, and the middles between two, go to the nearest and to even, as ml_dtypes
    rounds."""
    dtype = dtype_of(type_)
    finite = np.unique(wide(elements(type_)))
    finite = finite[np.isfinite(finite)]
    rng = np.random.default_rng(3)
    middles = (finite[1:] + finite[:-1]) / 2
    values = np.concatenate([middles, finite[:-1] + (finite[1:] - finite[:-1]) * rng.random(len(middles))])
    # ml_dtypes rounds to 32 bits first, so numbers have no more.
    values = rng.permutation(values[values != 0]).astype(np.float32).astype(np.float64)
    if type_ == "f8e8m0fnu":
        values = values[values >= 2.0**-126]  # 2^-127 has no neighbour below
    count = length(type_)
    for i in range(0, len(values), count):
        part = np.resize(values[i : i + count], count)
        answer = post(f"{url}long-{type_}/", part.tolist(), Accept=NPY)
        assert answer.status == 200, answer
        assert_same(load_npy(answer.body).view(dtype), part.astype(dtype))


@pytest.mark.parametrize("type_", ALL)
def test_casts_are_those_of_numpy(type_: str, url: str) -> None:
    """From every type of NumPy's, in every order of bytes and dimensions: what "same_kind" casts, and nothing else."""
    target = dtype_of(type_)
    at = f"{url}matrix-{type_}/"
    for code in "? u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8 c8 c16".split():
        source = np.dtype(code)
        # Numbers that all types have: 1, and 0 where there is one; -1 of one bit.
        array = (
            np.array([[1, 0, 1], [0, 0, 1]])
            if type_ not in ("f8e8m0fnu", "s1")
            else np.ones((2, 3)) * (1 if type_[0] == "f" else 0)
        )
        array = array.astype(source)
        kind = "pred" if code == "?" else {"u": "unsigned", "i": "signed", "f": "float", "c": "complex"}[source.kind]
        castable = KINDS.index(kind) <= KINDS.index(TYPES[type_].kind)
        if type_ in NUMPY:
            assert castable == np.can_cast(source, target, "same_kind")
        for order in "<>":
            for laid in (array, np.asfortranarray(array)):
                answer = post(at, laid.astype(source.newbyteorder(order)))
                if castable:
                    assert answer.status == 200, (code, answer)
                    assert_same(load_npy(answer.body).view(target), array.astype(target))
                else:
                    error = answer.error
                    assert answer.status == 422 and error["field"] == "x" and error["expected"] == f"{type_}[2,3]"
                    assert error["given"].endswith("[2,3]") and error["given"] in error["message"]
