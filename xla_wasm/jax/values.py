"""Arguments and results of `jit`: converted as `jax.jit` converts them, and what stays in the module from call to
call."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, UnsupportedError, counted
from ..host.forks import owns
from .leaves import NUMBERS, is_key

if TYPE_CHECKING:
    from ..host.executor import Executable

_PRNGS = ("threefry2x32", "rbg", "unsafe_rbg")


def to_numpy(x: Any) -> Any:
    """An array of anybody's as one of NumPy, without a copy where there is a way: by dlpack what is neither JAX's nor
    NumPy's."""
    import jax
    import numpy as np

    if isinstance(x, (np.ndarray, np.generic, jax.Array, Resident, *NUMBERS)) or not hasattr(x, "__dlpack__"):
        return np.asarray(x)
    try:
        return np.from_dlpack(x)
    except (TypeError, RuntimeError, BufferError):
        return np.asarray(jax.dlpack.from_dlpack(x))  # types that NumPy has not, and memory elsewhere


class Converter:
    """From the leaves of arguments to the arrays that a program takes, and from its results to those that callers
    get."""

    def __init__(self, manifest: Mapping[str, Any], avals: Sequence[Any]) -> None:
        """`avals` are the results' shapes and dtypes as JAX has them."""
        from ..host.arrays import dtype_of, narrowed

        self._narrowed = narrowed
        self._names = [p["name"] for p in manifest["parameters"]]
        self._types = [p["element_type"] for p in manifest["parameters"]]
        self._dtypes = [*map(dtype_of, self._types)]
        self._avals = [*avals]
        self._special = [i for i, aval in enumerate(avals) if is_special(aval.dtype)]

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        """An array for each leaf, of the dtype that the program takes; a `Resident` stays what it is."""
        import numpy as np

        if len(leaves) != len(self._names):
            raise UnsupportedError(
                f"JAX made a program of {counted(len(self._names), 'array')} for {len(leaves)}: it takes constants as "
                f"arguments; "
                "set jax_use_simplified_jaxpr_constants to False"
            )
        made = []
        for i, x in enumerate(leaves):
            if type(x) is not np.ndarray or x.dtype is not self._dtypes[i]:
                x = x if type(x) is Resident else self._converted(i, x)
            made.append(x)
        return made

    def _converted(self, i: int, x: Any) -> Any:
        import jax
        import numpy as np

        dtype = self._dtypes[i]
        if isinstance(x, jax.ShapeDtypeStruct):
            raise ArgumentError(f"argument '{self._names[i]}' must be an array, not {type(x).__name__}")
        try:
            if isinstance(x, jax.Array) and is_key(x.dtype):
                x = jax.random.key_data(x)
            with np.errstate(all="ignore"):
                if type(x) in NUMBERS:
                    return np.asarray(x, dtype)
                array = self._narrowed(to_numpy(x), self._types[i], f"argument '{self._names[i]}'")
                return array.astype(dtype, copy=False)
        except ArgumentError:
            raise
        except Exception as error:  # of whatever made this object
            from ..host.handlers import raise_if_handlers

            raise_if_handlers(error)
            raise ArgumentError(f"argument '{self._names[i]}': {error}") from error

    def results(self, values: list[Any], in_jax: bool) -> list[Any]:
        """The results as callers get them."""
        if in_jax:
            import jax

            values = [x if type(x) is Resident else jax.numpy.asarray(x) for x in values]
        for i in self._special:
            if type(values[i]) is not Resident:
                values[i] = as_jax_has_it(values[i], self._avals[i])
        return values

    def resident(self, result: int, keep: Keep, name: str) -> Resident:
        """Returns the handle of a result that stays in the module as the state of this name."""
        return Resident(keep, name, self._avals[result])


def is_special(dtype: Any) -> bool:
    """Returns True for a dtype that NumPy does not know: that of random keys, and float0."""
    import jax

    return is_key(dtype) or dtype == jax.dtypes.float0


def as_jax_has_it(array: Any, aval: Any) -> Any:
    """A result whose dtype NumPy does not know: random keys from their words, and float0, of which only the shape is
    there."""
    import jax
    import numpy as np

    if not is_key(aval.dtype):
        return np.zeros(aval.shape, aval.dtype)
    for name in _PRNGS:
        keys = (
            jax.random.wrap_key_data(jax.numpy.asarray(array), impl=name) if array.shape[-1:] == _words(name) else None
        )
        if keys is not None and keys.dtype == aval.dtype:
            return keys
    raise UnsupportedError(f"random keys of {aval.dtype} are not known: return jax.random.key_data(key)")


def _words(name: str) -> tuple[int, ...]:
    import jax

    shape: tuple[int, ...] = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0, impl=name))).shape
    return shape


