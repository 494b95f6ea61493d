"""Commands: numbers and names as text, read and written."""

from __future__ import annotations

import json
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.bodies import npy
from tests.support.wasi_commands import command, identity, run
from xla_wasm.hlo.ir import Module


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
    assert run(command(identity("c64[2]")), tmp_path / "x", "-", stdin=b"[[1,2],[3,4]]").json == {
        "result": [[1, 2], [3, 4]]
    }
    assert run(command(identity("c64[2]")), tmp_path / "x", "-", stdin=b"1 2 3 4").json == {"result": [[1, 2], [3, 4]]}
    assert run(command(identity("c64[]")), tmp_path / "x", "-", stdin=b"[1,-2]").json == {"result": [1, -2]}
    assert run(command(identity("pred[3]")), tmp_path / "x", "-", stdin=b"[true,false,1]").json == {
        "result": [True, False, True]
    }
    assert run(command(identity("s64[2]")), tmp_path / "x", "-", stdin=b"[-9223372036854775808, 1e3]").json == {
        "result": [-(2**63), 1000]
    }
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
        ("f32[3]", '{"\\x": [1, 2, 3]}', "the JSON object has no name in quotes here, or too long a one"),
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
