"""Commands: artifacts that are programs of WASI preview 1, which read their inputs from files and write their results."""

from __future__ import annotations

import io
import json
import math
import random
import subprocess
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import as_bytes, command, identity, loaded, npy, npz, run
from node_host import ROOT, node_for
from typer.testing import CliRunner

import xla_wasm
from xla_wasm import ArtifactError, Options, UnsupportedError, cli
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.smallfloat import FORMATS, encode
from xla_wasm.hlo.types import ARRAY_TYPES, TYPES
from xla_wasm.host.arrays import dtype_of

TWO = """HloModule two

ENTRY e {
  a = f32[2,3] parameter(0)
  b = s32[3] parameter(1)
  c = f32[3] convert(b)
  d = f32[2,3] broadcast(c), dimensions={1}
  sum = f32[2,3] add(a, d)
  bits = s32[3] negate(b)
  ROOT r = (f32[2,3], s32[3]) tuple(sum, bits)
}
"""
A = np.arange(6, dtype=np.float32).reshape(2, 3) / 8
B = np.array([1, -2, 1000], np.int32)
SUM = A + B.astype(np.float32)


def names(text: str) -> tuple[list[str], list[str]]:
    manifest = xla_wasm.compile(Module.from_text(text)).manifest
    return [p["name"] for p in manifest["parameters"]], [r["name"] for r in manifest["results"]]


