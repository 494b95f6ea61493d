"""Programs that ask for more than there is, or that double: each is refused by name, in bounded time and memory."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import xla_wasm
from tests.support.text_cases import ADD
from xla_wasm.errors import XlaWasmError

LESS = "less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = pred[] compare(a, b), direction=LT }"
MOST_MEMORY = 1 << 28


def entry(body: str, head: str = "", functions: str = "") -> str:
    return f"HloModule m{head}\n{functions}\nENTRY e {{ {body} }}\n"


def doubling(levels: int, calls: str) -> str:
    """Functions that each use the one before twice."""
    functions = ["f0 { p = f32[4] parameter(0)  ROOT r = f32[4] sine(p) }"]
    functions += [
        f"f{i} {{ p = f32[4] parameter(0)  {calls.replace('BELOW', f'f{i - 1}')} }}" for i in range(1, levels + 1)
    ]
    return entry(
        f"p = f32[4] parameter(0)  ROOT r = f32[4] call(p), to_apply=f{levels}", functions="\n".join(functions)
    )


CALLS = "a = f32[4] call(p), to_apply=BELOW  ROOT r = f32[4] call(a), to_apply=BELOW"
BRANCHES = (
    "c = pred[] constant(true)  ROOT r = f32[4] conditional(c, p, p), true_computation=BELOW, false_computation=BELOW"
)


def reduced(head: str, groups: str) -> str:
    return entry(
        f"p = f32[4] parameter(0)  ROOT r = f32[4] all-reduce(p), replica_groups={groups}, to_apply=add", head, ADD
    )


def permuted(target: int) -> str:
    return entry(
        f"p = f32[4] parameter(0)  ROOT r = f32[4] collective-permute(p), source_target_pairs={{{{0,{target}}}}}"
    )


def named(names: str) -> str:
    return entry(
        "p = f32[4] parameter(0)  ROOT r = f32[4] negate(p)",
        f', frontend_attributes={{xla_wasm.parameter_names="{names}"}}',
    )


LARGE = {
    "negate": (
        entry(f"p = f32[{2**30}] parameter(0)  ROOT r = f32[{2**30}] negate(p)"),
        "8.0 GiB of memory, 4.0 GiB of it for 'p'",
    ),
    "sort": (
        entry(
            f"p = f32[{2**28}] parameter(0)  ROOT r = f32[{2**28}] sort(p), dimensions={{0}}, to_apply=less",
            functions=LESS,
        ),
        "GiB of memory",
    ),
    "counted only": (
        entry(
            f"p = f32[{2**33}] iota(), iota_dimension=0 z = f32[] constant(0)  ROOT r = f32[] reduce(p, z), "
            f"dimensions={{0}}, to_apply=add",
            functions=ADD,
        ),
        "iota 'p'.*arrays of up to 2\\^31",
    ),
    "replicas": (reduced(", replica_count=10000000", "{}"), "10,000,000 replicas.*at most 65536"),
    "replicas that exchange": (
        reduced(", replica_count=2000", "{}"),
        "all-reduce 'r': it is for 2000 devices; .* at most 1024",
    ),
    "shards": (
        entry(
            "p = f32[65536] parameter(0), sharding={devices=[65536]<=[65536]}  ROOT r = f32[65536] negate(p)",
            ", num_partitions=2",
        ).replace("ENTRY e", "ENTRY e_spmd"),
        "'m': it is for 65536 devices.*at most 1024",
    ),
    "groups": (reduced("", "[1,1000000]<=[1000000]"), "all-reduce 'r': it names 1,000,000 devices"),
    "pairs": (permuted(10**7), "collective-permute 'r': it names 10,000,001 devices"),
    "pairs of many digits": (permuted(10**13), "collective-permute 'r': it names 10,000,000,000,001 devices"),
    "calls, 18 levels": (doubling(18, CALLS), "computation 'f1.': .* up to 200000"),
    "calls, 40 levels": (doubling(40, CALLS), "computation 'f1.': .* up to 200000"),
    "calls that nobody makes": (
        doubling(14, CALLS).replace(
            "ENTRY",
            "".join(f"g{i} {{ p = f32[4] parameter(0)  {CALLS.replace('BELOW', 'f13')} }}\n" for i in range(50))
            + "ENTRY",
        ),
        "computation 'g.*all up to this one have .* up to 1000000",
    ),
    "branches, 40 levels": (doubling(40, BRANCHES), "computation 'f1.': .* up to 200000"),
    "brackets as names": (
        named("[" * 100_000),
        "frontend attribute xla_wasm.parameter_names must be a JSON list of names",
    ),
    "half of a character as a name": (named(r"[\"\\ud800\"]"), "must be a JSON list of names"),
    "numbers as names": (named("[1]"), "must be a JSON list of names"),
}


@pytest.mark.parametrize("name", LARGE)
def test_what_is_too_large_is_refused_by_name(name: str) -> None:
    text, message = LARGE[name]
    began = time.process_time()
    with pytest.raises(XlaWasmError, match=message):
        xla_wasm.compile(xla_wasm.HloModule.from_text(text))
    assert time.process_time() - began < 2


def test_the_largest_that_is_taken_is_compiled() -> None:
    """Bounds that are said to be enough are: no case of the above is refused because of something small."""
    for text in (reduced(", replica_count=1024", "{}"), permuted(1023), doubling(9, CALLS), named(r"[\"x\"]")):
        assert xla_wasm.compile(xla_wasm.HloModule.from_text(text)).wasm


def test_refusing_takes_little_memory(tmp_path: Path) -> None:
    for i, (text, _) in enumerate(LARGE.values()):
        (tmp_path / f"{i}.hlo").write_text(text)
    script = (
        "import resource, sys, xla_wasm\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({MOST_MEMORY}, {MOST_MEMORY}))\n"
        "for path in sys.argv[1:]:\n"
        "    try: xla_wasm.compile(xla_wasm.HloModule.from_text(open(path).read()))\n"
        "    except xla_wasm.XlaWasmError: print('refused')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, *sorted(map(str, tmp_path.iterdir()))], capture_output=True, text=True
    )
    assert (ran.stdout.split(), ran.stderr) == (["refused"] * len(LARGE), "")
