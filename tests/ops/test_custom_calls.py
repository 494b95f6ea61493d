"""Custom calls: expansions, functions of the host, and what is built in."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support.closeness import assert_all, equal
from tests.support.node_host import node_for
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.toy_artifact import lying, write_lies
from xla_wasm import ArgumentError, Artifact, ArtifactError, Options, RunError, UnsupportedError, VerifyError
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.ops.custom import expand_registry as registry
from xla_wasm.writing.writer import Writer

X = np.array([3, 1, 2], np.float32)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = dict(registry._registered)
    yield
    registry._registered.clear()
    registry._registered.update(before)


def module(body: str, parameters: str = "x: f32[3]") -> Module:
    """A module of one computation; `body` is its instructions, a line each."""
    listed = [
        f"  {name} = {shape} parameter({i})"
        for i, (name, shape) in enumerate(p.split(": ") for p in parameters.split("; "))
    ]
    return Module.from_text(
        "HloModule m\n\nENTRY e {\n"
        + "\n".join([*listed, *("  " + line for line in body.strip().split("\n"))])
        + "\n}\n"
    )


def twice(e: Writer, x: Instruction) -> Instruction:
    return e.add(x.operands[0], x.operands[0])


CALL = 'ROOT y = f32[3] custom-call(x), custom_call_target="my_target"'


def run(
    m: Module, *args: Any, functions: dict[str, Callable[..., Any]] | None = None, **options: Any
) -> list[np.ndarray[Any, Any]]:
    """Returns the results of the compiled module, which must be those of the reference evaluator."""
    functions = functions or {}
    artifact = xla_wasm.compile(m, Options(host_calls=tuple(functions), **options))
    results = xla_wasm.load(artifact, custom_calls=functions).run(*args)
    expected = xla_wasm.evaluate(m, *args, custom_calls=functions)
    assert_all(results, expected, equal)
    return results


# --- expansions
# ---------------------------------------------------------------------------------------------------------


def test_an_expansion() -> None:
    xla_wasm.custom_call("my_target")(twice)
    np.testing.assert_array_equal(run(module(CALL), X), [X + X])


def test_an_expansion_may_write_loops_and_other_custom_calls() -> None:
    @xla_wasm.custom_call("power")
    def power(e: Writer, x: Instruction) -> Instruction:
        return e.for_(3, [x.operands[0]], lambda e, i, v: [e.mul(v, x_of(e, v))])[0]

    def x_of(e: Writer, v: Instruction) -> Instruction:
        return e.op("custom-call", v, shape=v.shape, custom_call_target="my_target")

    xla_wasm.custom_call("my_target")(twice)
    np.testing.assert_array_equal(
        run(module('ROOT y = f32[3] custom-call(x), custom_call_target="power"'), X), [128 * X**8]
    )


def test_an_expansion_sees_what_the_call_carries() -> None:
    @xla_wasm.custom_call("scale")
    def scale(e: Writer, x: Instruction) -> Instruction:
        return e.mul(x.operands[0], json.loads(x.attrs["backend_config"])["factor"])

    body = 'ROOT y = f32[3] custom-call(x), custom_call_target="scale", backend_config="{\\"factor\\": 5}"'
    np.testing.assert_array_equal(run(module(body), X), [5 * X])


def test_an_expansion_of_several_results() -> None:
    @xla_wasm.custom_call("both")
    def both(e: Writer, x: Instruction) -> Instruction:
        return e.tuple([twice(e, x), e.unary("negate", x.operands[0])])

    body = """c = (f32[3], f32[3]) custom-call(x), custom_call_target="both"
        a = f32[3] get-tuple-element(c), index=0
        b = f32[3] get-tuple-element(c), index=1
        ROOT d = f32[3] subtract(a, b)"""
    np.testing.assert_array_equal(run(module(body), X), [3 * X])


def test_unknown_targets_say_what_to_do() -> None:
    with pytest.raises(
        UnsupportedError,
        match=r"custom-call 'y'.*'my_target' is unknown.*custom_call\('my_target'\).*host_calls=\('my_target',\)",
    ):
        xla_wasm.compile(module(CALL))
    with pytest.raises(UnsupportedError, match=r"'my_target' is unknown.*custom_calls=\{'my_target': function\}"):
        xla_wasm.evaluate(module(CALL), X)


def test_a_target_has_one_meaning() -> None:
    xla_wasm.custom_call("my_target")(twice)
    xla_wasm.custom_call("my_target")(twice)
    with pytest.raises(ArgumentError, match="have a meaning already"):
        xla_wasm.custom_call("my_target")(lambda e, x: x.operands[0])
    with pytest.raises(ArgumentError, match="have a meaning already"):
        xla_wasm.custom_call("TopK")(twice)
    xla_wasm.custom_call("my_target", replace=True)(lambda e, x: x.operands[0])
    np.testing.assert_array_equal(run(module(CALL), X), [X])


@pytest.mark.parametrize("target", ["", None, twice])
def test_the_decorator_needs_a_target(target: Any) -> None:
    with pytest.raises(ArgumentError, match="needs the name of a target"):
        xla_wasm.custom_call(target)


def test_expansions_that_go_wrong() -> None:
    with pytest.raises(ArgumentError, match="needs a function"):
        xla_wasm.custom_call("my_target")(3)  # type: ignore[arg-type]

    wrong: dict[str, Callable[[Writer, Instruction], Any]] = {
        r"must return an instruction, not None": lambda e, x: None,
        r"gives f32\[1\], not f32\[3\]": lambda e, x: e.slice(x.operands[0], (0,), (1,)),
        r"failed: ZeroDivisionError": lambda e, x: 1 // 0,
    }
    for message, rule in wrong.items():
        xla_wasm.custom_call("my_target", replace=True)(rule)
        with pytest.raises(UnsupportedError, match=rf"custom-call 'y'.*'my_target' {message}"):
            xla_wasm.compile(module(CALL))


def test_the_order_of_registrations_changes_nothing() -> None:
    script = """