def samples(element_type: str, count: int) -> np.ndarray[Any, Any]:
    """Values of a type, special ones among them, as the codes that lie in memory."""
    rng = np.random.default_rng(len(element_type) + TYPES[element_type].bits)
    dtype, element = dtype_of(element_type), TYPES[element_type]
    if element.kind == "pred":
        return rng.integers(0, 2, count).astype(bool)
    if element.kind in ("signed", "unsigned"):
        bits = element.bits
        low, high = (-(1 << bits - 1), 1 << bits - 1) if element.kind == "signed" else (0, 1 << bits)
        wide = [int(rng.integers(0, 1 << 32)) << 32 | int(rng.integers(0, 1 << 32)) for _ in range(count)]
        numbers = [low, high - 1, 0, *(low + w % (high - low) for w in wide)][:count]
        holder = np.array(numbers, np.int64 if element.kind == "signed" else np.uint64)
        return holder.astype(dtype)
    if element.bits <= 8:
        return np.resize(np.arange(1 << element.bits, dtype=np.uint8), count).view(dtype)
    raw = rng.integers(0, 256, (count, dtype.itemsize), np.uint8).view(dtype)[:, 0].copy()
    values = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)
    raw[: count // 2] = (
        (values[: count // 2] + 1j * values[::-1][: count // 2]).astype(dtype) if dtype.kind == "c" else values[: count // 2].astype(dtype)
    )
    raw[:4] = np.array([0.0, -0.0, np.inf, np.nan]).astype(dtype)
    return raw


def jsonable(element_type: str, value: Any) -> Any:
    """What JSON should hold of a value."""
    kind = TYPES[element_type].kind
    if kind == "pred":
        return bool(value)
    if kind in ("signed", "unsigned"):
        return int(value)
    if kind == "complex":
        return [jsonable("f64", value.real), jsonable("f64", value.imag)]
    value = float(value)
    return value if np.isfinite(value) else "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"


@pytest.mark.parametrize("element_type", ARRAY_TYPES)
def test_every_element_type(element_type: str, tmp_path: Path) -> None:
    count = 256
    x = samples(element_type, count).reshape(2, 4, count // 8)
    made = command(identity(f"{element_type}[2,4,{count // 8}]"))
    in_numpy = dtype_of(element_type).isbuiltin == 1
    # .npy in both orders of dimensions and of bytes, to .npy: the same codes.
    stored = x if in_numpy else x.view(f"V{x.itemsize}")
    variants = [stored, np.asfortranarray(stored)] + ([stored.astype(x.dtype.newbyteorder(">"))] if in_numpy and x.itemsize > 1 else [])
    for i, variant in enumerate(variants):
        done = run(made, tmp_path / f"npy{i}", "x.npy", "-o", "y.npy", files={"x.npy": variant})
        y = done.array("y.npy")
        assert y.shape == x.shape and as_bytes(y) == as_bytes(x)
        assert not in_numpy or y.dtype == x.dtype
    # Raw bytes.
    done = run(made, tmp_path / "raw", "x.bin", "-o", "y.raw", files={"x.bin": as_bytes(x)})
    assert done.code == 0 and (done.folder / "y.raw").read_bytes() == as_bytes(x)
    # JSON: numbers that read back to the same values.
    done = run(made, tmp_path / "json", "x.bin", files={"x.bin": as_bytes(x)})
    result = done.json["result"]
    assert np.shape(np.array(result, object))[:3] == x.shape
    shown = np.array(result, object).reshape(-1, 2) if TYPES[element_type].kind == "complex" else np.array(result, object).reshape(-1)
    with np.errstate(invalid="ignore"):
        wide = (
            x.astype(np.complex128 if TYPES[element_type].kind == "complex" else np.float64) if not in_numpy or x.dtype.kind in "fc" else x
        )
    for given, value in zip(shown, wide.reshape(-1)):
        wanted = jsonable(element_type, value)
        given = given.tolist() if isinstance(given, np.ndarray) else given
        if element_type in ("f32", "c64", "f16", "bf16") or TYPES[element_type].bits <= 8:
            same = rounded(element_type, given) == rounded(element_type, wanted)
        else:
            same = given == wanted
        assert same, (element_type, given, wanted)
    again = run(made, tmp_path / "json2", "x.json", "-o", "y.npy", files={"x.json": json.dumps(result).encode()})
    assert again.code == 0, again.err
    back = again.array("y.npy")
    y = back.view(x.dtype) if back.dtype.kind == "V" else back
    if x.dtype.kind in "fcV" or not in_numpy and TYPES[element_type].kind == "float":
        wide_y = y.astype(wide.dtype)
        assert np.array_equal(wide_y, wide, equal_nan=True)
        assert np.array_equal(np.signbit(wide_y.real), np.signbit(wide.real)) or np.isnan(wide).any()
    else:
        assert as_bytes(y) == as_bytes(x)


def rounded(element_type: str, value: Any) -> Any:
    """Of JSON, as the values of a type that it stands for."""
    if isinstance(value, list):
        return [rounded("f32", part) for part in value]
    if element_type in FORMATS:
        return encode(element_type, float(value))
    dtype = dtype_of("f32" if element_type == "c64" else element_type)
    return repr(np.array(float(value)).astype(dtype).astype(np.float64).item())


@pytest.mark.parametrize(
    ("given", "wanted", "fits"),
    [
        ("f8", "f32", True),
        ("f2", "f32", True),
        ("i8", "f32", True),
        ("b1", "f32", True),
        ("b1", "s8", True),
        ("u4", "s32", True),
        ("i8", "s32", True),
        ("i2", "s64", True),
        ("u8", "u8", True),
        ("f8", "c64", True),
        ("c16", "c64", True),
        ("i4", "c128", True),
        ("f4", "bf16", True),
        ("f4", "f16", True),
        ("i4", "s4", True),
        ("f4", "s32", False),
        ("i4", "u32", False),
        ("i4", "pred", False),
        ("c8", "f32", False),
        ("u1", "pred", False),
    ],
)
def test_npy_files_are_converted_within_a_kind(given: str, wanted: str, fits: bool, tmp_path: Path) -> None:
    x = np.array([[0, 1, 1], [0, 3, 7]]).astype(given)
    x = x % 2 if wanted == "pred" else x
    for order in "<>":
        swapped = np.asfortranarray(x.astype(x.dtype.newbyteorder(order)))
        done = run(command(identity(f"{wanted}[2,3]")), tmp_path / f"{ord(order)}", "x.npy", "-o", "y.npy", files={"x.npy": swapped})
        if not fits:
            size = int(given[1:]) * 8
            name = "pred" if given == "b1" else {"i": "s"}.get(given[0], given[0]) + str(size)
            assert done.code == 1 and done.err == f"m: x.npy: input x {wanted}[2,3]: this has {name}[2,3]\n"
            continue
        y = done.array("y.npy")
        y = y.view(dtype_of(wanted)) if y.dtype.kind == "V" else y
        assert np.array_equal(y.astype(np.complex128), x.astype(np.complex128))


def test_what_does_not_fit_is_an_error(tmp_path: Path) -> None:
    for shape, value in (("s8[]", 128), ("s8[]", -129), ("u8[]", 256), ("s4[]", 8), ("s32[]", 1 << 31), ("u2[]", 4)):
        done = run(
            command(identity(shape)), tmp_path / "a", "x.npy", files={"x.npy": np.array(value, np.uint64 if shape[0] == "u" else np.int64)}
        )
        assert done.code == 1 and done.err == f"m: x.npy: input x {shape}: a value is not one of its type\n"
    for shape, text in (
        ("s8[]", "128"),
        ("u8[]", "-1"),
        ("s32[]", "1.5"),
        ("u64[]", "18446744073709551616"),
        ("pred[]", "2"),
        ("f32[]", "1e39"),
        ("f16[]", "65520"),
        ("f4e2m1fn[]", "NaN"),
        ("s32[]", "NaN"),
    ):
        done = run(command(identity(shape)), tmp_path / "a", "-", stdin=text.encode())
        assert done.code == 1 and done.err == f"m: -: input x {shape}: a number is not one of its type\n", (shape, text)
    x = np.array([1, 1 + 2**-20], np.float32)  # as in `xla-wasm run`: rounding is for types that NumPy can round to
    assert run(command(identity("bf16[2]")), tmp_path / "a", "x.npy", files={"x.npy": x}).code == 1
    assert run(command(identity("f16[2]")), tmp_path / "a", "x.npy", files={"x.npy": x}).code == 0


@pytest.mark.parametrize("deflated", [False, True])
def test_archives(deflated: bool, tmp_path: Path) -> None:
    two = command(TWO)
    expected = {"result.0": SUM, "result.1": -B}
    assert names(TWO) == (["a", "b"], list(expected))
    files = {"in.npz": npz(deflated, b=B, a=A), "unnamed.npz": npz(deflated, arr_0=A, arr_1=B)}
    for name in files:
        done = run(two, tmp_path / "x", name, "-o", "y.npz", files=files)
        assert done.code == 0, done.err
        with np.load(done.folder / "y.npz") as made:
            assert made.files == list(expected)
            assert all(np.array_equal(made[key], expected[key]) and made[key].dtype == expected[key].dtype for key in expected)
        assert zipfile.ZipFile(done.folder / "y.npz").testzip() is None
    one = run(two, tmp_path / "x", "--b", "b.npy", "a.npz", files={"b.npy": B, "a.npz": npz(deflated, a=A)})
    assert one.json == {"result.0": SUM.tolist(), "result.1": (-B).tolist()}
    wrong = run(two, tmp_path / "x", "a.npz", files={"a.npz": npz(deflated, z=A)})
    assert (wrong.code, wrong.err) == (1, "two: z: the model takes no array of this name\n")


def test_deflate_of_every_kind(tmp_path: Path) -> None:
    """Stored, fixed and dynamic blocks, long matches, far distances; sizes in front of the data and behind them."""
    rng = np.random.default_rng(0)
    near, far = rng.integers(0, 256, 40_000, np.uint8), rng.integers(0, 3, 100_000, np.uint8)
    x = np.concatenate([near, near[:20_000], far, np.zeros(70_000, np.uint8), rng.integers(0, 256, 70_000, np.uint8)])
    made = command(identity(f"u8[{x.size}]"))

    class Pipe(io.RawIOBase):
        """Where one cannot go back: zipfile puts sizes behind the data."""

        def __init__(self) -> None:
            self.content = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.content += data
            return len(data)

    for level in (0, 1, 6, 9):
        for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
            for sink in (io.BytesIO(), Pipe()):
                with zipfile.ZipFile(sink, "w", method, compresslevel=level) as archive:
                    archive.writestr("x.npy", npy(x))
                content = sink.getvalue() if isinstance(sink, io.BytesIO) else bytes(sink.content)
                done = run(made, tmp_path / "x", "x.npz", "-o", "y.bin", files={"x.npz": content})
                assert done.code == 0, (level, method, done.err)
                assert (done.folder / "y.bin").read_bytes() == x.tobytes()


def test_numbers_as_text(tmp_path: Path) -> None:
    made = command(identity("f32[2,3]"))
    wanted = {"result": [[1, -2.5, 1000], [4, 0.5, -6]]}
    for text in (
        "[[1, -2.5, 1e3],\n [4, .5, -6]]",
        "[1,-2.5,1E+3,4,0.5,-6]",
        "1 -2.5 1000 4 0.5 -6",
        "1,-2.5,1000\n4,0.5,-6\n",
        " [[1,-2.5,1000.0],[4,5e-1,-6]] \n",
    ):
        assert run(made, tmp_path / "x", "-", stdin=text.encode()).json == wanted, text
        assert run(made, tmp_path / "x", "x.json", files={"x.json": text.encode()}).json == wanted
    special = run(command(identity("f32[4]")), tmp_path / "x", "-", stdin=b'["NaN", "-Infinity", inf, nan]')
    assert special.json == {"result": ["NaN", "-Infinity", "Infinity", "NaN"]}
    assert run(command(identity("c64[2]")), tmp_path / "x", "-", stdin=b"[[1,2],[3,4]]").json == {"result": [[1, 2], [3, 4]]}
    assert run(command(identity("c64[2]")), tmp_path / "x", "-", stdin=b"1 2 3 4").json == {"result": [[1, 2], [3, 4]]}
    assert run(command(identity("c64[]")), tmp_path / "x", "-", stdin=b"[1,-2]").json == {"result": [1, -2]}
    assert run(command(identity("pred[3]")), tmp_path / "x", "-", stdin=b"[true,false,1]").json == {"result": [True, False, True]}
    assert run(command(identity("s64[2]")), tmp_path / "x", "-", stdin=b"[-9223372036854775808, 1e3]").json == {"result": [-(2**63), 1000]}
    assert run(command(identity("f32[]")), tmp_path / "x", "-", stdin=b"3").json == {"result": 3}
    assert run(command(identity("f32[0,3]")), tmp_path / "x", "-", stdin=b"[]").json == {"result": []}
    assert run(command(identity("f32[2,0]")), tmp_path / "x", "-", stdin=b"[[],[]]").json == {"result": [[], []]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[1,2,3],[4,5]]", "its lists are not equally long"),
        ("[[1,2,3],[4,5,6],[7,8,9]]", "this has [3,3]"),
        ("[[1,2],[4,5]]", "this has [2,2]"),
        ("[1,2,3]", "this has [3]"),
        ("1 2 3 4 5 6 7", "this has [7]"),
        ("[[[1,2,3],[4,5,6]]]", "this has [1,2,3]"),
        ("[[1,2,3],4]", "its lists are not nested evenly"),
        ("[[1,2,3],[4,5,6]", "its lists do not end"),
        ("[[1,2,3],[4,5,6]] 7", "something follows its last list"),
        ("[[1,2,3] [4,5,6]]", "between its values stands something else than a comma"),
        ("[[1,,3],[4,5,6]]", "this is not a number"),
        ("[[1,2,3],[4,5,6],]", "this is not a number"),
        ("[[1,2,x],[4,5,6]]", "this is not a number"),
        ("[[1,2,-],[4,5,6]]", "this is not a number"),
        ("[[1,2,1e],[4,5,6]]", "this is not a number"),
        ("", "this is empty"),
        ("[]", "this has [0,3]"),
        ("[" * 100, "its lists are nested too deeply"),
    ],
)
def test_wrong_text(text: str, message: str, tmp_path: Path) -> None:
    done = run(command(identity("f32[2,3]")), tmp_path / "x", "-", stdin=text.encode())
    assert (done.code, done.err) == (1, f"m: -: input x f32[2,3]: {message}\n")


def test_every_number_is_the_nearest_double(tmp_path: Path) -> None:
    draw = random.Random(1)

    def digits(count: int) -> str:
        return "".join(draw.choice("0000123456789") for _ in range(count))

    texts = [f"{digits(draw.randrange(1, 30))}.{digits(draw.randrange(1, 30))}" for _ in range(1500)]
    texts += [f"{digits(draw.randrange(1, 25))}e{draw.randrange(-330, 310)}" for _ in range(500)]
    texts += [repr(draw.uniform(-1, 1) * 10.0 ** draw.randrange(-20, 20)) for _ in range(1500)]
    # Halfway between two doubles, and next to it; where sixty-four bits end; where zeros do.
    texts += [f"{(2**53 + k) * 2 + 1}e{e}" for k in range(40) for e in (0, -5, 3)]
    halves = [Decimal(2**53 + 2 * k + 1) / 2**10 for k in range(40)]
    texts += [str(half + tiny) for half in halves for tiny in (Decimal(0), Decimal("1e-15"), -Decimal("1e-15"))]
    texts += [f"{2**64 + k}.{'0' * n}1" for k in range(-6, 6) for n in (0, 3, 20)]
    texts += [f"1{'0' * n}.{'0' * m}5" for n in range(25) for m in (0, 18, 19)]
    texts = [text for text in texts if math.isfinite(float(text))]
    made = command(identity(f"f64[{len(texts)}]"))
    done = run(made, tmp_path / "x", "-", "-o", "y.npy", stdin=" ".join(texts).encode())
    assert done.code == 0, done.err
    np.testing.assert_array_equal(np.load(done.folder / "y.npy"), np.array([float(text) for text in texts]))


@pytest.mark.parametrize(
    ("type_", "text", "wanted"),
    [
        ("f32[]", "5", 5),
        ("f32[]", "", "this is empty"),
        ("f32[]", "1 2", "this has [2]"),
        ("f32[3]", "1, 2 ,3,\n", [1, 2, 3]),
        ("f32[3]", "1.2.3 4", "this is not a number"),
        ("f32[3]", "1-2-3", "this is not a number"),
        ("f32[3]", "NaN1 2", "this is not a number"),
        ("f32[3]", "1,,2", "this is not a number"),
        ("f32[3]", "inf 1 2", ["Infinity", 1, 2]),
        ("f32[3]", "1e999 1 2", "a number is not one of its type"),
        ("f64[1]", "1.7976931348623159e308", "a number is not one of its type"),
        ("f32[3]", '{"x": [1, 2, 3]}\n', [1, 2, 3]),
        ("f32[3]", '{"\\u0078": [1, 2, 3]}', [1, 2, 3]),
        ("f32[3]", '{"\\x": [1, 2, 3]}', "a name in the JSON object is none, or too long"),
        ("f32[3]", '{"x": [1, 2, 3]} 4', "this has more data than the input takes"),
    ],
)
def test_text_that_might_be_misread(type_: str, text: str, wanted: Any, tmp_path: Path) -> None:
    done = run(command(identity(type_)), tmp_path / "x", "-", stdin=text.encode())
    if isinstance(wanted, str):
        assert done.code == 1 and done.err.endswith(f": {wanted}\n"), done
    else:
        assert done.json == {"result": wanted}


@pytest.mark.parametrize("name", ["ü", 'a"b\\c\n', "\U0001f600", "\t/", "日本"])
def test_names_with_escapes(name: str, tmp_path: Path) -> None:
    """As `json.dumps` writes them, and as they are."""
    module = Module.from_text(identity("f32[2]"))
    module.frontend_attributes["xla_wasm.parameter_names"] = json.dumps([name])
    made = command(module)
    assert made.manifest["parameters"][0]["name"] == name
    for text in (json.dumps({name: [1, 2]}), json.dumps({name: [1, 2]}, ensure_ascii=False)):
        assert run(made, tmp_path / "x", "-", stdin=text.encode()).json == {"result": [1, 2]}, text


HEADERS = {
    '{"descr": "<f4", "fortran_order": False, "shape": (2, 3)}': True,
    "{'descr':'<f4','fortran_order':False,'shape':(2,3)}": True,
    "{ 'descr' :  '<f4' , 'shape' : ( 2 , 3 ) , 'fortran_order' : False }": True,
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }": True,
    "{'shape': (3,2), 'descr': '<f4', 'fortran_order': False, 'shape': (2,3)}": True,
    "{'descr': '<f4', 'fortran_order': False, 'shape': (42949672960, 3), }": "this has f32[4294967295,3]",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 18446744073709551616), }": "this has f32[2,4294967295]",
    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,3), }": "this has another type[2,3]",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3), }": "a damaged header",
    "{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 3), }": "a damaged header",
    "{'descr': '<f4', 'fortran_order': Falsey, 'shape': (2, 3), }": "a damaged header",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 3)}": "a damaged header",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3}": "a damaged header",
    "{'descr': '<f4', 'shape': (2, 3)}": "a damaged header",
}


