"""Bodies of requests and answers: every element type in every form, there and back, and what does not fit is
refused."""

from __future__ import annotations

import functools
import io
import json
import math
import random
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import seeds
from tests.support.bodies import load_npy, npy, npz
from tests.support.embedding_cases import RANGED
from tests.support.served_models import JSON, Array, ask, error, serving
from xla_wasm.hlo.types import ARRAY_TYPES, TYPES, limits
from xla_wasm.host.arrays import dtype_of
from xla_wasm.host.leaf import Leaf
from xla_wasm.host.manifest import Manifest
from xla_wasm.server import formats
from xla_wasm.server.accept import best
from xla_wasm.server.app import Application
from xla_wasm.server.elements import all_values, shortest
from xla_wasm.server.problems import Problem

NPY, NPZ, RAW = ({"Content-Type": kind} for kind in (formats.NPY, formats.NPZ, formats.RAW))
FLOATS = [name for name in ARRAY_TYPES if TYPES[name].kind == "float"]


def reversing(element_type: str, shape: str = "2,3") -> str:
    """A program that turns an array over, and so hands back the bits that it gets."""
    of = f"{element_type}[{shape}]"
    return f"HloModule turn\nENTRY e {{\n p = {of} parameter(0)\n ROOT r = {of} reverse(p), dimensions={{0}}\n}}\n"