import sys, xla_wasm
def one(e, x): return e.add(x.operands[0], 1)
def two(e, x): return e.mul(x.operands[0], 2)
rules = [("one", one), ("two", two)]
for target, rule in rules[:: int(sys.argv[1])]:
    xla_wasm.custom_call(target)(rule)
text = '''HloModule m

ENTRY e {
  x = f32[3] parameter(0)
  y = f32[3] custom-call(x), custom_call_target="one"
  ROOT z = f32[3] custom-call(y), custom_call_target="two"
}
'''
artifact = xla_wasm.compile(xla_wasm.HloModule.from_text(text))
sys.stdout.buffer.write(artifact.wasm)
"""
    outputs = [
        subprocess.run([sys.executable, "-c", script, step], capture_output=True, check=True).stdout
        for step in ("1", "-1")
    ]
    assert outputs[0] == outputs[1] and outputs[0][:4] == b"\0asm"


# --- functions of the host
# ------------------------------------------------------------------------------------------------


def test_a_function_of_the_host() -> None:
    seen = []

    def function(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        seen.append(x)
        return np.sort(x)

    body = """d = f32[3] add(x, x)
        c = f32[3] custom-call(d), custom_call_target="my_target"
        ROOT r = f32[3] negate(c)"""
    exe = xla_wasm.load(
        xla_wasm.compile(module(body), Options(host_calls=("my_target",))), custom_calls={"my_target": function}
    )
    np.testing.assert_array_equal(exe.run(X), [[-2, -4, -6]])
    np.testing.assert_array_equal(exe.run(-X), [[6, 4, 2]])
    np.testing.assert_array_equal(seen, [2 * X, -2 * X])
    assert [r.target for r in exe.manifest.requests] == ["my_target"]


def test_a_host_call_goes_before_an_expansion() -> None:
    xla_wasm.custom_call("my_target")(twice)
    artifact = xla_wasm.compile(module(CALL), Options(host_calls=("my_target",)))
    np.testing.assert_array_equal(xla_wasm.load(artifact, custom_calls={"my_target": lambda x: x + 1}).run(X), [X + 1])


def test_every_kind_of_operand_and_result() -> None:
    parameters = "a: pred[2]; b: s8[2,2]; c: c64[2]; d: (f64[], u16[3]); t: token[]"
    body = """r = (pred[2], (s8[2,2]{0,1}, c64[2]), f64[], token[], u16[0]) custom-call(a, b, c, d, t), custom_call_target="f"
        s = (s8[2,2], c64[2]) get-tuple-element(r), index=1
        k = token[] get-tuple-element(r), index=3
        p = pred[2] get-tuple-element(r), index=0
        ROOT o = (pred[2], (s8[2,2], c64[2]), token[]) tuple(p, s, k)"""  # noqa: E501
    args = (
        np.array([True, False]),
        np.array([[1, 2], [3, 4]], np.int8),
        np.array([1 + 2j, 3j], np.complex64),
        np.float64(2.5),
        np.zeros(3, np.uint16),
    )

    def f(*operands: np.ndarray[Any, Any]) -> tuple[Any, ...]:
        assert [(o.dtype, o.shape) for o in operands] == [(np.asarray(a).dtype, np.shape(a)) for a in args]
        a, b, c, d, _ = operands
        return ~a, b.T.copy(), c * np.complex64(d), d, np.zeros(0, np.uint16)

    results = run(module(body, parameters), *args, functions={"f": f})
    np.testing.assert_array_equal(results[0], [False, True])
    np.testing.assert_array_equal(results[1], args[1].T)
    np.testing.assert_array_equal(results[2], args[2] * np.complex64(2.5))


LOOP = """HloModule m