@pytest.mark.parametrize("header", HEADERS)
def test_headers_of_npy_files(header: str, tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    content = b"\x93NUMPY\1\0v\0" + header.ljust(117).encode() + b"\n" + x.tobytes()
    done = run(command(identity("f32[2,3]")), tmp_path / "x", "x.npy", files={"x.npy": content})
    wanted = HEADERS[header]
    assert done.json == {"result": x.tolist()} if wanted is True else done.code == 1 and done.err.endswith(f"{wanted}\n"), done


@pytest.mark.parametrize(
    ("type_", "content", "wanted"),
    [
        ("u4[2]", b"\x0f\x03", [15, 3]),
        ("u4[2]", b"\x10\x03", None),
        ("s4[2]", b"\x0f\xf8", [-1, -8]),
        ("s4[2]", b"\x1f\xf8", None),
        ("u2[1]", b"\xff", None),
        ("f4e2m1fn[1]", b"\x10", None),
    ],
)
def test_bytes_of_types_narrower_than_a_byte(type_: str, content: bytes, wanted: list[int] | None, tmp_path: Path) -> None:
    done = run(command(identity(type_)), tmp_path / "x", "x.bin", files={"x.bin": content})
    if wanted:
        assert done.json == {"result": wanted}
    else:
        assert done.code == 1 and done.err.endswith("a value is not one of its type\n")


def test_batches_in_the_order_of_bytes(tmp_path: Path) -> None:
    names = ["a", "b", "zé", "zf", "zz", "ü"]
    files = {f"im/{name}.npy": npy(np.full(1, i, np.float32)) for i, name in enumerate(names)}
    (tmp_path / "x" / "im").mkdir(parents=True)
    made = command(identity("f32[1]"))
    done = run(made, tmp_path / "x", "--batch", "im/*.npy", files=files)
    said = {json.loads(line)["file"]: json.loads(line)["result"][0] for line in done.out.decode().splitlines()}
    assert said == {name: float(np.load(io.BytesIO(content))[0]) for name, content in files.items()}
    assert list(said) == sorted(files, key=str.encode)
    for output in ("-", "all.json", "all.npy"):
        done = run(made, tmp_path / "x", "--batch", "im/*.npy", "-o", output, files=files)
        assert done.code == 2 and "with --batch this is a folder, as in -o out/" in done.err


def test_options_that_make_no_sense(tmp_path: Path) -> None:
    made = command(identity("f32[1]"))
    done = run(made, tmp_path / "x", "-", "--repeat", "0", stdin=b"1")
    assert done.code == 2 and done.err.startswith("m: --repeat: this is at least 1\n")
    done = run(made, tmp_path / "x", "-", "-o", "y.csv", stdin=b"1")
    assert done.code == 2 and "y.csv: this has to end in .npy, .npz, .json, .bin or .raw" in done.err
    assert run(made, tmp_path / "x", "--", "-x.json", files={"-x.json": b"[1]"}).json == {"result": [1]}


def test_powers_of_two_are_as_short_as_others(tmp_path: Path) -> None:
    for type_, dtype in (("f32", np.float32), ("f64", np.float64)):
        low, high = (-149, 128) if dtype is np.float32 else (-1074, 1024)
        x = np.array([2.0**e for e in range(low, high)], dtype)
        done = run(command(identity(f"{type_}[{len(x)}]")), tmp_path / "x", "x.npy", "--json", files={"x.npy": npy(x)})
        texts = done.out.decode().split("[")[1].split("]")[0].split(",")
        assert [len(t.replace(".", "").split("e")[0].strip("0")) for t in texts] == [
            len(np.format_float_scientific(v, trim="-").replace(".", "").split("e")[0]) for v in x
        ]
        np.testing.assert_array_equal(np.array(texts).astype(dtype), x)


WEIGHTS = """HloModule dense

ENTRY e {
  x = f32[4,8] parameter(0)
  w = f32[8,5] parameter(1)
  b = bf16[5] parameter(2)
  y = f32[4,5] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[5] convert(b)
  d = f32[4,5] broadcast(c), dimensions={1}
  ROOT r = f32[4,5] add(y, d)
}
"""
COUNTER = """HloModule counter

ENTRY e {
  n = s32[2] parameter(0)
  x = s32[2] parameter(1)
  ROOT m = s32[2] add(n, x)
}
"""


def safetensors(header: dict[str, Any], content: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


def dense_weights() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    w = np.sin(np.arange(40, dtype=np.float32)).reshape(8, 5)
    return x, w, np.arange(5).astype(dtype_of("bf16"))


def test_weights_from_files(tmp_path: Path) -> None:
    x, w, b = dense_weights()
    options: dict[str, Any] = {"weights": ("w", "b")}
    exe = xla_wasm.load(xla_wasm.compile(Module.from_text(WEIGHTS), Options(**options)))
    exe.set("w", w)
    exe.set("b", b)
    (expected,) = exe.run(x)
    made = command(WEIGHTS, **options)
    header = {
        "__metadata__": {"format": "pt", "note": 'a "quoted" {brace}'},
        "unused": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        "b": {"dtype": "BF16", "shape": [5], "data_offsets": [4, 14]},
        "w": {"data_offsets": [16, 176], "shape": [8, 5], "dtype": "F32"},
    }
    content = bytes(4) + b.tobytes() + bytes(2) + w.tobytes()
    files = {
        "x.npy": x,
        "w.safetensors": safetensors(header, content),
        "w.npz": npz(w=w, b=b.view("V2")),
        "w.npy": w,
        "b.npy": b.view("V2"),
    }
    for given in (
        ["--weights", "w.safetensors"],
        ["--weights=w.npz"],
        ["--w", "w.npy", "--b", "b.npy"],
        ["--w", "w.npy", "--weights", "w.npz"][:2] + ["--b=b.npy"],
    ):
        y = run(made, tmp_path / "x", *given, "x.npy", "-o", "y.npy", files=files).array("y.npy")
        assert as_bytes(y) == as_bytes(expected)
    beside = run(made, tmp_path / "y", "x.npy", "-o", "y.npy", files={"x.npy": x, "m.safetensors": files["w.safetensors"]})
    assert as_bytes(beside.array("y.npy")) == as_bytes(expected)
    missing = run(made, tmp_path / "z", "x.npy", files=files)
    assert missing.code == 2 and missing.err.startswith("dense: w: this weight is missing: name a file with --weights\n")
    for entry, message in (
        ({"dtype": "F16"}, "weight w f32[8,5]: the file has this as another type"),
        ({"shape": [5, 8]}, "weight w f32[8,5]: this has [5,8]"),
        ({"data_offsets": [16, 170]}, "this is not a safetensors file, or its header is damaged"),
        ({"data_offsets": [160, 320]}, "weight w f32[8,5]: the data end too early"),
    ):
        damaged = safetensors({"w": header["w"] | entry}, content)  # type: ignore[operator]
        done = run(made, tmp_path / "z", "x.npy", "--weights", "d.safetensors", files={"x.npy": x, "d.safetensors": damaged})
        assert (done.code, done.err) == (1, f"dense: d.safetensors: {message}\n")


def test_the_sidecar(tmp_path: Path) -> None:
    x, w, _ = dense_weights()
    text = (
        f"""HloModule s

ENTRY e {{
  x = f32[4,8] parameter(0)
  w = f32[8,80] constant({np.tile(w, (1, 16)).tolist()})
  ROOT y = f32[4,80] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
""".replace("[[", "{ {")
        .replace("], [", "}, {")
        .replace("]]", "} }")
        .replace("constant(", "constant(")
    )
    plain = xla_wasm.compile(Module.from_text(text), Options(sidecar=True))
    made = command(text, sidecar=True)
    assert len(made.weights) == 8 * 80 * 4 and len(made.wasm) < 60_000
    (expected,) = xla_wasm.load(plain).run(x)
    for name, given in (("m.weights", []), ("other", ["--sidecar", "other"])):
        done = run(made, tmp_path / name, "x.npy", *given, "-o", "y.npy", files={"x.npy": x, name: made.weights})
        assert as_bytes(done.array("y.npy")) == as_bytes(expected)
    short = run(made, tmp_path / "x", "x.npy", files={"x.npy": x, "m.weights": made.weights[:-1]})
    assert (short.code, short.err) == (1, "s: m.weights: this file is cut short, or that of another model\n")
    wrong = run(made, tmp_path / "x", "x.npy", files={"x.npy": x, "m.weights": bytes(len(made.weights))})
    assert (wrong.code, wrong.err) == (1, "s: m.weights: this file is damaged, or that of another model\n")
    none = run(made, tmp_path / "z", "x.npy", files={"x.npy": x})
    assert (none.code, none.err) == (1, "s: m.weights: there is no such file\n")
    assert run(command(identity("f32[]")), tmp_path / "x", "-", "--sidecar", "f", stdin=b"1").code == 2


def test_states_go_on_from_run_to_run(tmp_path: Path) -> None:
    made = command(
        COUNTER.replace(
            "ROOT m = s32[2] add(n, x)", "m = s32[2] add(n, x)\n  k = s32[2] negate(m)\n  ROOT r = (s32[2], s32[2]) tuple(m, k)"
        ),
        state={"n": 0},
    )
    assert run(made, tmp_path / "x", "-", "--repeat", "3", stdin=b"1 10").json == {"result.1": [-3, -30]}
    assert run(made, tmp_path / "x", "-", "--n", "n.npy", files={"n.npy": B[:2]}, stdin=b"1 10").json == {"result.1": [-2, -8]}


def test_results(tmp_path: Path) -> None:
    two = command(TWO)
    files = {"a.npy": A, "b.npy": B}

    def done(*options: str) -> Any:
        return run(two, tmp_path / "x", "a.npy", "b.npy", *options, files=files)

    assert done("--json").json == done().json == {"result.0": SUM.tolist(), "result.1": (-B).tolist()}
    assert done("--table").out.decode() == (
        "result.0  f32[2,3]  [[1.0,-1.875,1000.25],[1.375,-1.5,1000.625]]\nresult.1  s32[3]  [-1,2,-1000]\n"
    )
    for folder in ("out/", "new/"):
        made = done("-o", folder)
        assert np.array_equal(made.array(f"{folder}result.0.npy"), SUM) and np.array_equal(made.array(f"{folder}result.1.npy"), -B)
        assert made.out == b""
    assert json.loads((done("-o", "y.json").folder / "y.json").read_bytes()) == {"result.0": SUM.tolist(), "result.1": (-B).tolist()}
    with np.load(io.BytesIO(done("-o", "-").out)) as archive:
        assert np.array_equal(archive["result.0"], SUM)
    several = done("--output=y.npy")
    assert (several.code, several.err) == (
        2,
        "two: y.npy: there are several results: name a .npz file, a .json file or a folder, as in -o out/\n",
    )
    one = run(command(identity("f32[2,3]")), tmp_path / "x", "a.npy", "-o", "-", files=files)
    assert np.array_equal(loaded(one.out), A)
    wide = run(command(identity("f32[40]")), tmp_path / "x", "-", "--table", stdin=" ".join(map(str, range(-10, 30))).encode())
    assert wide.out.decode() == "result  f32[40]  min -10.0, max 29.0, mean 9.5\n"
    empty = run(command(identity("f32[0]")), tmp_path / "x", "-", "--table", stdin=b"[]")
    assert empty.out.decode() == "result  f32[0]  []\n"


def test_layouts_and_names(tmp_path: Path) -> None:
    text = """HloModule "l", entry_computation_layout={(f32[2,3]{0,1})->f32[3,2]{0,1}}

ENTRY e {
  x = f32[2,3]{0,1} parameter(0)
  ROOT y = f32[3,2]{0,1} transpose(x), dimensions={1,0}
}
""".replace('"l"', "l")
    made = command(text)
    assert np.array_equal(run(made, tmp_path / "x", "a.npy", "-o", "y.npy", files={"a.npy": A}).array("y.npy"), A.T)
    assert run(made, tmp_path / "x", "a.bin", files={"a.bin": A.tobytes()}).json == {"result": A.T.tolist()}


def test_what_the_program_says_of_itself(tmp_path: Path) -> None:
    two = command(TWO)
    shown = run(two, tmp_path / "x", "--signature").json
    assert shown == {
        "name": "two",
        "parameters": [
            {"name": "a", "kind": "input", "type": "f32", "shape": [2, 3]},
            {"name": "b", "kind": "input", "type": "s32", "shape": [3]},
        ],
        "results": [
            {"name": "result.0", "kind": "output", "type": "f32", "shape": [2, 3]},
            {"name": "result.1", "kind": "output", "type": "s32", "shape": [3]},
        ],
    }
    for option in ("--help", "-h"):
        text = run(two, tmp_path / "x", "no.npy", option)
        assert text.code == 0 and text.out.startswith(b"usage: wasmtime run --dir . two.wasm ")
        assert b"\n  a  f32[2,3]\n  b  s32[3]\n" in text.out and all(len(line) <= 132 for line in text.out.splitlines())
    missing = run(two, tmp_path / "x", "a.npy", files={"a.npy": A})
    assert missing.code == 2 and missing.err.startswith("two: b: this input is missing\n\nusage: ") and "  b  s32[3]\n" in missing.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["a.npy", "b.npy", "a.npy"], 2, "two: a.npy: the model takes no further input\n\nusage: "),
        (["a.npy", "--z", "b.npy"], 2, "two: --z: there is no such option or input\n\nusage: "),
        (["a.npy", "--b"], 2, "two: --b: there is no such option, or its value is missing\n\nusage: "),
        (["--a", "a.npy", "--a", "a.npy"], 2, "two: a: this input is given twice\n\nusage: "),
        (["a.npy", "b.npy", "--repeat", "x"], 2, "two: --repeat: a whole number is wanted\n\nusage: "),
        (["a.npy", "missing.npy"], 1, "two: missing.npy: there is no such file\n"),
        (["a.npy", "/etc/passwd"], 1, "two: /etc/passwd: no folder was opened in which this lies; try `wasmtime run --dir .`\n"),
        (["a.npy", "../a.npy"], 1, "two: ../a.npy: this file cannot be read\n"),
        (["a.npy", "b.npy", "-o", "no/y.npz"], 1, "two: no/y.npz: its folder does not exist\n"),
        (["b.npy", "a.npy"], 1, "two: b.npy: input a f32[2,3]: this has s32[3]\n"),
        (["a.npy", "x.npy"], 1, "two: x.npy: input b s32[3]: this has s32[2]\n"),
        (["a.npy", "u.npy"], 1, "two: u.npy: input b s32[3]: this has another type[3]\n"),
        (["a.npy", "b.txt"], 1, "two: b.txt: input b s32[3]: this is not a number\n"),
    ],
)
def test_mistakes(arguments: list[str], code: int, message: str, tmp_path: Path) -> None:
    files: dict[str, Any] = {"a.npy": A, "b.npy": B, "x.npy": B[:2], "b.txt": b"what", "u.npy": np.array(["a", "b", "c"])}
    done = run(command(TWO), tmp_path / "x", *arguments, files=files)
    assert done.code == code and done.err.startswith(message), done.err


