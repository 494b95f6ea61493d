"""The package's own `dataclass` does what the standard library's does, for every form that the package uses."""

from __future__ import annotations

import ast
import copy
import dataclasses
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xla_wasm import dataclass as ours
from xla_wasm.options import Options

SOURCES = sorted(Path(ours.__file__).parent.rglob("*.py"))


def forms(module: Any) -> list[type]:
    """Classes of every form, made by one of the two modules."""
    dataclass: Callable[..., Any] = module.dataclass
    field: Callable[..., Any] = module.field

    @dataclass(frozen=True, slots=True)
    class Point:
        """A point."""

        x: int
        y: int = 2

        @property
        def sum(self) -> int:
            return self.x + self.y

    @dataclass(frozen=True, slots=True)
    class Named(Point):
        name: str = field(default="none", kw_only=True)

    @dataclass(slots=True)
    class Growing:
        x: int
        items: list[int] = field(default_factory=list)
        late: int = field(init=False)

    @dataclass(eq=False, slots=True)
    class Single:
        x: int = 1

    @dataclass(frozen=True)
    class Checked:
        x: int
        y: int = 0

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("x is below zero")
            object.__setattr__(self, "y", self.x + self.y)

    @dataclass(frozen=True, slots=True)
    class Derived:
        x: int
        y: int = field(default=0, compare=False)
        double: int = field(init=False, repr=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "double", 2 * self.x)

    @dataclass
    class Plain:
        x: int
        y: tuple[int, ...] = ()

        def __repr__(self) -> str:
            return f"plain {self.x}"

    return [Point, Named, Growing, Single, Checked, Derived, Plain]


def compiled(kind: type) -> type:
    """The class with the `__init__` that it has after many instances."""
    keywords = {"Named": {"name": "n"}}.get(kind.__name__, {})
    for _ in range(ours.FEW + 1):
        kind(1, **keywords)
    assert kind.__init__.__code__.co_varnames[:2] == ("self", "x")  # type: ignore[misc]
    return kind


PAIRS = list(zip([*forms(ours), *map(compiled, forms(ours))], [*forms(dataclasses), *forms(dataclasses)]))
each_form = pytest.mark.parametrize(
    ("own", "standard"), PAIRS, ids=[f"{own.__name__}{i}" for i, (own, _) in enumerate(PAIRS)]
)
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    *(((), {}), ((1,), {}), ((1, 3), {}), ((1, 3, 5), {}), ((-1,), {}), ((1,), {"x": 2})),
    *(((), {"y": 1}), ((), {"x": 4}), ((4,), {"y": 5}), ((4,), {"name": "four"}), ((2,), {"z": 1}), ((2, [1]), {})),
]


def outcome(call: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Returns the value of a call, or the type of its error."""
    try:
        return call(*args, **keywords)
    except (AttributeError, TypeError, ValueError) as error:
        return type(error)


@each_form
@pytest.mark.parametrize(("args", "keywords"), CALLS)
def test_instances_are_the_same(own: Any, standard: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    x, y = outcome(own, *args, **keywords), outcome(standard, *args, **keywords)
    assert isinstance(x, own) == isinstance(y, standard)
    if not isinstance(x, own):
        assert x == y
        return
    assert outcome(repr, x) == outcome(repr, y)
    if "late" not in own.__annotations__:
        again, other = own(*args, **keywords), standard(*args, **keywords)
        assert (x == again, x != again) == (y == other, y != other)
        assert (x == 1) is (y == 1) is False
        assert isinstance(outcome(hash, x), int) == isinstance(outcome(hash, y), int)
    for name in ("x", "y"):
        assert outcome(setattr, x, name, 7) == outcome(setattr, y, name, 7)
        assert outcome(getattr, x, name) == outcome(getattr, y, name)
        assert outcome(delattr, x, name) == outcome(delattr, y, name)


@each_form
def test_classes_are_the_same(own: Any, standard: Any) -> None:
    for name in ("__match_args__", "__slots__", "__doc__", "__qualname__", "x", "y"):
        if name != "__doc__" or own.__doc__:
            mine, theirs = getattr(own, name, None), getattr(standard, name, None)
            assert mine == theirs or type(mine) is type(theirs)


def test_defaults_are_made_for_each_instance() -> None:
    growing: Any = forms(ours)[2]
    first, second = growing(1), growing(1)
    first.items.append(3)
    assert (first.items, second.items, hasattr(first, "late")) == ([3], [], False)


def test_equal_values_hash_alike_and_others_differ() -> None:
    point: Any = forms(ours)[0]
    assert {point(1), point(1, 2), point(1, 3)} == {point(1, 2), point(1, 3)}
    assert point(1) != forms(ours)[1](1)


def test_a_field_may_take_no_part_in_comparisons() -> None:
    derived: Any = forms(ours)[5]
    assert derived(1, 2) == derived(1, 3) != derived(2, 2)
    assert (hash(derived(1, 2)), derived(4).double) == (hash(derived(1, 3)), 8)
    assert dataclasses.replace(derived(1, 2), x=3).double == 6


def test_a_value_that_holds_itself_prints() -> None:
    growing: Any = forms(ours)[2]
    x = growing(1)
    x.late = 0
    x.items.append(x)
    assert "..." in repr(x)


def test_the_standard_functions_work_on_options() -> None:
    options = Options(tune="v8", weights=("w",))
    assert [f.name for f in dataclasses.fields(options)][:3] == ["target", "tune", "weights"]
    assert dataclasses.asdict(options)["weights"] == ("w",)
    for replaced in (dataclasses.replace(options, target="relaxed-simd"), ours.replace(options, target="relaxed-simd")):
        assert (replaced.target, replaced.tune, replaced.weights) == ("relaxed-simd", "v8", ("w",))
    assert pickle.loads(pickle.dumps(options)) == copy.deepcopy(options) == options
    assert dataclasses.is_dataclass(options)


def test_the_package_uses_its_own_everywhere() -> None:
    for path in SOURCES:
        if path.name == "dataclass.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.ImportFrom) and node.module == "dataclasses" and node.level == 0), path
            assert not (isinstance(node, ast.Import) and any(alias.name == "dataclasses" for alias in node.names)), path