body {
  s = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[3] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[3] custom-call(x), custom_call_target="f"
  z = f32[3] add(y, y)
  ROOT t = (s32[], f32[3]) tuple(j, z)
}

condition {
  s = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY e {
  i = s32[] parameter(0)
  x = f32[3] parameter(1)
  s = (s32[], f32[3]) tuple(i, x)
  ROOT w = (s32[], f32[3]) while(s), condition=condition, body=body
}
"""


def test_a_request_in_a_loop() -> None:
    calls = []

    def f(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        calls.append(x.copy())
        return x + np.float32(1)

    m = Module.from_text(LOOP)
    exe = xla_wasm.load(xla_wasm.compile(m, Options(host_calls=("f",))), custom_calls={"f": f})
    i, x = exe.run(np.int32(0), X)
    np.testing.assert_array_equal(x, ((X + 1) * 2 + 1) * 4 + 2)
    assert i == 3 and len(calls) == 3
    np.testing.assert_array_equal(exe.run(np.int32(3), X)[1], X)
    assert len(calls) == 3
    spent = exe.profile(np.int32(0), X)
    assert len(calls) == 6 and any(name == "y" for name, _ in spent)
    np.testing.assert_array_equal(exe.run(np.int32(1), X)[1], ((X + 1) * 2 + 1) * 2)


EFFECTS = """a = f32[3] custom-call(x), custom_call_target="log", custom_call_has_side_effect=true, backend_config="first"
n = f32[3] negate(x)
b = f32[3] custom-call(n), custom_call_target="log", custom_call_has_side_effect=true, backend_config="second"
m = f32[3] multiply(n, n)
c = f32[3] custom-call(m), custom_call_target="log", backend_config="unused"
d = f32[3] custom-call(m), custom_call_target="log", custom_call_has_side_effect=true, backend_config="third"
ROOT r = f32[3] add(n, b)"""  # noqa: E501


def test_side_effects_happen_once_and_in_order() -> None:
    said = []

    def log(x: np.ndarray[Any, Any], *, opaque: str) -> np.ndarray[Any, Any]:
        said.append(opaque)
        return x

    exe = xla_wasm.load(xla_wasm.compile(module(EFFECTS), Options(host_calls=("log",))), custom_calls={"log": log})
    np.testing.assert_array_equal(exe.run(X), [-2 * X])
    assert said == ["first", "second", "third"]


def test_a_function_that_is_missing() -> None:
    artifact = xla_wasm.compile(module(CALL), Options(host_calls=("my_target",)))
    for given in (None, {}, {"other": np.sort}, {"my_target": 3}):
        with pytest.raises(
            ArgumentError,
            match=r"'m' calls 'my_target', which takes \(float32\[3\]\) and gives "
            r"\(float32\[3\]\).*custom_calls=\{'my_target'",
        ):
            xla_wasm.load(artifact, custom_calls=given)  # type: ignore[arg-type]


def test_failures_leave_the_instance_usable() -> None:
    answers: list[Any] = []

    def f(x: np.ndarray[Any, Any]) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    text = LOOP.replace("constant(3)", "constant(2)")
    exe = xla_wasm.load(xla_wasm.compile(Module.from_text(text), Options(host_calls=("f",))), custom_calls={"f": f})
    wrong: list[tuple[Any, type[Exception], str]] = [
        (ValueError("no"), RunError, "custom call 'f' .* failed: ValueError: no"),
        (
            np.zeros(2, np.float32),
            ArgumentError,
            r"result 0 of custom call 'f' .* must be float32\[3\], got float32\[2\]",
        ),
        (np.zeros(3, np.float16), ArgumentError, r"must be float32\[3\], got float16\[3\]"),
        ((X, X), ArgumentError, r"must return 1 array \(float32\[3\]\), not 2 results"),
        (None, ArgumentError, "result 0"),
    ]
    for answer, kind, message in wrong:
        answers[:] = [X, answer]
        with pytest.raises(kind, match=message) as caught:
            exe.run(np.int32(0), X)
        assert not isinstance(answer, Exception) or caught.value.__cause__ is answer
        answers[:] = [X, X + 5]
        np.testing.assert_array_equal(exe.run(np.int32(0), X)[1], 2 * (X + 5))
        answers[:] = [X, answer]
        with pytest.raises(kind):
            exe.profile(np.int32(0), X)


def test_state_survives_a_function_that_fails() -> None:
    fail = [False]

    def f(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if fail[0]:
            raise ValueError
        return x

    body = """s = f32[3] add(x, k)
        y = f32[3] custom-call(s), custom_call_target="f"
        n = f32[3] add(y, y)
        ROOT r = (f32[3], f32[3]) tuple(y, n)"""
    options = Options(host_calls=("f",), state=(("k", 1),))
    exe = xla_wasm.load(xla_wasm.compile(module(body, "x: f32[3]; k: f32[3]"), options), custom_calls={"f": f})
    exe.set("k", X)
    fail[0] = True
    with pytest.raises(RunError):
        exe.run(X)
    np.testing.assert_array_equal(exe.get("k"), X)
    fail[0] = False
    np.testing.assert_array_equal(exe.run(X), [2 * X])
    np.testing.assert_array_equal(exe.get("k"), 4 * X)


def test_options_for_host_calls() -> None:
    assert Options(host_calls=("b", "a", "b")).host_calls == ("a", "b")
    assert Options(host_calls="abc").host_calls == ("abc",), "one name, and not its letters"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("requests.0.kind", "dance", r"requests\[0\].kind"),
        ("requests.0.target", 3, r"requests\[0\].target"),
        ("requests.0.opaque", None, r"requests\[0\].opaque"),
        ("requests.0.operands.0.offset", 2**31, r"requests\[0\].operands\[0\].offset"),
        ("requests.0.results.0.bytes", 4, r"requests\[0\].results\[0\].bytes"),
        ("requests.0.results.0.kind", "output", r"requests\[0\].results\[0\].kind"),
        ("request", 2**40, "request"),
        ("request", 66, "request"),
        ("stateful", 1, "stateful"),
    ],
)
def test_a_manifest_that_lies_about_requests(path: str, value: Any, message: str) -> None:
    artifact = xla_wasm.compile(module(CALL), Options(host_calls=("my_target",)))
    with pytest.raises(ArtifactError, match=rf"wrong at {message}"):
        xla_wasm.load(lying(artifact, path, value), custom_calls={"my_target": np.sort})


def test_a_request_that_the_manifest_does_not_list() -> None:
    artifact = xla_wasm.compile(module(EFFECTS), Options(host_calls=("log",)))
    manifest = json.loads(json.dumps(artifact.manifest))
    manifest["requests"] = manifest["requests"][:1]
    exe = xla_wasm.load(Artifact(artifact.wasm, manifest), custom_calls={"log": lambda x: x})
    with pytest.raises(ArtifactError, match="makes request 1 of 1"):
        exe.run(X)
    manifest["requests"] = []
    with pytest.raises(RunError, match="stated no requests"):
        xla_wasm.load(Artifact(artifact.wasm, manifest)).run(X)


LIES: tuple[tuple[str, Any], ...] = (
    ("requests.0.kind", "dance"),
    ("requests.0.target", 3),
    ("requests.0.operands.0.offset", 2**31),
    ("requests.0.results.0.bytes", 4),
    ("requests", {}),
    ("request", 2**40),
)


def test_in_node(tmp_path: Path) -> None:
    artifact = xla_wasm.compile(Module.from_text(LOOP), Options(host_calls=("f",)))
    artifact.save(tmp_path / "loop.wasm")
    body = """c = (s64[1], f64[]) custom-call(x, y), custom_call_target="f"
        a = s64[1] get-tuple-element(c), index=0
        b = f64[] get-tuple-element(c), index=1
        ROOT r = (s64[1], f64[]) tuple(a, b)"""
    xla_wasm.compile(module(body, "x: f32[3]; y: s64[1]"), Options(host_calls=("f",))).save(tmp_path / "several.wasm")
    write_lies(artifact, LIES, tmp_path)
    script = ROOT / "tests" / "js" / "custom_calls.test.mjs"
    output([node_for("simd128"), "--test", script], env={"MODULES": str(tmp_path)})


def test_the_document(tmp_path: Path) -> None:
    """The examples of docs/custom_calls.md run as they are written."""
    document = (ROOT / "docs" / "custom_calls.md").read_text()
    blocks = re.findall(r"```(\w+)\n(.*?)```", document, re.DOTALL)
    names: dict[str, Any] = {}
    for language, code in blocks:
        if language == "python":
            exec(code, names)
    names["artifact"].save(tmp_path / "artifact.wasm")
    loader = (ROOT / "web" / "xla_wasm.js").as_uri()
    (example,) = [code for language, code in blocks if language == "js"]
    script = tmp_path / "example.mjs"
    artifact = json.dumps(str(tmp_path / "artifact.wasm"))
    script.write_text(
        f"import {{ load }} from '{loader}';\nconst artifact = {artifact};\n{example}\nconsole.log([...y], [...z]);\n"
    )
    assert output([node_for("simd128"), script]) == "[ 0, 0.5, 1 ] [ 0, 0.5, 1 ]\n"


# --- built in
# -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "xla.sdy.GlobalToLocalShape",
        "annotate_device_placement",
    ],
)
def test_marks_are_the_identity_on_one_device(target: str) -> None:
    np.testing.assert_array_equal(run(module(CALL.replace("my_target", target)), X), [X])
    body = f'ROOT y = (f32[3], f32[3]) custom-call(x, x), custom_call_target="{target}"'
    np.testing.assert_array_equal(run(module(body), X), [X, X])
    with pytest.raises(UnsupportedError, match="needs more than one device"):
        xla_wasm.compile(module(f'ROOT y = f32[6] custom-call(x), custom_call_target="{target}"'))


def test_a_sharding_group_is_nothing() -> None:
    body = """g = () custom-call(x), custom_call_target="xla.sdy.ShardingGroup", custom_call_has_side_effect=true
        ROOT y = f32[3] negate(x)"""
    np.testing.assert_array_equal(run(module(body), X), [-X])


def test_internal_targets_are_not_for_modules() -> None:
    with pytest.raises(UnsupportedError, match="unknown"):
        xla_wasm.compile(module(CALL.replace("my_target", "xla_wasm.getrf")))


TOP_K = """HloModule m

order {
  a = DTYPE[] parameter(0)
  b = DTYPE[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT c = pred[] compare(a, b), direction=WAY
}

ENTRY e {
  x = DTYPE[2,5] parameter(0)
  ROOT y = (DTYPE[2,3], s32[2,3]) custom-call(x), custom_call_target="TopK", called_computations={order}
}
"""


@pytest.mark.parametrize(
    ("dtype", "way"), [*product(("f32", "s32"), ("GT", "LT", "swapped")), ("f32", "GT, type=TOTALORDER")]
)
def test_top_k(dtype: str, way: str) -> None:
    x = np.array([[3, 1, 2, 3, 0], [-1, 5, -7, 2, 2]], {"f32": np.float32, "s32": np.int32}[dtype])
    # Which comparator means the same must not matter: one that is not recognised sorts.
    text = (
        TOP_K.replace("compare(a, b), direction=WAY", "compare(b, a), direction=LT")
        if way == "swapped"
        else TOP_K.replace("WAY", way)
    )
    values, indices = run(Module.from_text(text.replace("DTYPE", dtype)), x)
    largest = not way.startswith("LT")
    np.testing.assert_array_equal(values, [[3, 3, 2], [5, 2, 2]] if largest else [[0, 1, 2], [-7, -1, 2]])
    np.testing.assert_array_equal(indices, [[0, 3, 2], [1, 3, 4]] if largest else [[4, 1, 2], [2, 0, 3]])


def test_top_k_without_a_comparator_takes_the_largest() -> None:
    body = 'ROOT y = (f32[2], s32[2]) custom-call(x), custom_call_target="TopK"'
    values, indices = run(module(body), X)
    np.testing.assert_array_equal(values, [3, 2])
    np.testing.assert_array_equal(indices, [0, 2])


TARGETS = [
    t for t in registry.BUILT_IN if not t.startswith("lapack_") or re.search("_s(potrf|trsm|getrf|geqrf|orgqr)_", t)
]
OPERANDS = (
    "; f32[4,4]; f16[4,4]; f32[4]; f32[4,4] f32[4,4]; f32[4,4] f32[4,4] f32[4,4]; f32[4,4] f32[9]; f32[]; "
    "(f32[4],f32[4])"
)
OPERANDS += (
    "; token[]; f32[2,4] f32[4]; f64[4,4] f64[2,4,4]; f32[<=4,4]; f32[<=4,4] s32[]; f32[4] s32[]; f32[4] f32[]; u4[4,4]"
)
RESULTS = (
    "(f32[4,4], f32[4]); (f16[4,4], f16[4]); (f32[4,4], s32[4], s32[]); (f32[4,4], s32[]); f32[4,4]; "
    "(f32[4,2],s32[4,2]); f32[<=4]"
)
CHARACTERS = "{uplo = 76 : ui8, side = 76 : ui8, diag = 78 : ui8, trans_x = 78 : ui8}"


@pytest.mark.parametrize("target", TARGETS)
def test_built_in_targets_with_any_operands_and_results_compile_or_are_refused(target: str) -> None:
    for shapes, result in product(OPERANDS.split("; "), RESULTS.split("; ")):
        listed = [shapes] if shapes.startswith("(") else shapes.strip("; ").split()
        parameters = "; ".join(f"p{i}: {shape}" for i, shape in enumerate(listed))
        names = ", ".join(f"p{i}" for i in range(len(listed)))
        call = f'ROOT y = {result} custom-call({names}), custom_call_target="{target}", backend_config="{CHARACTERS}"'
        try:
            xla_wasm.compile(
                module(call, parameters) if listed else Module.from_text(f"HloModule m\nENTRY e {{ {call} }}")
            )
        except (UnsupportedError, VerifyError) as error:
            assert "'y" in str(error) or "'p0'" in str(error)


def test_a_factorisation_of_another_type_is_refused_by_name() -> None:
    body = 'ROOT y = (f16[4,4], f16[4]) custom-call(x), custom_call_target="lapack_sgeqrf_ffi"'
    with pytest.raises(
        UnsupportedError, match=r"'y': operand 0 of lapack_sgeqrf_ffi must be matrices of f32, .* not f16\[4,4\]"
    ):
        xla_wasm.compile(module(body, "x: f16[4,4]"))


def test_what_an_expansion_writes_has_operands_as_the_operation_takes_them() -> None:
    xla_wasm.custom_call("my_target")(lambda e, x: e.op("sine", *x.operands, *x.operands))
    with pytest.raises(VerifyError, match="'y': sine cannot have 2 operands"):
        xla_wasm.compile(module(CALL))
