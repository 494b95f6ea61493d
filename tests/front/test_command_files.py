"""Commands: arrays in NumPy's files and in files of bytes, of every type."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.bodies import npy, npz
from tests.support.wasi_commands import SUM, TWO, A, B, as_bytes, command, identity, names, run, samples
from xla_wasm.hlo.float_codes import FORMATS, encode
from xla_wasm.hlo.types import ARRAY_TYPES, TYPES
from xla_wasm.host.arrays import dtype_of


def jsonable(element_type: str, value: Any) -> Any:
    """Returns the JSON value that stands for a value: complex numbers are pairs, NaN and infinities are strings."""
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
    variants = [stored, np.asfortranarray(stored)] + (
        [stored.astype(x.dtype.newbyteorder(">"))] if in_numpy and x.itemsize > 1 else []
    )
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
    shown = (
        np.array(result, object).reshape(-1, 2)
        if TYPES[element_type].kind == "complex"
        else np.array(result, object).reshape(-1)
    )
    with np.errstate(invalid="ignore"):
        wide = (
            x.astype(np.complex128 if TYPES[element_type].kind == "complex" else np.float64)
            if not in_numpy or x.dtype.kind in "fc"
            else x
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
        done = run(
            command(identity(f"{wanted}[2,3]")),
            tmp_path / f"{ord(order)}",
            "x.npy",
            "-o",
            "y.npy",
            files={"x.npy": swapped},
        )
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
            command(identity(shape)),
            tmp_path / "a",
            "x.npy",
            files={"x.npy": np.array(value, np.uint64 if shape[0] == "u" else np.int64)},
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
            assert all(
                np.array_equal(made[key], expected[key]) and made[key].dtype == expected[key].dtype for key in expected
            )
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
        """A file that cannot go back: zipfile puts sizes behind the data."""

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
    assert (
        done.json == {"result": x.tolist()} if wanted is True else done.code == 1 and done.err.endswith(f"{wanted}\n")
    ), done


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
def test_bytes_of_types_narrower_than_a_byte(
    type_: str, content: bytes, wanted: list[int] | None, tmp_path: Path
) -> None:
    done = run(command(identity(type_)), tmp_path / "x", "x.bin", files={"x.bin": content})
    if wanted:
        assert done.json == {"result": wanted}
    else:
        assert done.code == 1 and done.err.endswith("a value is not one of its type\n")


def test_any_byte_but_zero_is_true(tmp_path: Path) -> None:
    data = bytes([255, 0, 1, 2, 128, 254])
    array = np.frombuffer(data, np.bool_)
    for shape, values in (("pred[6]", [True, False, True, True, True, True]), ("f32[6]", [1, 0, 1, 1, 1, 1])):
        made = command(identity(shape))
        assert run(made, tmp_path / "x", "x.npy", files={"x.npy": array}).json == {"result": values}
    assert (
        run(command(identity("pred[6]")), tmp_path / "x", "x.bin", files={"x.bin": data}).json["result"][3:5]
        == [True] * 2
    )


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
