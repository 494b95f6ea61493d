"""The verifier: sound modules pass, whatever breaks a rule is named, and nothing makes it fail in another way."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from copy import copy
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from tests.support.hlo_modules import NAMES, all_modules, lowered, zeros
from xla_wasm.builder import Builder, module, scalar_computation
from xla_wasm.errors import UnsupportedError, VerifyError
from xla_wasm.hlo.ir import Computation, Instruction, Module
from xla_wasm.hlo.proto.module import from_proto
from xla_wasm.hlo.shape import UNBOUNDED, Layout, Shape
from xla_wasm.hlo.verify import MAX_CALL_DEPTH, verify

F32 = Shape("f32")
VECTOR = Shape("f32", (4,))


def _loss(weights: Any, x: Any, y: Any) -> Any:
    for w in weights:
        x = jnp.tanh(x @ w)
    return jnp.mean((jax.nn.log_softmax(x) - y) ** 2)


def _convolutions(w: Any, x: Any) -> Any:
    x = lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jnp.sum(lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return jnp.einsum("hqk,khd->qhd", jax.nn.softmax(jnp.einsum("qhd,khd->hqk", q, k)), v).sum()


def _updates(x: Any, i: Any) -> Any:
    return x.at[i].add(1.0).at[:, i[0]].set(3.0).at[i].max(x[i] * 2)


def _draws(key: Any) -> Any:
    return jax.random.normal(key, (3,)), jax.random.randint(key, (4,), 0, 5), jax.random.permutation(key, 7)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "gradient of a perceptron": (jax.grad(_loss), ([zeros(4, 8), zeros(8, 3)], zeros(5, 4), zeros(5, 3))),
    "gradient of a convolution": (jax.grad(_convolutions, (0, 1)), (zeros(3, 3, 2, 4), zeros(2, 8, 8, 2))),
    "gradient of attention": (jax.grad(_attention, (0, 1, 2)), (zeros(5, 3, 4),) * 3),
    "scan": (jax.grad(lambda x: lax.scan(lambda c, a: (jnp.sin(c + a), c * a), zeros(3), x)[0].sum()), (zeros(7, 3),)),
    "while loop": (lambda n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2.0), (0, 1.0)), (5,)),
    "switch": (
        lambda i, x: lax.switch(i, [jnp.cos, lambda x: x * 2, jnp.sin], x) + lax.cond(i > 0, jnp.sin, jnp.exp, x),
        (1, zeros(3)),
    ),
    "gather": (jax.grad(lambda x, i: x[i].sum()), (zeros(5, 3), jnp.array([0, 2]))),
    "batched gather": (jax.vmap(lambda x, i: x[i]), (zeros(5, 3), jnp.array([0, 2, 1, 0, 0]))),
    "scatter": (_updates, (zeros(5, 3), jnp.array([0, 2]))),
    "sort": (lambda x: (jnp.sort(x), jnp.argsort(x), lax.top_k(x, 2), jnp.median(x)), (zeros(5),)),
    "random": (_draws, (jax.random.PRNGKey(0),)),
    "random bits": (
        lambda k: jax.random.bits(jax.random.wrap_key_data(k, impl="rbg"), (3, 5)),
        (jnp.zeros(4, jnp.uint32),),
    ),
    "fft": (lambda x: (jnp.fft.rfft2(x), jnp.fft.irfft(jnp.fft.fft(x)), abs(jnp.fft.fftn(x))), (zeros(5, 6),)),
    "linear algebra": (lambda x: jnp.linalg.solve(x, x) + jnp.linalg.cholesky(x), (zeros(5, 5),)),
    "cumulative": (lambda x: (jnp.cumsum(x), lax.cummax(x), jnp.argmax(x), jnp.nonzero(x, size=3)), (zeros(6),)),
    "bfloat16": (lambda x: (x @ x.T).sum() + jnp.mean(x) + jnp.var(x), (jnp.ones((4, 4), jnp.bfloat16),)),
    "small integers": (lambda x: lax.dot(x, x, preferred_element_type=jnp.int32), (jnp.ones((4, 4), jnp.int8),)),
}


@cache
def program(name: str) -> bytes:
    function, args = PROGRAMS[name]
    return lowered(function, *args)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_sound(name: str) -> None:
    verify(from_proto(program(name)))


@pytest.mark.parametrize("name", NAMES)
def test_modules_are_sound(name: str) -> None:
    verify(from_proto(all_modules()[name]))


def test_it_is_fast() -> None:
    b = Builder("long")
    x = b.parameter(0, Shape("f32", (8, 8)))
    for _ in range(1000):
        x = b.add(b.tanh(b.dot(x, x)), b.reshape(b.transpose(x, (1, 0)), (8, 8)))
    long = b.module(x)
    start = time.thread_time()
    verify(long)
    assert time.thread_time() - start < 1


def _small() -> Module:
    """A module with a loop, a reduction, a tuple and aliases, to be damaged."""
    state = Shape.tuple([Shape("s32"), VECTOR])
    b = Builder("body")
    s = b.parameter(0, state)
    i, x = b.get_tuple_element(s, 0), b.get_tuple_element(s, 1)
    body = b.build(b.tuple(b.add(i, b.constant(1, "s32")), b.multiply(x, x)))
    b = Builder("condition")
    s = b.parameter(0, state)
    condition = b.build(b.compare(b.get_tuple_element(s, 0), b.constant(3, "s32"), "LT"))
    b = Builder("main")
    x = b.parameter(0, VECTOR)
    loop = b.while_(b.tuple(b.constant(0, "s32"), x), condition, body)
    total = b.reduce(b.get_tuple_element(loop, 1), 0.0, "add")
    result = b.module(b.tuple(total, b.negate(x)))
    result.input_output_alias = [((1,), 0, (), "may-alias")]
    result.parameter_shapes = [VECTOR]
    return result


def _find(module: Module, opcode: str, nth: int = 0) -> Instruction:
    return [i for i in module.instructions() if i.opcode == opcode][nth]


def _recurse(m: Module) -> None:
    body = _find(m, "while").called[0]
    m.computations.remove(body)
    m.computations.append(body)


def _swap_operands_order(m: Module) -> None:
    instructions = m.entry.instructions
    instructions.append(instructions.pop(instructions.index(_find(m, "reduce"))))


def _nested() -> Shape:
    shape = F32
    for _ in range(3000):
        shape = Shape.tuple([shape])
    return shape


DAMAGES: dict[str, tuple[Callable[[Module], Any], str]] = {
    "unknown opcode": (
        lambda m: setattr(_find(m, "negate"), "opcode", "frob"),
        r"frob 'negate': the opcode is unknown",
    ),
    "too few operands": (
        lambda m: _find(m, "multiply").operands.pop(),
        "multiply 'multiply': it takes 2 operands, not 1",
    ),
    "missing attribute": (
        lambda m: _find(m, "reduce").attrs.pop("dimensions"),
        "reduce 'reduce': attribute dimensions is missing",
    ),
    "attribute of a wrong type": (
        lambda m: _find(m, "reduce").attrs.update(dimensions=0),
        "attribute dimensions cannot be 0",
    ),
    "attribute without a value": (
        lambda m: _find(m, "constant").attrs.update(literal=None),
        "attribute literal is missing",
    ),
    "called computation missing": (lambda m: _find(m, "while").called.pop(), "it calls 2 computations, not 1"),
    "called computation too many": (
        lambda m: _find(m, "negate").called.append(m.computations[0]),
        "it calls no computation, but has 1",
    ),
    "callee after caller": (_recurse, "must not form a cycle"),
    "computation that calls itself": (
        lambda m: _find(m, "while").called.__setitem__(0, m.entry),
        "must not form a cycle",
    ),
    "computation listed twice": (lambda m: m.computations.append(m.computations[0]), "is listed twice"),
    "entry not listed": (lambda m: m.computations.remove(m.entry), "the entry computation 'main' is not among"),
    "user before operand": (_swap_operands_order, "operand 'reduce' comes later in computation 'main'"),
    "operand of another computation": (
        lambda m: _find(m, "negate").operands.__setitem__(0, _find(m, "multiply")),
        "'multiply' is not in computation 'main'",
    ),
    "control predecessor later": (
        lambda m: _find(m, "while").control_predecessors.append(m.entry.root),
        "control predecessor 'tuple.1' comes later",
    ),
    "instruction listed twice": (
        lambda m: m.entry.instructions.append(_find(m, "negate")),
        "negate 'negate': it stands twice",
    ),
    "root of another computation": (
        lambda m: setattr(m.entry, "root", _find(m, "multiply")),
        "its root 'multiply' is not among",
    ),
    "parameters numbered with a gap": (
        lambda m: m.entry.instructions[0].attrs.update(parameter_number=1),
        r"are numbered \[1\]",
    ),
    "wrong declared shape": (
        lambda m: setattr(_find(m, "negate"), "shape", F32),
        r"declared as f32\[\], but it is f32\[4\]",
    ),
    "negative size": (
        lambda m: setattr(_find(m, "negate"), "shape", Shape("f32", (-1,))),
        "its shape has a dimension of size -1",
    ),
    "unbounded size": (
        lambda m: setattr(_find(m, "negate"), "shape", Shape("f32", (UNBOUNDED,))),
        "has an unbounded dimension",
    ),
    "too large": (
        lambda m: setattr(_find(m, "negate"), "shape", Shape("f32", (1 << 21, 1 << 21))),
        "has more than 2\\^40 elements",
    ),
    "one dimension too large": (
        lambda m: setattr(_find(m, "negate"), "shape", Shape("f32", (0, 1 << 50))),
        "has a dimension of size",
    ),
    "too many dimensions": (
        lambda m: setattr(_find(m, "negate"), "shape", Shape("f32", (1,) * 100)),
        "has 100 dimensions",
    ),
    "too many flags": (
        lambda m: setattr(_find(m, "negate"), "shape", Shape("f32", (4,), None, (True, True))),
        "2 dynamic flags for 1",
    ),
    "wrong layout": (
        lambda m: setattr(_find(m, "negate"), "shape", Shape("f32", (4,), Layout((1,)))),
        "layout that is no permutation",
    ),
    "nested too deep": (lambda m: setattr(_find(m, "negate"), "shape", _nested()), "nests tuples deeper than 64"),
    "array with elements": (
        lambda m: setattr(_find(m, "negate"), "shape", Shape("f32", (4,), tuple_shapes=(F32,))),
        "array with tuple elements",
    ),
    "tuple with dimensions": (
        lambda m: setattr(_find(m, "negate"), "shape", Shape("tuple", (4,))),
        "is a tuple with dimensions",
    ),
    "token with elements": (
        lambda m: setattr(_find(m, "negate"), "shape", Shape("token", tuple_shapes=(F32,))),
        "is a token with elements",
    ),
    "fault inside a tuple": (
        lambda m: setattr(_find(m, "negate"), "shape", Shape.tuple([F32, Shape("f32", (-2,))])),
        "at tuple index 1",
    ),
    "buffer": (
        lambda m: setattr(_find(m, "negate"), "shape", Shape("buffer", tuple_shapes=(F32,))),
        "is a reference to a buffer",
    ),
    "signature too long": (
        lambda m: m.parameter_shapes.append(F32),
        "signature has 2 parameters, the entry computation has 1",
    ),  # type: ignore[union-attr]
    "signature of another shape": (
        lambda m: setattr(m, "parameter_shapes", [F32]),
        r"parameter 0 is f32\[\], but f32\[4\]",
    ),
    "signature with a wrong layout": (
        lambda m: setattr(m, "parameter_shapes", [Shape("f32", (4,), Layout((2,)))]),
        "layout that is no permutation",
    ),
    "result of another shape": (lambda m: setattr(m, "result_shape", F32), "the result is"),
    "alias of a missing output": (
        lambda m: m.input_output_alias.append(((2,), 0, (), "may-alias")),
        "is no array of the module",
    ),
    "alias of another size": (
        lambda m: m.input_output_alias.append(((0,), 0, (), "may-alias")),
        r"output \(0,\) is f32\[\], parameter 0",
    ),
    "two aliases": (lambda m: m.input_output_alias.append(((1,), 0, (), "may-alias")), "has two aliases"),
    "donor that does not exist": (lambda m: m.buffer_donor.append((3, ())), "buffer_donor: parameter 3"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damages_are_named(damage: str) -> None:
    module = _small()
    verify(module)
    change, message = DAMAGES[damage]
    change(module)
    expected = UnsupportedError if damage in ("unknown opcode", "unbounded size", "buffer") else VerifyError
    with pytest.raises(expected, match=message):
        verify(module)


def test_layouts_do_not_count() -> None:
    m = _small()
    m.result_shape = Shape.tuple([F32, Shape("f32", (4,), Layout((0,)))])
    _find(m, "negate").shape = Shape("f32", (4,), Layout((0,)))
    verify(m)


def test_reducers_may_mix_precisions() -> None:
    b = Builder("main")
    x = b.parameter(0, Shape("bf16", (4, 3)))
    total = b.reduce(x, 0.0, scalar_computation("add", "f32"), [1])
    assert total.shape == Shape("f32", (4,))
    verify(b.module())
    with pytest.raises(VerifyError, match="C4"):
        b.reduce(x, 0.0, scalar_computation("add", "f64"), [1])


def test_calls_nest_to_a_limit() -> None:
    inner: Computation | None = None
    for level in range(MAX_CALL_DEPTH + 1):
        b = Builder(f"level{level}")
        x = b.parameter(0, F32)
        if level == MAX_CALL_DEPTH:
            assert inner is not None
            verify(module("deep", inner))
        inner = b.build(b.call(x, called=[inner]) if inner else b.negate(x))
    assert inner is not None
    with pytest.raises(VerifyError, match="nest deeper than 100"):
        verify(module("deep", inner))


_RANDOM_SHAPES = (
    *(Shape("f32", dims) for dims in ((), (0,), (1,), (4,), (-1,), (1 << 41,), (2, 3), (UNBOUNDED,))),
    *(Shape(name) for name in ("pred", "s32", "u64", "c64", "token", "opaque", "tuple", "buffer", "bf16")),
    Shape("f32", (4,), Layout((1,))),
    Shape("f32", (4,), None, (True,)),
    Shape.tuple([F32, Shape("token")]),
)


def _garbled(value: Any, r: random.Random) -> Any:
    """An attribute with something in it changed to another value of its type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return r.choice((-1, 0, 1, 2, 7, value + 1, -(2**63), 2**63 - 1))
    if isinstance(value, str):
        return r.choice(("", "EQ", "nonsense"))
    if isinstance(value, tuple):
        items = list(value)
        match r.randrange(4):
            case 0:
                items.append(r.choice(items) if items else r.choice((0, 1, -1)))
            case 1 if items:
                del items[r.randrange(len(items))]
            case 2 if items:
                r.shuffle(items)
            case _ if items:
                at = r.randrange(len(items))
                items[at] = _garbled(items[at], r)
        return tuple(items)
    if is_dataclass(value) and not isinstance(value, type | Shape):
        name = r.choice(fields(value)).name
        return replace(value, **{name: _garbled(getattr(value, name), r)})
    return r.choice((None, 0, "", ()))