def test_random_inputs_and_repeated_runs(tmp_path: Path) -> None:
    two = command(TWO)
    first, again = (run(two, tmp_path / "x", "--random").json for _ in range(2))
    assert first == again and first != run(two, tmp_path / "x", "--seed", "7").json
    timed = run(two, tmp_path / "x", "--random", "--repeat", "5")
    assert timed.json == first and timed.err.startswith("two: 5 runs: fastest ")
    drawn = np.array(run(command(identity("f32[4000]")), tmp_path / "x", "--random").json["result"])
    assert abs(drawn.mean()) < 0.1 and abs(drawn.std() - 1) < 0.1
    for element_type in ARRAY_TYPES:
        assert run(command(identity(f"{element_type}[64]")), tmp_path / "x", "--random").code == 0


def test_batches(tmp_path: Path) -> None:
    two = command(TWO)
    files: dict[str, Any] = {"b.npy": B, **{f"imgs/{i}.npy": A + i for i in (3, 1, 10, 2)}, "imgs/x.txt": b"no", "imgs/.npy": b"no"}
    done = run(two, tmp_path / "x", "--batch", "imgs/*.npy", "--b", "b.npy", files=files)
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["file"] for line in lines] == ["imgs/1.npy", "imgs/10.npy", "imgs/2.npy", "imgs/3.npy"]
    assert lines[1]["result.0"] == (SUM + 10).tolist()
    written = run(two, tmp_path / "x", "--batch", "imgs/?.npy", "--b", "b.npy", "-o", "out", files=files)
    assert np.array_equal(written.array("out/2.result.0.npy"), SUM + 2) and not (written.folder / "out" / "10.result.0.npy").exists()
    one = run(command(identity("f32[2,3]")), tmp_path / "x", "--batch", "imgs/*.npy", "-o", "out/", files=files)
    assert np.array_equal(one.array("out/10.npy"), A + 10)
    none = run(two, tmp_path / "x", "--batch", "imgs/*.png", "--b", "b.npy", files=files)
    assert (none.code, none.err) == (1, "two: imgs/*.png: no file fits\n")
    many = {f"many/{i:04}.txt": str(i).encode() for i in range(500)}
    done = run(command(identity("s32[]")), tmp_path / "x", "--batch", "many/*", files=many)
    assert [json.loads(line)["result"] for line in done.out.splitlines()] == list(range(500))


