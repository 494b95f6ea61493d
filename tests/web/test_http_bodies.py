"""Bodies and answers of a served model, under workerd: lists, archives and forms of any shape, and what is refused,
with which words."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support.bodies import JSON, NPY, NPZ, RAW, load_npy, load_npz, multipart, npy, npz
from tests.support.embedding_cases import RANGED
from tests.support.miniflare import ask, identity, post, serving, write_worker

MIXED = {"a": "f32", "b": "s64", "c": "pred", "d": "c64"}
FORM = "multipart/form-data; boundary=x"
X = np.arange(6, dtype=np.float32).reshape(2, 3) / 4


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    shapes = {"scalar": "", "matrix": "2,3", "empty": "2,0", "dynamic": "<=4,3", "twice": "<=2,<=3"}
    models = {
        f"{name}-{type_}": identity({"x": type_}, shape) for name, shape in shapes.items() for type_ in ("f32", "c64")
    }
    models |= {f"matrix-{type_}": identity({"x": type_}, "2,3") for type_ in ("s64", "u64", "s8", "pred", "s4", "bf16")}
    models |= {
        "mixed": identity(MIXED, "2"),
        "odd": identity({'a "name"': "f32", "__proto__": "f32"}, "2"),
        "row": identity({"x": "f32"}, "3"),
        "ranged": xla_wasm.HloModule.from_text(RANGED),
    }
    folder = tmp_path_factory.mktemp("bodies")
    write_worker(folder, models)
    with serving(folder) as address:
        yield address


@pytest.mark.parametrize(
    "model, value, want",
    [
        ("scalar-f32", 2.5, 2.5),
        ("scalar-f32", [2.5], 2.5),
        ("scalar-f32", {"x": 2.5}, 2.5),
        ("scalar-f32", "NaN", "NaN"),
        ("scalar-f32", -0.0, -0.0),
        ("scalar-f32", 3.4028235e38, 3.4028235e38),
        ("scalar-c64", [1, -2], [1, -2]),
        ("scalar-c64", [[1, "Infinity"]], [1, "Infinity"]),
        ("matrix-f32", X.tolist(), X.tolist()),
        ("matrix-f32", X.ravel().tolist(), X.tolist()),
        ("matrix-f32", {"x": X.ravel().tolist()}, X.tolist()),
        ("matrix-c64", [[i, -i] for i in range(6)], [[[0, 0], [1, -1], [2, -2]], [[3, -3], [4, -4], [5, -5]]]),
        (
            "matrix-s64",
            [[2**63 - 1, -(2**63), 2**53 + 1], [1.0, 1e3, -0]],
            [[2**63 - 1, -(2**63), 2**53 + 1], [1, 1000, 0]],
        ),
        ("matrix-u64", [[2**64 - 1, 0, 2**63], [1, 2, 3]], [[2**64 - 1, 0, 2**63], [1, 2, 3]]),
        ("matrix-pred", [[True, 0, 1], [False, 1, 0]], [[True, False, True], [False, True, False]]),
        ("matrix-s4", [[-8, 7, 0], [1, 2, 3]], [[-8, 7, 0], [1, 2, 3]]),
        ("matrix-bf16", [[0.1, 9e-41, 3e38], ["-Infinity", "NaN", -1]], [[0.1, 9e-41, 3e38], ["-Infinity", "NaN", -1]]),
        ("empty-f32", [[], []], [[], []]),
        ("empty-f32", [], [[], []]),
        ("dynamic-f32", [[1, 2, 3]], [[1, 2, 3]]),
        ("dynamic-f32", [], []),
        ("dynamic-c64", [[[1, 2], [3, 4], [5, 6]]] * 4, [[[1, 2], [3, 4], [5, 6]]] * 4),
        ("twice-f32", [[1], [2]], [[1], [2]]),
        ("row", [1, 2, 3], [1, 2, 3]),
    ],
)
def test_lists(model: str, value: Any, want: Any, url: str) -> None:
    answer = post(f"{url}{model}/", value)
    assert answer.status == 200, answer
    assert answer.json == {"result": want}
    if want == 0:
        assert np.signbit(answer.json["result"]) == np.signbit(want)


@pytest.mark.parametrize(
    "model, value, status, details, says",
    [
        ("matrix-f32", [[1, 2, 3]], 422, {"expected": "f32[2,3]", "given": "f32[1,3]"}, "got f32[1,3]"),
        ("matrix-f32", [1, 2, 3], 422, {"given": "f32[3]"}, "got f32[3]"),
        ("matrix-f32", 1, 422, {"given": "f32[]"}, "got f32[]"),
        ("matrix-f32", None, 422, {"given": "null"}, "got null"),
        ("matrix-f32", "x", 422, {"given": "a string"}, "got a string"),
        (
            "matrix-f32",
            [[1, 2, 3], [4, 5]],
            422,
            {"expected": "f32[2,3]"},
            "x[1] is a list of 2, others are lists of 3",
        ),
        ("matrix-f32", [[1, 2, 3], 4], 422, {}, "x[1] is a number"),
        ("matrix-f32", [[1, 2, 3], [4, 5, [6]]], 422, {}, "x[1][2] is a list, which f32 does not have"),
        ("matrix-f32", [[1, 2, 3], [4, None, 6]], 422, {}, "x[1][1] is null"),
        ("matrix-f32", [[1, 2, 3], [4, True, 6]], 422, {}, "x[1][1] is true"),
        ("matrix-f32", [[1, 2, 3], [4, "5", 6]], 422, {}, 'x[1][1] is "5"'),
        ("matrix-f32", [[1, 2, 3], [4, 1e39, 6]], 422, {}, "x[1][1] is 1e+39"),
        ("matrix-f32", [[[[[1]]]]], 422, {"given": "f32[1,1,1]"}, "got f32[1,1,1]"),
        ("matrix-f32", {"y": [[1, 2, 3]] * 2}, 422, {"field": "y"}, "no input 'y'; it takes 'x': f32[2,3]"),
        ("matrix-f32", {}, 422, {"field": "x", "expected": "f32[2,3]"}, "'x' is missing"),
        ("matrix-f32", {"x": [[1, 2, 3]] * 2, "y": 1}, 422, {"field": "y"}, "no input 'y'"),
        ("matrix-s8", [[1, 2, 3], [4, 128, 6]], 422, {}, "x[1][1] is 128, which s8 does not have"),
        ("matrix-s8", [[1, 2, 3], [4, 1.5, 6]], 422, {}, "x[1][1] is 1.5"),
        ("matrix-s8", [[1, 2, 3], [4, "NaN", 6]], 422, {}, 'x[1][1] is "NaN"'),
        ("matrix-s4", [[1, 2, 3], [4, 8, 6]], 422, {}, "x[1][1] is 8"),
        ("matrix-s64", [[1, 2, 3], [4, 2**63, 6]], 422, {}, "x[1][1] is 9223372036854775808"),
        ("matrix-u64", [[1, 2, 3], [4, -1, 6]], 422, {}, "x[1][1] is -1"),
        ("matrix-pred", [[1, 2, 0], [1, 1, 1]], 422, {}, "x[0][1] is 2"),
        (
            "matrix-c64",
            [[1, 2, 3]] * 2,
            422,
            {"expected": "c64[2,3]"},
            "each number is a list of its real and its imaginary part",
        ),
        (
            "dynamic-f32",
            [[1, 2, 3]] * 5,
            422,
            {"expected": "f32[<=4,3]", "given": "f32[5,3]"},
            "must be f32[<=4,3]; got f32[5,3]",
        ),
        ("dynamic-f32", [1, 2, 3], 422, {"given": "f32[3]"}, "got f32[3]"),
        ("empty-f32", [[1], [2]], 422, {"given": "f32[2,1]"}, "got f32[2,1]"),
        ("mixed", [1, 2], 422, {}, "takes 4 inputs, so the body must be an object with 'a': f32[2], 'b': s64[2]"),
        ("mixed", {"a": [1, 2], "b": [1, 2], "c": [1, 1]}, 422, {"field": "d", "expected": "c64[2]"}, "'d' is missing"),
        ("odd", {"__proto__": [1, 2]}, 422, {"field": 'a "name"'}, "is missing"),
    ],
)
def test_lists_that_do_not_fit(
    model: str, value: Any, status: int, details: dict[str, str], says: str, url: str
) -> None:
    answer = post(f"{url}{model}/", value)
    assert answer.status == status and says in answer.error["message"], answer
    assert details.items() <= answer.error.items()
    if "expected" in details and model != "mixed":
        assert answer.error["field"] == "x"


@pytest.mark.parametrize(
    "type_, body, status, says",
    [
        (JSON, b"", 400, "the body is empty"),
        (JSON, b"  \n", 400, "the body is empty"),
        (JSON, b"[1, 2", 400, "the body is not JSON: "),
        (JSON, b"\xff\xfe", 400, "the body is not UTF-8"),
        (JSON, b"[[1,2,3],[4,5,NaN]]", 400, "the body is not JSON"),
        ("application/x-www-form-urlencoded", b"{}", 415, "with curl -d add -H 'Content-Type: application/json'"),
        ("text/plain", b"1", 415, "does not read 'text/plain': send application/json, application/x-npy"),
        (NPY, b"", 400, "does not begin with '\\x93NUMPY'"),
        (NPY, npy(X)[:8], 400, "ends in the middle of the header"),
        (NPY, npy(X)[:60], 400, "ends in the middle of the header"),
        (NPY, npy(X)[:-1], 400, "the body ends early: f32[2,3] takes 24 bytes, and there are 23"),
        (NPY, npy(X) + b"\0", 400, "goes on after its end"),
        (NPY, b"\x93NUMPY\x07" + npy(X)[7:], 400, "version 7"),
        (NPY, npy(X).replace(b"'fortran_order': False", b"'fortran_order': Maybe"), 400, "its header is {'descr'"),
        (NPY, npy(X).replace(b"(2, 3)", b"(2, x)"), 400, "its header is"),
        (NPY, npy(X[:1]), 422, "must be f32[2,3]; got f32[1,3]"),
        (NPY, npy(X.astype("S3")), 422, "got elements of type '|S3'"),
        (NPY, npy(np.zeros((2, 3), "f4,i4")), 422, "got records"),
        (NPY, npy(X.astype("M8[s]")), 422, "got elements of type '<M8[s]'"),
        (NPY, npy(X.astype(np.float64) * 1e39), 422, "x[0][2] is 5e+38, which f32 does not have"),
        (RAW, X.tobytes()[:-1], 400, "ends in the middle of an element: f32 takes 4 bytes, and there are 23"),
        (RAW, X.tobytes()[:-4], 422, "must be f32[2,3]; got f32[5]"),
        (RAW, X.tobytes() + b"\0", 413, "the body has 25 bytes, and the inputs can need 24 at most"),
        (NPZ, b"", 400, "it has no directory at its end"),
        (NPZ, npz(x=X)[:-30], 400, "not a zip archive, or damaged"),
        (NPZ, npz(y=X), 422, "no input 'y'"),
        (NPZ, npz(False, X, X), 422, "no input 'arr_1'"),
        (FORM, b"", 400, "the form ends early"),
        (FORM, b"--x\r\n\r\n1\r\n--x--", 400, "has no name"),
        (FORM, b'--x\r\nContent-Disposition: form-data; name="x"\r\n\r\n1 2 3', 400, "the form ends early"),
        (
            FORM,
            b'--xy\r\nContent-Disposition: form-data; name="x"\r\n\r\n1 2 3\r\n--x--',
            400,
            "something else than a line",
        ),
        ("multipart/form-data", b"--x", 400, "has no boundary"),
        (FORM, b'--x\r\nContent-Disposition: form-data; name="x"\r\n\r\n1 2 y\r\n--x--', 400, "'y' is not a number"),
        (FORM, b'--x\r\nContent-Disposition: form-data; name="x"\r\n\r\n1 2\r\n--x--', 422, "got f32[2]"),
        (FORM, b'--x\r\nContent-Disposition: form-data; name="z"\r\n\r\n1 2\r\n--x--', 422, "no input 'z'"),
    ],
)
def test_bodies_that_cannot_be_read(type_: str, body: bytes, status: int, says: str, url: str) -> None:
    answer = post(f"{url}matrix-f32/", body, type_)
    assert answer.status == status and says in answer.error["message"], answer
    assert post(f"{url}matrix-f32/", X).status == 200


@pytest.mark.parametrize("depth", [40, 3_000])
def test_lists_in_lists_in_lists(depth: int, url: str) -> None:
    """However deep they go."""
    deep = b"[" * depth + b"]" * depth
    for at in ("matrix-f32", "matrix-s64", "matrix-c64"):
        for body in (
            deep,
            b"[[1,2,3],[4,5," + deep + b"]]",
            b"[[1,2,3],[12345678901234567890,5," + deep + b"]]",
            b'{"x":' * 500 + b"1" + b"}" * 500,
        ):
            answer = post(f"{url}{at}/", body)
            if depth > 40 and at == "matrix-s64" and b"1234567890" in body:
                assert answer.status == 400 and "too deep" in answer.error["message"]
            else:
                assert answer.status == 422 and answer.error["message"], answer


def test_numpy_s_files(url: str) -> None:
    """Every version of the format, scalars and rows, archives with names, without, and deflated."""
    at = f"{url}matrix-f32/"
    for version in ((1, 0), (2, 0), (3, 0)):
        file = BytesIO()
        np.lib.format.write_array(file, X, version=version)
        assert load_npy(post(at, file.getvalue(), NPY).body).tobytes() == X.tobytes()
    assert load_npy(post(f"{url}scalar-f32/", npy(np.array(2.5, ">f8")), NPY).body) == np.float32(2.5)
    row = load_npy(post(f"{url}row/", npy(X[0]), NPY).body)
    assert row.shape == (3,) and row.tobytes() == X[0].tobytes()
    arrays = {
        "a": X[0, :2],
        "b": np.array([2**60, -1]),
        "c": np.array([True, False]),
        "d": np.array([1j, 2], np.complex64),
    }
    for body in (npz(**arrays), npz(True, **arrays), npz(False, *arrays.values()), npz(True, *arrays.values())):
        for type_ in (NPZ, "application/zip"):
            answer = post(f"{url}mixed/", body, type_)
            assert answer.status == 200 and answer.headers["content-type"] == NPZ, answer
            got = load_npz(answer.body)
            assert [*got] == [result["name"] for result in ask(f"{url}mixed/").json["results"]]
            for given, back in zip(arrays.values(), got.values()):
                assert back.dtype == given.dtype and (back == given).all()
    with zipfile.ZipFile(BytesIO(answer.body)) as archive:
        assert archive.testzip() is None and {item.compress_type for item in archive.infolist()} == {zipfile.ZIP_STORED}


def test_archives_that_are_wrong(url: str) -> None:
    at = f"{url}matrix-f32/"

    def archive(name: str, data: bytes, method: int = zipfile.ZIP_STORED, times: int = 1) -> bytes:
        file = BytesIO()
        with zipfile.ZipFile(file, "w", method) as made:
            for _ in range(times):
                made.writestr(name, data)
        return file.getvalue()

    stored = archive("x.npy", npy(X))
    assert (
        post(at, stored, NPZ).status == 200
        and post(at, archive("x.npy", npy(X), zipfile.ZIP_DEFLATED), NPZ).status == 200
    )
    damaged = stored.replace(X.tobytes(), X.tobytes()[::-1])
    cases = [
        (damaged, 400, "the content of 'x.npy' is not what it was"),
        (archive("x.npy", npy(X), zipfile.ZIP_BZIP2), 400, "compressed by method 12"),
        (archive("x.npy", bytes(10_000_000), zipfile.ZIP_DEFLATED), 413, "the files in the archive have more than the"),
        (archive("x.txt", npy(X)), 422, "no input 'x.txt'"),
        (archive("x.npy", b"1 2 3"), 400, "'x' in the archive is not an npy file"),
    ]
    with pytest.warns(UserWarning, match="Duplicate name"):
        cases.append((archive("x.npy", npy(X), times=2), 400, "'x.npy' is in the archive twice"))
    for body, status, says in cases:
        answer = post(at, body, NPZ)
        assert answer.status == status and says in answer.error["message"], answer
    # A comment may follow the directory.
    commented = bytearray(stored)
    commented[-2:] = (3).to_bytes(2, "little")
    assert post(at, bytes(commented) + b"abc", NPZ).status == 200


def test_forms(url: str) -> None:
    """Parts of every kind, as browsers and programs send them."""
    one = X[0, :2].astype(np.float64)
    ways: list[list[tuple[str, str, str, bytes]]] = [
        [("a", "", "", b"0 0.25")],
        [("a", "", "text/plain; charset=utf-8", b"0,\r\n0.25\n")],
        [("a", "", JSON, b"[0, 0.25]")],
        [("a", "", "", b"[0, 0.25]")],
        [("a", "a.npy", "application/octet-stream", npy(one))],
        [("a", "a.npy", "", npy(one))],
        [("a", "", NPY, npy(one))],
        [("a", "a.bin", "application/octet-stream", X[0, :2].tobytes())],
        [("a", "a.json", "application/octet-stream", b"[0,0.25]")],
        [("a", "a.txt", "text/plain", b"0 .25e0")],
        [("a", "", "", b""), ("a", "a.npy", "application/octet-stream", npy(one))],
        [("a", "", "", b"0 0.25"), ("a", "", "application/octet-stream", b"")],
    ]
    others = [("b", "", "", b"1152921504606846977 -1"), ("c", "", "", b"true 0"), ("d", "", "", b"0 1 2 -inf")]
    for parts in ways:
        body, type_ = multipart([*parts, *others])
        answer = post(f"{url}mixed/", body, type_)
        assert answer.status == 200, (parts, answer)
        assert [*answer.json.values()] == [[0, 0.25], [2**60 + 1, -1], [True, False], [[0, 1], [2, "-Infinity"]]]
    body, type_ = multipart([('a "name"', "", "", b"1 2"), ("__proto__", "", "", b"3 4")])
    assert [*post(f"{url}odd/", body, type_).json.values()] == [[1, 2], [3, 4]]
    for parts, status, says in (
        ([("a", "", "", b"1 2")] * 2, 422, "'a' is in the form twice"),
        ([("a", "a.png", "image/png", b"1 2")], 415, "'image/png'"),
        ([("a", "", "", b"1 2 3")], 422, "must be f32[2]; got f32[3]"),
        ([("a", "", "", b"")], 422, "'a' is missing"),
    ):
        body, type_ = multipart([*parts, *others])
        answer = post(f"{url}mixed/", body, type_)
        assert answer.status == status and says in answer.error["message"] and answer.error["field"] == "a", answer


def test_dynamic_dimensions(url: str) -> None:
    at = f"{url}dynamic-f32/"
    for rows in range(5):
        x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        assert load_npy(post(at, x).body).tobytes() == x.tobytes() == post(at, x.tobytes(), RAW).body
        assert load_npy(post(at, np.asfortranarray(x.astype(">f8"))).body).shape == (rows, 3)
        assert post(at, x.tobytes(), RAW, Accept=JSON).json == {"result": x.tolist()}
    assert post(at, bytes(60), RAW).status == 413 and post(at, bytes(16), RAW).status == 422
    twice = post(f"{url}twice-f32/", bytes(12), RAW)
    assert twice.status == 422 and "they do not say what the sizes are" in twice.error["message"]
    assert ask(f"{url}twice-f32/").json["inputs"] == [{"name": "x", "type": "f32", "shape": ["<=2", "<=3"]}]


def test_any_byte_but_zero_is_true(url: str) -> None:
    data = bytes([255, 0, 1, 2, 128, 254])
    array = np.frombuffer(data, np.bool_).reshape(2, 3)
    for body, type_ in ((npy(array), NPY), (npy(np.asfortranarray(array)), NPY), (data, RAW)):
        assert post(f"{url}matrix-pred/", body, type_, Accept=RAW).body == bytes([1, 0, 1, 1, 1, 1])
    assert post(f"{url}matrix-f32/", npy(array), NPY, Accept=JSON).json == {"result": [[1, 0, 1], [1, 1, 1]]}


def test_ranges_of_sizes(url: str) -> None:
    at = f"{url}ranged/"
    assert ask(at).json["inputs"] == [{"name": "x", "type": "f32", "shape": ["4..8", 3]}]
    for rows in (0, 3, 4, 8, 9):
        x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        answers = [post(at, x, Accept=JSON), post(at, x.tobytes(), RAW, Accept=JSON), post(at, x.tolist())]
        if rows in (4, 8):
            assert all(answer.json == {"result": (-x).tolist()} for answer in answers), answers
        else:
            assert all(answer.status in (413, 422) for answer in answers), answers
            assert f"must be f32[4..8,3]; got f32[{rows}," in answers[0].error["message"]


@pytest.mark.parametrize(
    "model, body, accept, type_",
    [
        ("row", JSON, None, JSON),
        ("row", NPY, None, NPY),
        ("row", NPZ, "*/*", NPZ),
        ("row", RAW, "", RAW),
        ("row", RAW, "application/*", RAW),
        ("row", JSON, "application/x-npy", NPY),
        ("row", JSON, "application/octet-stream", RAW),
        ("row", JSON, "application/zip", "application/zip"),
        ("row", JSON, "text/html, application/x-npz;q=0.5, application/json;q=0.4", NPZ),
        ("row", JSON, "*/*;q=0.1, application/json;q=0", NPZ),
        ("row", NPY, "application/json, */*;q=0.5", JSON),
        ("row", NPY, 'Application/JSON; charset="utf-8"; q=1', JSON),
        ("row", JSON, "text/html", 406),
        ("row", JSON, "application/json;q=0", 406),
        ("row", JSON, "image/*", 406),
        ("mixed", JSON, "application/x-npy", 406),
        ("mixed", JSON, "application/octet-stream, application/x-npz;q=0.1", NPZ),
    ],
)
def test_accept(model: str, body: str, accept: str | None, type_: str | int, url: str) -> None:
    x = X[0]
    sent = {JSON: json.dumps(x.tolist()).encode(), NPY: npy(x), NPZ: npz(x=x), RAW: x.tobytes()}[body]
    if model == "mixed":
        sent = json.dumps({"a": [0, 0.25], "b": [0, 0], "c": [0, 0], "d": [[0, 0], [0, 0]]}).encode()
    answer = post(f"{url}{model}/", sent, body, **({} if accept is None else {"Accept": accept}))
    if type_ == 406:
        assert answer.status == 406 and "application/x-npz" in answer.error["message"]
        assert ("4 results, which do not go into one array" in answer.error["message"]) == (model == "mixed")
        return
    assert answer.status == 200 and answer.headers["content-type"] == type_, answer
    got = {
        JSON: lambda: np.array([*answer.json.values()][0]),
        NPY: lambda: load_npy(answer.body),
        RAW: lambda: np.frombuffer(answer.body, "f4"),
    }.get(str(type_), lambda: [*load_npz(answer.body).values()][0])()
    assert (got == x[: len(got)]).all() and answer.headers["content-length"] == str(len(answer.body))