def _damage(module: Module, r: random.Random) -> None:
    instruction = r.choice(list(module.instructions()))
    anything = r.choice(list(module.instructions()))
    match r.randrange(9):
        case 0:
            instruction.shape = r.choice((*_RANDOM_SHAPES, anything.shape))
        case 1:
            instruction.opcode = anything.opcode
        case 2 if instruction.operands:
            instruction.operands.pop(r.randrange(len(instruction.operands)))
        case 3:
            instruction.operands.append(r.choice((instruction, anything)))
        case 4 if instruction.operands:
            instruction.operands[r.randrange(len(instruction.operands))] = anything
        case 5:
            instruction.called = r.choice(
                ([], [r.choice(module.computations)], instruction.called * 2, anything.called)
            )
        case 6:
            instruction.opcode, instruction.attrs = anything.opcode, dict(anything.attrs)
        case 7:
            instruction.operands = list(anything.operands)
        case _ if instruction.attrs:
            name = r.choice(list(instruction.attrs))
            instruction.attrs[name] = _garbled(instruction.attrs[name], r)


@pytest.mark.parametrize("name", [*PROGRAMS, *NAMES])
def test_nothing_but_its_errors(name: str) -> None:
    """Damaged at random, a module is refused or stays sound, and every message tells where the fault is."""
    data = program(name) if name in PROGRAMS else all_modules()[name]
    r = random.Random(name)
    for _ in range(60):
        module = from_proto(data)
        for _ in range(r.randrange(1, 3)):
            _damage(module, r)
        try:
            verify(module)
        except (VerifyError, UnsupportedError) as error:
            assert re.search(r"'|signature|alias", str(error)) and len(str(error)) < 2000


def test_copies_of_instructions_are_others() -> None:
    m = _small()
    m.entry.instructions[1] = copy(m.entry.instructions[1])
    with pytest.raises(VerifyError, match="is not in computation"):
        verify(m)