def test_infeed_and_outfeed(tmp_path: Path) -> None:
    text = """HloModule feeds

ENTRY e {
  t = token[] after-all()
  i = ((f32[3], s32[]), token[]) infeed(t)
  v = (f32[3], s32[]) get-tuple-element(i), index=0
  x = f32[3] get-tuple-element(v), index=0
  n = s32[] get-tuple-element(v), index=1
  u = token[] get-tuple-element(i), index=1
  j = (f32[3], token[]) infeed(u)
  y = f32[3] get-tuple-element(j), index=0
  w = token[] get-tuple-element(j), index=1
  z = f32[3] add(x, y)
  o = token[] outfeed(z, w), outfeed_shape=f32[3]
  p = token[] outfeed(n, o), outfeed_shape=s32[]
  ROOT r = s32[] negate(n)
}
"""
    made = command(text)
    files = {"0.npz": npz(a=np.array([1, 2, 3], np.float32), b=np.array(7, np.int32)), "1.npy": np.array([10, 20, 30], np.float32)}
    done = run(made, tmp_path / "x", "--infeed", "0.npz", "--infeed=1.npy", "--outfeed", "out/", "--repeat", "2", files=files)
    assert done.json == {"result": -7}
    assert done.array("out/0.npy").tolist() == [11, 22, 33] and done.array("out/1.npy") == 7
    short = run(made, tmp_path / "x", "--infeed", "0.npz", files=files)
    assert (short.code, short.err) == (3, "feeds: the run needs a further item of infeed: --infeed FILE\n")
    wrong = run(made, tmp_path / "x", "--infeed", "1.npy", files=files)
    assert (wrong.code, wrong.err) == (1, "feeds: 1.npy: the item has other arrays: an .npz file has to have them all, in order\n")


