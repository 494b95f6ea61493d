"""XLA:CPU as the second judge of a hunt, in a process of its own, since XLA ends the process where it meets what it
does not expect."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from typing import Any

from tests.support.paths import ROOT
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.signature import result_leaves
from xla_wasm.hlo.types import TYPES, is_integral

FLAGS = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_max_isa=AVX2"
"""It shall compile fast."""


class Xla:
    """A process that runs modules. One that dies is replaced for the next module."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, module: Module, arguments: list[Any]) -> list[Any] | str:
        """The results, or why there are none."""
        if reason := mistaken(module):
            return reason
        if self._process is None or self._process.poll() is not None:
            environment = os.environ | {"XLA_FLAGS": FLAGS, "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.programs.hunt_xla"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        assert self._process.stdin and self._process.stdout
        try:
            pickle.dump((module.to_proto(), arguments), self._process.stdin)
            self._process.stdin.flush()
            outcome: list[Any] | str = pickle.load(self._process.stdout)
            return outcome
        except (EOFError, BrokenPipeError):
            self._process.wait()
            return "XLA:CPU ended its process"
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def mistaken(module: Module) -> str:
    """Returns the reason for which XLA:CPU is no judge of a module, or "".

    It computes the trips of a loop as if unsigned counters were signed, clamps the sums of a convolution of narrow
    integers where it folds constants and wraps them where it does not, returns integers of one bit as predicates,
    simplifies powers of integers as if they were powers of real numbers (`x ** -1` to `1 / x`, which is -1 for 0), goes
    through a padded window column by column when it selects, so that of two equal elements the wrong one is first, and
    loses the layout of a convolution that it folds below a bitcast-convert."""
    if any(shape.element_type in ("s1", "u1") for _, shape in result_leaves(module)):
        return "integers of one bit are returned as predicates"
    for x in module.instructions():
        of = x.shape.element_type if x.shape.is_array else ""
        if x.opcode == "convolution" and is_integral(of) and TYPES[of].bits <= 16:
            return "sums of narrow integers are clamped where constants are folded"
        if x.opcode == "while" and any(
            o.shape.element_type[0] == "u" for o in x.called[0].root.operands if o.shape.is_array
        ):
            return "trips of unsigned counters"
        if x.opcode == "power" and of[:1] in ("s", "u"):
            return "powers of integers are simplified as if they were real"
        if x.opcode == "select-and-scatter" and any(
            w.padding_low or w.padding_high for w in x.attrs["window"].dimensions
        ):
            return "equal elements of a padded window"
        if x.opcode == "bitcast-convert" and x.operands[0].opcode == "convolution":
            return "layout of a folded convolution"
    return ""


def _serve() -> None:
    from tests.support import xla_cpu

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            proto, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            module = Module.from_proto(proto)
            for x in module.instructions():
                if x.opcode == "bitcast" and x.shape.layout is None:
                    x.shape = x.shape.with_default_layout()
            outcome: Any = xla_cpu.run(module, *arguments)
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"[:300]
        pickle.dump(outcome, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
