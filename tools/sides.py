"""Lists the conditions that choose a path of the compiler, and the sides of them that no value test takes.

    python tools/sides.py [--list] [--missing] [--of PART] [--json FILE] [-- TESTS AND OPTIONS OF PYTEST]

The list is made from the sources (`conditions.py`): what `if`, `while`, `and`, `or`, `not`, comparisons and functions
that return a bool ask for in the parts that choose kernels and write them. The value tests below then run, with `-n 2`,
and each evaluation while a module is compiled is recorded (`recorder.py`) with its outcome and its tags: whether it was
about batch dimensions, about types of less than 32 bits, about several operands, about what is written in place, and
whether the module was compiled for threads. A compile counts if its test passes and ran what was compiled; so do
kernels that a test writes, emits and runs itself.

Printed are the sides that no test takes. The exit status is 1 if one of them has no reason in `sides.toml`, or if a
reason there is not needed. `--list` prints each condition with how often its sides were taken with each tag, and one of
the tests; `--missing` the tags with which one side was taken and the other never; `--of` those alone whose file,
function or text has PART in it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from conditions import ROOT, Condition, all_conditions
from recorder import TAGS, Taken, merged

REASONS = Path(__file__).with_name("sides.toml")
_OPERATIONS = """
    argmax clips columns complex control convolutions dots dynamic extremes fft gather lapack limits_of_numbers linalg
    random reducers running_sums scatter small_floats sort special_functions types windows
"""
_PASSES = "contraction four_bits fractions grown loops room_for_weights weight_formats"
TESTS = (
    "tests/ops/test_samples.py::test_compiled",
    *(f"tests/ops/test_{name}.py" for name in _OPERATIONS.split()),
    *(f"tests/passes/test_{name}.py" for name in _PASSES.split()),
    *(f"tests/programs/test_{name}.py" for name in ("hunt", "random_programs", "regressions")),
    *(
        "tests/golden/test_golden.py::test_values",
        "tests/host/test_threads.py",
        "tests/programs/test_programs.py::test_compiled",
    ),
    *("tests/kernels", "tests/loop", "tests/plan"),
)
"""The value tests: they compare what modules give with what something else gives."""


def reasons() -> dict[str, str]:
    """Returns the reasons for which sides are not taken, by their keys."""
    with REASONS.open("rb") as file:
        return {
            f"{where}: {side}": reason for where, sides in tomllib.load(file).items() for side, reason in sides.items()
        }


def sides(listed: Iterable[Condition]) -> dict[str, tuple[Condition, bool]]:
    """Returns both sides of each condition, by the keys that reasons have."""
    return {f"{c.key} is {side}": (c, side) for c in listed for side in (True, False)}


def faults(listed: Iterable[Condition], taken: Taken | None, known: Mapping[str, str]) -> list[str]:
    """Returns a line for each side that is not taken and has no reason, and for each reason that is not needed. Without
    what was taken: for reasons of what there is not."""
    every = sides(listed)
    found = [f"no such condition, in {REASONS.name}: {key}" for key in known if key not in every]
    for key, (condition, side) in every.items() if taken is not None else ():
        was = bool(taken and taken.of(condition.key, side))
        if was and key in known:
            found.append(f"taken, though {REASONS.name} has a reason why not: {key}")
        if not was and key not in known:
            found.append(f"{condition.place}: no value test takes: {key}")
    return found


def gaps(listed: Iterable[Condition], taken: Taken) -> list[str]:
    """Returns a line for each side that was never taken with a tag with which the other side was."""
    found = []
    for condition in listed:
        masks = [set(taken.of(condition.key, side)) for side in (False, True)]
        tags = [{tag for i, tag in enumerate(TAGS) if any(mask >> i & 1 for mask in seen)} for seen in masks]
        for side in (False, True):
            rest = [tag for tag in TAGS if tag in tags[not side] - tags[side]]
            if rest and masks[side]:
                found.append(f"{condition.place}: {condition.key} is {side}: never with {', '.join(rest)}")
    return found


def table(listed: Iterable[Condition], taken: Taken) -> list[str]:
    """Returns a line for each side of each condition: the number of compiles that took it, in all and with each tag,
    and a test that did."""
    lines = ["  ".join((f"{'side':5}", f"{'all':>6}", *(f"{tag:>8}" for tag in TAGS), "a test"))]
    for condition in listed:
        lines.append(f"{condition.place}: {condition.key}")
        for side in (True, False):
            seen = taken.of(condition.key, side)
            counts = [sum(n for mask, (n, _) in seen.items() if mask >> i & 1) for i in range(len(TAGS))]
            test = next((tests[0] for _, tests in seen.values()), "")
            number = sum(n for n, _ in seen.values())
            lines.append("  ".join((f"{side!s:5}", f"{number:6}", *(f"{n or '-':>8}" for n in counts), test)))
    return lines


def run(arguments: list[str]) -> tuple[Taken, int]:
    """Runs tests with the recorder. Returns what they took, and the exit status of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-p", "recorder", "-p", "no:cacheprovider", "--sides", folder]
        try:
            status = subprocess.run([*command, *arguments], cwd=ROOT, env=environment()).returncode
        except KeyboardInterrupt:
            status = 1
        return merged(Path(folder)), status


def environment() -> dict[str, str]:
    """Returns the environment of processes that find the recorder."""
    import os

    path = [str(Path(__file__).parent), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def main(arguments: list[str]) -> int:
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("\n\n")[1].strip())
    parser.add_argument("--list", action="store_true", help="print every condition with what took it")
    parser.add_argument("--missing", action="store_true", help="print tags that only one side was taken with")
    parser.add_argument("--of", default="", help="only conditions with this in their file, function or text")
    parser.add_argument("--json", type=Path, help="a file for what was taken; read, not made anew, if it is there")
    given = parser.parse_args(arguments[:cut])
    listed = all_conditions()
    status = 0
    if given.json and given.json.exists():
        taken = Taken.from_json(json.loads(given.json.read_text(encoding="utf-8")))
    else:
        taken, status = run(arguments[cut + 1 :] or [*TESTS, "-n", "2"])
        if given.json:
            given.json.write_text(json.dumps(taken.to_json()), encoding="utf-8")
    chosen = [c for c in listed if given.of in f"{c.file}: {c.key}"]
    if given.list:
        print(*table(chosen, taken), sep="\n")
    if given.missing:
        print(*gaps(chosen, taken), sep="\n")
    known = reasons()
    found = faults(listed, taken, known)
    shown = [line for line in found if given.of in line]
    print(*shown, f"{len(listed)} conditions, {len(known)} reasons, {len(found)} faults", sep="\n")
    return int(bool(found or status))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