@pytest.fixture(params=ARRAY_TYPES)
def element_type(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def app(element_type: str) -> Iterator[Application]:
    with serving(reversing(element_type)) as made:
        yield made


@functools.cache
def leaf(text: str) -> Leaf:
    """An input of a type such as "f32[<=4,3]"."""
    from tests.support.served_models import compiled

    element_type, _, shape = text.partition("[")
    return Manifest.parse(compiled(reversing(element_type, shape.removesuffix("]"))).manifest).parameters[0]


def values(element_type: str) -> Array:
    """Two rows of three elements, the extremes among them."""
    dtype, kind = dtype_of(element_type), TYPES[element_type].kind
    if kind == "pred":
        return np.array([[True, False, False], [True, True, False]])
    if kind in ("signed", "unsigned"):
        low, high = limits(element_type)
        return (
            np.array([[low, high, 0], [max(low, -1), high // 2, min(high, 1)]], object)
            .astype(np.int64 if low else np.uint64)
            .astype(dtype)
        )
    if element_type == "f8e8m0fnu":
        return np.array([[1, 0.5, math.nan], [2.0**100, 2.0**-127, 8]]).astype(dtype)
    numbers = np.array([[0.1, -0.0, math.pi], [1.5, -2.5, 1 / 3]])
    with np.errstate(all="ignore"):
        made = (numbers + 1j * numbers[::-1] if kind == "complex" else numbers).astype(dtype)
    if TYPES[element_type].bits >= 16:
        made[0, 0], made[1, 2] = math.inf, math.nan
    return made


def bits(array: Array) -> Any:
    """An array's elements as comparable bytes, all NaNs alike."""
    array = np.ascontiguousarray(array)
    if array.dtype.kind == "c":
        array = array.view(array.real.dtype)
    if array.dtype.kind != "b" and array.dtype.isbuiltin != 1 or array.dtype.kind == "f":
        wide = array.astype(np.float64)
        return np.where(np.isnan(wide), "nan", wide.astype(str)).tolist()
    return array.tolist()


def read_npy(data: bytes, element_type: str) -> Array:
    array = load_npy(data)
    return array.view(dtype_of(element_type)) if array.dtype.kind == "V" else array


def test_every_type_goes_there_and_back_as_npy(app: Application, element_type: str) -> None:
    x = values(element_type)
    for body in (npy(x), npy(np.asfortranarray(x))):
        response = ask(app, content=body, headers=NPY)
        assert (response.status_code, response.headers["content-type"]) == (200, formats.NPY), response.text
        back = read_npy(response.content, element_type)
        assert back.dtype == x.dtype and bits(back) == bits(x[::-1])


def test_every_type_goes_there_and_back_as_raw_bytes(app: Application, element_type: str) -> None:
    x = values(element_type)
    response = ask(app, content=x.tobytes(), headers=RAW)
    assert (response.status_code, response.headers["content-type"]) == (200, formats.RAW), response.text
    # The high bits of a narrow integer may be zeros or its sign.
    assert bits(np.frombuffer(response.content, x.dtype).reshape(2, 3)) == bits(x[::-1])


def test_every_type_goes_there_and_back_as_npz(app: Application, element_type: str) -> None:
    x = values(element_type)
    for name in ("p", "arr_0"):
        response = ask(app, content=npz(**{name: x}), headers=NPZ)
        assert (response.status_code, response.headers["content-type"]) == (200, formats.NPZ), response.text
        with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
            assert archive.namelist() == ["result.npy"]
            assert bits(read_npy(archive.read("result.npy"), element_type)) == bits(x[::-1])


def test_every_type_goes_there_and_back_as_json(app: Application, element_type: str) -> None:
    x = values(element_type)
    written = json.loads(formats.write(formats.JSON, [leaf(f"{element_type}[2,3]")], [x]))["p"]
    json.dumps(written, allow_nan=False)
    flat = [item for row in written for item in row]
    for body in (written, flat, {"p": written}):
        response = ask(app, json=body)
        assert response.status_code == 200, response.text
        assert response.json() == {"result": written[::-1]}


def test_every_type_goes_there_as_a_form(app: Application, element_type: str) -> None:
    x = values(element_type)
    expected = ask(app, content=npy(x), headers=NPY | {"Accept": "application/json"}).json()
    listed = json.loads(formats.write(formats.JSON, [leaf(f"{element_type}[2,3]")], [x]))["p"]
    forms: dict[str, tuple[str | None, bytes, str]] = {
        "JSON in a text field": (None, json.dumps(listed).encode(), ""),
        "a part of type JSON": ("x", json.dumps(listed).encode(), "application/json"),
        "a browser's .npy file": ("x.npy", npy(x), "application/octet-stream"),
        "a browser's .npz file": ("x.npz", npz(p=x), "application/octet-stream"),
        "raw bytes": ("x", x.tobytes(), "application/octet-stream"),
    }
    for what, (filename, content, kind) in forms.items():
        response = ask(app, files={"p": (filename, content, kind) if kind else (filename, content)})
        assert (response.status_code, response.json()) == (200, expected), what


@pytest.mark.parametrize("name", [name for name in FLOATS if TYPES[name].bits <= 16])
def test_all_values_of_small_floats_have_the_fewest_digits_that_read_back(name: str) -> None:
    dtype = dtype_of(name)
    raw = np.arange(1 << TYPES[name].bits).astype(np.uint16 if dtype.itemsize == 2 else np.uint8)
    x = raw.view(dtype)
    numbers = np.array(shortest(x))
    with np.errstate(invalid="ignore"):  # NaN
        wide = x.astype(np.float64)
        np.testing.assert_array_equal(numbers.astype(dtype).astype(np.float64), wide)
    finite = np.isfinite(wide)
    for number, value in list(zip(numbers[finite], x[finite]))[:: 1 if len(x) < 300 else 97]:
        digits = len(f"{number:.17g}".strip("-0.").partition("e")[0].replace(".", "").strip("0")) if number else 1
        shorter = float(f"{number:.{max(digits - 2, 0)}e}") if digits > 1 else number
        assert shorter == number or float(np.float64(shorter).astype(dtype)) != float(value), (number, digits)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_f32_reads_back_from_the_digits_that_numpy_would_print(x: float) -> None:
    value = np.float32(x)
    (number,) = shortest(np.array([value]))
    assert np.float32(number) == value and len(repr(number)) <= max(len(repr(float(value))), 3)
    assert number == float(str(value))


@given(st.floats(), st.integers(-(2**63), 2**63 - 1))
def test_doubles_and_long_integers_go_through_json_unchanged(x: float, n: int) -> None:
    for element_type, value in (("f64", x), ("s64", n)):
        of = leaf(f"{element_type}[2,3]")
        array = np.full((2, 3), value, dtype_of(element_type))
        body = formats.write(formats.JSON, [of], [array])
        np.testing.assert_array_equal(formats.Reader([of]).read(formats.JSON, None, body)[0], array)


@pytest.mark.parametrize(
    "source", ["?", "<i1", ">i2", "<u4", ">i8", "<f2", ">f4", "<f8", ">f8", "<c8", ">c16", "<U3", "<M8[s]", "S2"]
)
@pytest.mark.parametrize("wanted", ["pred", "s8", "u16", "s64", "f16", "bf16", "f32", "f64", "c64"])
def test_npy_is_converted_where_numpys_same_kind_would(source: str, wanted: str) -> None:
    of = leaf(f"{wanted}[2,3]")
    dtype = np.dtype(source)
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    # ml_dtypes lets bfloat16 be cast to from anything: it is judged as a float.
    able = np.can_cast(dtype, np.dtype(np.float32) if wanted == "bf16" else dtype_of(wanted), "same_kind")
    if able:
        (read,) = formats.Reader([of]).read(formats.NPY, None, npy(array))
        np.testing.assert_array_equal(read.astype(np.complex128), array.astype(np.complex128))
        assert read.dtype == dtype_of(wanted)
    else:
        with pytest.raises(Problem, match="does not convert") as caught:
            formats.Reader([of]).read(formats.NPY, None, npy(array))
        assert caught.value.status == 422


@pytest.mark.parametrize(
    "wanted, dtype, value",
    [
        ("s8", "<i4", 128),
        ("u8", "<u2", 256),
        ("s32", ">i8", -(2**40)),
        ("s64", "<u8", 2**63),
        ("s4", "i1", 8),
        ("f16", "<f4", 1e6),
    ]
    + [
        ("f32", "<f8", 1e300),
        ("f8e4m3fn", "<f4", math.inf),
        ("f4e2m1fn", "<f4", 7),
        ("c64", "<c16", 1e300j),
        ("bf16", "<f8", -1e300),
    ],
)
def test_values_that_the_type_does_not_have_are_refused(wanted: str, dtype: str, value: complex) -> None:
    of = leaf(f"{wanted}[2,3]")
    with pytest.raises(Problem, match="is not a value of") as caught:
        formats.Reader([of]).read(formats.NPY, None, npy(np.full((2, 3), value, dtype)))
    assert caught.value.status == 422


def test_bytes_that_are_no_element_are_refused() -> None:
    for element_type, byte in (
        ("u4", 16),
        ("s4", 16),
        ("s2", 0xFD),
        ("f4e2m1fn", 0x10),
        ("f6e2m3fn", 0x40),
        ("u1", 2),
    ):
        of = leaf(f"{element_type}[2,3]")
        for kind, body in (
            (formats.RAW, bytes([byte] * 6)),
            (formats.NPY, npy(np.full((2, 3), byte, np.uint8).view("V1"))),
        ):
            with pytest.raises(Problem) as caught:
                formats.Reader([of]).read(kind, None, body)
            assert caught.value.status == 422, (element_type, kind)


def test_any_byte_but_zero_is_true() -> None:
    data = bytes([255, 0, 1, 2, 128, 254])
    array = np.frombuffer(data, np.bool_).reshape(2, 3)
    for wanted in ("pred", "u8", "f32"):
        bodies = {formats.NPY: npy(array)} | ({formats.RAW: data} if wanted == "pred" else {})
        for kind, body in bodies.items():
            (read,) = formats.Reader([leaf(f"{wanted}[2,3]")]).read(kind, None, body)
            assert read.dtype == dtype_of(wanted) and read.astype(np.uint8).tolist() == [[1, 0, 1], [1, 1, 1]]


def test_sizes_of_dynamic_dimensions_come_from_the_array() -> None:
    with serving(reversing("f32", "<=4,3")) as app:
        for rows in range(5):
            x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
            bodies: list[tuple[bytes, dict[str, str]]] = [
                (json.dumps(x.tolist()).encode(), JSON),
                (npy(x), NPY),
                (npz(p=x), NPZ),
                (x.tobytes(), RAW),
            ]
            for body, headers in bodies:
                response = ask(app, content=body, headers=headers | {"Accept": formats.NPY})
                np.testing.assert_array_equal(load_npy(response.content), x[::-1])
        for body, headers in (
            (npy(np.zeros((5, 3), "f4")), NPY),
            (b"[[1,2]]", JSON),
            (b"[1,2,3]", JSON),
            (bytes(16), RAW),
        ):
            assert error(ask(app, content=body, headers=headers), 422)["expected"] == "f32[<=4,3]"
    with serving(reversing("f32", "2,<=4")) as app:
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        assert ask(app, json=x.tolist()).json() == {"result": x[::-1].tolist()}
        assert "raw bytes do not say" in error(ask(app, content=x.tobytes(), headers=RAW), 422)["message"]


def test_ranges_of_sizes() -> None:
    with serving(RANGED) as app:
        assert ask(app, "GET", headers={"Accept": "application/json"}).json()["inputs"][0]["shape"] == ["4..8", 3]
        schema = ask(app, "GET", "/openapi.json").json()["components"]["schemas"]["Inputs"]["properties"]["x"]
        assert (schema["minItems"], schema["maxItems"], schema["items"]["minItems"]) == (4, 8, 3)
        for rows in (0, 3, 4, 8, 9):
            x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
            bodies = ((npy(x), NPY), (x.tobytes(), RAW), (json.dumps(x.tolist()).encode(), JSON))
            for body, headers in bodies:
                response = ask(app, content=body, headers=headers | {"Accept": JSON["Content-Type"]})
                if rows in (4, 8):
                    assert response.json() == {"result": (-x).tolist()}
                elif response.status_code != 413:
                    assert error(response, 422)["expected"] == "f32[4..8,3]"


SCALARS = [
    ("f32", "1.5", 1.5),
    ("s32", "-7", -7),
    ("pred", "true", True),
    ("pred", "1", True),
    ("f32", '"NaN"', "NaN"),
    ("f32", "[2]", 2.0),
]


@pytest.mark.parametrize("element_type, body, result", [*SCALARS, ("c64", "[1,-2]", [1, -2]), ("s32", "3.0", 3)])
def test_scalars_may_stand_bare(element_type: str, body: str, result: object) -> None:
    text = f"HloModule m\nENTRY e {{ p = {element_type}[] parameter(0)\n ROOT r = {element_type}[] copy(p) }}"
    with serving(text) as app:
        assert ask(app, content=body, headers=JSON).json() == {"result": result}


TWO = (
    "HloModule two\nENTRY e {\n a = f32[3] parameter(0)\n b = s32[2] parameter(1)\n ROOT t = (f32[3], s32[2]) "
    "tuple(a, b)\n}\n"
)


def test_several_inputs_and_results_have_names() -> None:
    a, b = np.arange(3, dtype=np.float32), np.array([5, 6], np.int32)
    expected = {"result.0": a.tolist(), "result.1": b.tolist()}
    with serving(TWO) as app:
        wanted = {"Accept": "application/json"}
        assert ask(app, json={"b": b.tolist(), "a": a.tolist()}).json() == expected
        for arrays in ({"a": a, "b": b}, {"arr_0": a, "arr_1": b}):
            assert ask(app, content=npz(**arrays), headers=NPZ | wanted).json() == expected
        assert ask(app, files={"a": (None, b"0 1, 2"), "b": ("b.npy", npy(b))}).json() == expected
        # A browser sends the fields that were left empty too.
        parts = [("a", (None, b"")), ("a", ("a.txt", b"0\n1\n2\n")), ("b", (None, b"5;6")), ("b", ("", b""))]
        assert ask(app, files=parts).json() == expected
        assert error(ask(app, json={"a": [1, 2, 3]}), 422)["field"] == "b"
        assert error(ask(app, json={"a": [1, 2, 3], "b": [1, 2], "c": 1}), 422)["field"] == "c"
        assert "object" in error(ask(app, json=[1, 2, 3]), 422)["message"]
        assert "one array" in error(ask(app, content=npy(a), headers=NPY), 422)["message"]
        message = error(ask(app, json={"a": [1, 2, 3], "b": [1, 2]}, headers={"Accept": formats.NPY}), 406)["message"]
        assert formats.NPZ in message


def test_the_answer_has_the_form_of_the_body_unless_something_else_is_asked_for() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    bodies: dict[str, bytes] = {
        formats.JSON: json.dumps(x.tolist()).encode(),
        formats.NPY: npy(x),
        formats.NPZ: npz(p=x),
        formats.ZIP: npz(p=x),
        formats.RAW: x.tobytes(),
    }
    with serving(reversing("f32")) as app:
        for kind, body in bodies.items():
            for accept in (None, "*/*", "text/html, */*;q=0.1"):
                headers = {"Content-Type": kind.upper() + "; charset=x"} | (
                    {"Accept": accept} if accept else {"Accept": ""}
                )
                assert ask(app, content=body, headers=headers).headers["content-type"] == kind
            for accept in bodies:
                response = ask(app, content=body, headers={"Content-Type": kind, "Accept": f"{accept}, */*;q=0.5"})
                assert response.headers["content-type"] == accept
            error(ask(app, content=body, headers={"Content-Type": kind, "Accept": "image/png"}), 406)
        assert ask(app, content=bodies[formats.JSON], headers={"Accept": ""}).json() == {"result": x[::-1].tolist()}


@pytest.mark.parametrize(
    "header, chosen",
    [
        (None, "a/x"),
        ("*/*", "a/x"),
        ("b/y", "b/y"),
        ("b/y;q=0.5, a/x;q=0.4", "b/y"),
        ("a/*;q=0.2, b/*;q=0.3", "b/y"),
        ("*/*, b/y", "b/y"),
        ("a/x;q=0, */*", "b/y"),
        ("A/X ; Q=1", "a/x"),
        ("c/z", None),
        ("*/*;q=0", None),
        ("b/y;q=what", "b/y"),
        (",,", None),
    ],
)
def test_accept_is_honoured(header: str | None, chosen: str | None) -> None:
    assert best(header, ["a/x", "b/y"]) == chosen


UNREADABLE = [
    (JSON, b""),
    (JSON, b"[1,2"),
    (JSON, b"NaN"),
    (JSON, b"[Infinity]"),
    (JSON, b"\xff\xfe"),
    (JSON, b"[" * 100_000),
    (JSON, b'{"p":1,"p":2}'),
    (NPY, b""),
    (NPY, b"\x93NUMPY\x01\x00"),
    (NPY, b"\x93NUMPY\x09\x00\x10\x00" + b"{" * 16),
    (NPY, npy(np.zeros((2, 3), "f4"))[:-1]),
    (NPY, npy(np.zeros((2, 3), "f4")) + b"x"),
    (NPZ, b""),
    (NPZ, b"PK\x03\x04"),
    (NPZ, npz(p=np.zeros((2, 3), "f4"))[:-30]),
    (RAW, bytes(23)),
    ({"Content-Type": "multipart/form-data"}, b"--x\r\n"),
    ({"Content-Type": "multipart/form-data; boundary=x"}, b'--x\r\nContent-Disposition: form-data; name="p"\r\n\r\n1'),
    ({"Content-Type": "multipart/form-data; boundary=x"}, b"--x\r\nA: b\r\n\r\n1\r\n--x--\r\n"),
    (
        {"Content-Type": "multipart/form-data; boundary=x"},
        b'--x\r\nContent-Disposition: form-data; name="p"\r\n\r\none\r\n--x--\r\n',
    ),
]
UNFIT = [
    (JSON, b"null"),
    (JSON, b"1"),
    (JSON, b"{}"),
    (JSON, b'"x"'),
    (JSON, b"[[1,2,3],[4,5]]"),
    (JSON, b"[[1,2,3],[4,5,[6]]]"),
    (JSON, b"[1,2,3,4,5,null]"),
    (JSON, b"[1,2,3,4,5,true]"),
    (JSON, b'[1,2,3,4,5,"nan"]'),
    (JSON, b'[1,2,3,4,5,{"x":1}]'),
    (JSON, b"[1,2,3,4,5,1e39]"),
    (JSON, b"[1,2,3,4,5,1e999]"),
    (JSON, b"[1,2,3,4,5," + b"9" * 400 + b"]"),
    (JSON, b"[1,2,3,4,5,6,7]"),
    (JSON, b"[[[1,2,3],[4,5,6]]]"),
    (JSON, b'{"q": [1,2,3,4,5,6]}'),
    (NPY, npy(np.zeros((3, 2), "f4"))),
    (NPY, npy(np.zeros((2, 3), "c8"))),
    (NPY, npy(np.zeros((2, 3), "V4"))),
    (NPY, npy(np.zeros((2, 3), [("x", "f4")]))),
    (NPZ, npz(q=np.zeros((2, 3), "f4"))),
    (RAW, bytes(20)),
]


@pytest.mark.parametrize("status, cases", [(400, UNREADABLE), (422, UNFIT)])
def test_bad_bodies_get_the_status_that_says_why(status: int, cases: list[tuple[dict[str, str], bytes]]) -> None:
    with serving(reversing("f32"), max_body=1 << 20) as app:
        for headers, body in cases:
            error(ask(app, content=body, headers=headers), status)
        assert ask(app, json=[1, 2, 3, 4, 5, 6]).status_code == 200


def test_a_pickled_array_is_not_opened() -> None:
    file = io.BytesIO()
    np.save(file, np.full((2, 3), None), allow_pickle=True)
    with serving(reversing("f32")) as app:
        assert "does not convert" in error(ask(app, content=file.getvalue(), headers=NPY), 422)["message"]


def test_an_archive_that_unpacks_to_more_than_the_input_needs_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("p.npy", bytes(10_000_000))
    with serving(reversing("f32")) as app:
        assert error(ask(app, content=file.getvalue(), headers=NPZ), 413)["field"] == "p"


def _spoiled(rng: random.Random, body: bytes) -> bytes:
    """A body with a few bytes changed, cut, doubled or put in."""
    data = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        change = rng.choice("set cut drop double insert".split())
        if change == "set" and at < len(data):
            data[at] = rng.randrange(256)
        elif change == "cut":
            del data[at:]
        elif change == "drop":
            del data[at : at + rng.randint(1, 8)]
        elif change == "double":
            data[at:at] = data[at : at + 16]
        else:
            data[at:at] = rng.randbytes(rng.randint(1, 8))
    return bytes(data)


BOUNDARY = b"--X\r\n"
FORM = (
    BOUNDARY
    + b'Content-Disposition: form-data; name="p"; filename="p.txt"\r\nContent-Type: text/plain\r\n\r\n1 2 3 4 5 6\r\n'
    b"--X--\r\n"
)


@pytest.mark.parametrize("seed", range(seeds.count(2, 8)))
def test_hundreds_of_spoiled_bodies_leave_the_server_healthy(seed: int) -> None:
    rng = random.Random(seed)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    good: list[tuple[dict[str, str], bytes]] = [
        (JSON, json.dumps({"p": x.tolist()}).encode()),
        (NPY, npy(x)),
        (NPZ, npz(p=x)),
        (RAW, x.tobytes()),
        ({"Content-Type": "multipart/form-data; boundary=X"}, FORM),
    ]
    with serving(reversing("f32")) as app:
        before = ask(app, json=x.tolist()).json()
        for _ in range(100):
            headers, body = rng.choice(good)
            response = ask(app, content=_spoiled(rng, body), headers=headers)
            # A body may still be one, and another than it was.
            if response.status_code != 200:
                assert error(response, response.status_code)["status"] in (400, 413, 415, 422), (headers, body)
        assert ask(app, "GET", "/healthz").text == "ok\n"
        assert ask(app, json=x.tolist()).json() == before
        assert 'status="500"' not in ask(app, "GET", "/metrics").text


def test_every_value_of_the_small_types_is_known() -> None:
    assert sorted(set(all_values("f4e2m1fn").tolist())) == [-6, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert all_values("f6e2m3fn").max() == float(ml_dtypes.finfo(ml_dtypes.float6_e2m3fn).max)


def _forms(array: Array) -> dict[str, Callable[[], bytes]]:
    return {formats.NPY: lambda: npy(array), formats.NPZ: lambda: npz(arr_0=array), formats.RAW: array.tobytes}


@pytest.mark.parametrize("shape", ["", "1", "0", "3,0", "2,1,3"])
def test_shapes_of_all_kinds(shape: str) -> None:
    dimensions = [int(size) for size in shape.split(",") if size]
    text = f"HloModule m\nENTRY e {{ p = f32[{shape}] parameter(0)\n ROOT r = f32[{shape}] negate(p) }}"
    x = np.ones(dimensions, np.float32)
    with serving(text) as app:
        for kind, body in _forms(x).items():
            response = ask(app, content=body(), headers={"Content-Type": kind, "Accept": formats.JSON})
            assert response.json() == {"result": (-x).tolist()}, response.text
        assert ask(app, json=x.tolist()).json() == {"result": (-x).tolist()}