class Resident:
    """A result that stays in the module as its state. It has a shape and a dtype, and as an array it is a copy of its
    value.

    It is for the next call. After that the module has another value, and this one is gone, as a donated array is.
    """

    __slots__ = ("__weakref__", "_aval", "_keep", "_name", "_value")

    def __init__(self, keep: Keep, name: str, aval: Any) -> None:
        self._keep: Keep | None = keep
        self._name = name
        self._aval = aval
        self._value: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """As JAX has it."""
        return tuple(self._aval.shape)

    @property
    def dtype(self) -> Any:
        """As JAX has it."""
        return self._aval.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(self.__array__().size)

    def is_deleted(self) -> bool:
        """Returns True if a later call has taken it."""
        return self._keep is None and self._value is None

    @property
    def value(self) -> Any:
        """A copy of the value: an array of NumPy, or random keys of JAX."""
        array = self.__array__()
        return as_jax_has_it(array, self._aval) if is_key(self.dtype) else array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        keep = self._keep
        array = self._value if keep is None else keep.read(self)
        if array is None:
            raise ArgumentError(
                f"'{self._name}' was given to a later call, and lives on in what that call returned: use that"
            )
        return array.copy() if dtype is None else array.astype(dtype)

    def __getitem__(self, index: Any) -> Any:
        return self.value[index]

    def __len__(self) -> int:
        return len(self.__array__())

    def __float__(self) -> float:
        return float(self.__array__())

    def __int__(self) -> int:
        return int(self.__array__())

    def __bool__(self) -> bool:
        return bool(self.__array__())

    def __repr__(self) -> str:
        shown = f"{self.dtype.name}[{','.join(map(str, self.shape))}]"
        return f"<'{self._name}', {shown}, {'given to a later call' if self.is_deleted() else 'in the module'}>"

    def keep(self, array: Any) -> None:
        """Has this value from now on, whatever the module has."""
        self._value, self._keep = array, None

    def forget(self) -> None:
        """Has no value any more."""
        self._value = self._keep = None


class Keep:
    """The values that stay in one executable from call to call: the weights set last, and the results that are its
    states."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        parameters, results = manifest["parameters"], manifest["results"]
        self._inputs = [i for i, p in enumerate(parameters) if p["kind"] == "input"]
        self._weights = {i: p["name"] for i, p in enumerate(parameters) if p["kind"] == "weight"}
        self._states = {i: p["name"] for i, p in enumerate(parameters) if p["kind"] == "state"}
        self._outputs = [i for i, r in enumerate(results) if r["kind"] == "output"]
        self._replacing = {p["alias"]: p["name"] for p in parameters if p["kind"] == "state"}
        self._set: dict[int, Any] = {}
        """Weight -> the array that it was set to, or a copy of one that others may write to."""
        self._current: dict[str, weakref.ref[Resident]] = {}
        """State -> the array of JAX's whose value it has."""
        self._executable: Executable | None = None
        self._after_fork()
        owns(self)

    def _after_fork(self) -> None:
        """In a child nobody else holds its lock."""
        self._lock = threading.RLock()

    @property
    def is_empty(self) -> bool:
        """True if nothing stays."""
        return not self._weights and not self._states

    def read(self, resident: Resident) -> Any:
        """The value of a state that is in the module; None if it is there no more."""
        with self._lock:
            if resident.is_deleted() or self._executable is None:
                return None
            return self._executable.get(resident._name) if resident._keep is self else resident._value

    def run(
        self, executable: Executable, arrays: Sequence[Any], leaves: Sequence[Any], convert: Converter
    ) -> list[Any]:
        """Runs with these arrays, one for each parameter, of which `leaves` are what the caller gave; a value for each
        result."""
        import numpy as np

        if self.is_empty:
            return executable.run(*(np.asarray(x) if type(x) is Resident else x for x in arrays))
        taken = [arrays[i] for i in self._states if type(arrays[i]) is Resident]
        # What is in other modules is read first: two threads that hold a lock each must not wait for each other's.
        arrays = [np.asarray(x) if type(x) is Resident and x._keep is not self else x for x in arrays]
        with self._lock:
            self._executable = executable
            inputs = [np.asarray(arrays[i]) for i in self._inputs]
            changed = {i: np.asarray(arrays[i]) for i in self._weights if self._has_changed(i, leaves[i], arrays[i])}
            current = {name: reference() for name, reference in self._current.items()}
            fresh = {
                n: np.asarray(arrays[i])
                for i, n in self._states.items()
                if type(arrays[i]) is not Resident or arrays[i] is not current.get(n)
            }
            for name, resident in current.items():  # what nobody gives may be asked for later
                if resident is not None and not resident.is_deleted() and not any(resident is x for x in taken):
                    resident.keep(executable.get(name))
            for i, array in changed.items():
                executable.set(self._weights[i], array)
                self._set[i] = leaves[i] if _is_immutable(leaves[i]) else array.copy()
            self._current = {}
            try:
                for name, array in fresh.items():
                    executable.set(name, array)
                outputs = executable.run(*inputs)
            finally:
                for x in taken:
                    x.forget()
            values: dict[int, Any] = dict(zip(self._outputs, outputs))
            for result, name in self._replacing.items():
                values[result] = resident = convert.resident(result, self, name)
                self._current[name] = weakref.ref(resident)
            return [values[r] for r in sorted(values)]

    def _has_changed(self, i: int, leaf: Any, array: Any) -> bool:
        """Returns True if a weight is another one than it was set to. What others may write to is compared, bit by
        bit."""
        import jax

        known = self._set.get(i)
        if known is leaf and _is_immutable(leaf):
            return False
        if known is None or isinstance(known, jax.Array) or isinstance(leaf, jax.Array):
            return True
        if not _same_bits(known, array):
            return True
        if _is_immutable(leaf):
            self._set[i] = leaf  # next time it need not be compared
        return False


def _is_immutable(x: Any) -> bool:
    """Returns True for an array that stays what it is: of JAX's, or one that NumPy lets nobody write to."""
    import jax
    import numpy as np

    while isinstance(x, np.ndarray) and not x.flags.writeable:
        if x.base is None or isinstance(x.base, (bytes, jax.Array)):
            return True
        x = x.base
    return isinstance(x, jax.Array)


def _same_bits(a: Any, b: Any) -> bool:
    """Returns True if two arrays of one shape and dtype have the same bits."""
    import numpy as np

    x, y = (np.ascontiguousarray(v).reshape(-1).view(np.uint8) for v in (a, b))
    return bool(np.array_equal(x, y))