def test_what_needs_a_host_is_no_command() -> None:
    call = """HloModule c

ENTRY e {
  x = f32[3] parameter(0)
  ROOT y = f32[3] custom-call(x), custom_call_target="mine"
}
"""
    with pytest.raises(UnsupportedError, match="y: it calls a function of the host, which a command cannot do; compile it as a module"):
        command(call, host_calls=("mine",))


def test_hosts_say_what_a_command_is(tmp_path: Path) -> None:
    made = command(TWO)
    with pytest.raises(
        ArtifactError, match="'two' is compiled as a command, which runs by itself under a WebAssembly runtime; compile it without"
    ):
        xla_wasm.load(made)
    path = made.save(tmp_path / "two.wasm")
    shown = CliRunner().invoke(cli.app, ["inspect", str(path)], env={"COLUMNS": "200"})
    assert shown.exit_code == 0 and "command" in shown.output and "wasi_snapshot_preview1.fd_read" in shown.output
    script = f"import {{ load }} from {json.dumps((ROOT / 'web' / 'xla_wasm.js').as_uri())}; await load({json.dumps(str(path))});"
    failed = subprocess.run([node_for("simd128"), "--input-type=module", "-e", script], capture_output=True, text=True, timeout=60)
    assert "ArtifactError: 'two' is compiled as a command, which runs by itself; compile it without --kind for a host" in failed.stderr


def test_dynamic_dimensions(tmp_path: Path) -> None:
    text = """HloModule d

ENTRY e {
  x = f32[<=5,4] parameter(0)
  ROOT y = f32[<=5,4] negate(x)
}
"""
    made = command(text)
    for rows in (0, 1, 3, 5):
        x = np.arange(4 * rows, dtype=np.float32).reshape(rows, 4)
        y = run(made, tmp_path / "x", "x.npy", "-o", "y.npy", files={"x.npy": x}).array("y.npy")
        assert y.shape == (rows, 4) and np.array_equal(y, -x)
        assert run(made, tmp_path / "x", "-", stdin=json.dumps(x.tolist()).encode()).json == {"result": (-x).tolist()}
        assert run(made, tmp_path / "x", "x.bin", files={"x.bin": x.tobytes()}).json == {"result": (-x).tolist()}
    long = run(made, tmp_path / "x", "x.npy", files={"x.npy": np.zeros((6, 4), np.float32)})
    assert (long.code, long.err) == (1, "d: x.npy: input x f32[<=5,4]: this has f32[6,4]\n")
    assert run(made, tmp_path / "x", "x.bin", files={"x.bin": bytes(20)}).code == 1


def test_damaged_files_are_errors(tmp_path: Path) -> None:
    """Whatever a file holds, the program ends with a message, and neither traps nor runs on for ever."""
    rng = np.random.default_rng(0)
    two = command(TWO)
    goods = {"npz": npz(a=A, b=B), "deflated": npz(True, a=A, b=B), "npy": npy(A), "json": json.dumps(A.tolist()).encode()}
    codes = set()
    for turn in range(600):
        kind = list(goods)[turn % 4]
        data = bytearray(goods[kind])
        if turn % 3 == 0:
            data = data[: int(rng.integers(len(data)))]
        for _ in range(int(rng.integers(1, 4))):
            if data:
                data[int(rng.integers(len(data)))] = int(rng.integers(256))
        given = ["x"] if kind in ("npz", "deflated") else ["x", "b.npy"]
        done = run(two, tmp_path / "x", *given, files={"x": bytes(data), "b.npy": B})
        assert done.code in (0, 1, 2) and (done.code == 0) == (not done.err), (turn, done)
        codes.add(done.code)
    assert codes >= {0, 1}
