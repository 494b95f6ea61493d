"""Reads the golden files, and makes the texts that they are compared with.

A file `NAME.hlo` begins with comment lines that say what it pins, and which `sections` of text it wants:

    // Softmax of rows is one kernel.
    // sections: plan, kernels
    HloModule ...

    === plan ===
    ...

Behind the module come the sections, as the stages' own printers write them: `hlo`, the module after the passes; `plan`,
the steps with the instructions that each kernel holds and the memory they need; `kernels`, the loops of each kernel
with their accesses. A line `// weights: w` names parameters that are set once, `// state: c=0` one that result 0
replaces, and `// addresses: shown` asks for the addresses in the plan. `// target: relaxed-simd` and `// tune: v8`
compile it for others than usual. `// sidecar: yes` puts constants into a file. `// values: none` keeps a program from
being run that does not end, or takes several devices.

`pytest tests/golden/test_golden.py --update-golden` writes the sections anew, for a person to review as a diff.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from xla_wasm.compiler import Trace, trace
from xla_wasm.hlo.ir import Module
from xla_wasm.loop.facts import facts
from xla_wasm.options import Options

FOLDER = Path(__file__).parent
SECTIONS = ("hlo", "plan", "kernels")
_HEADING = re.compile(r"^=== (\w+) ===\n", re.MULTILINE)
_SETTING = re.compile(r"^// (sections|weights|formats|state|addresses|values|sidecar|target|tune): (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Golden:
    """One golden file: `source` is all before the first section, `expected` the sections that follow."""

    path: Path
    source: str
    expected: dict[str, str]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def module(self) -> Module:
        return Module.from_text(self.source)

    @property
    def settings(self) -> dict[str, list[str]]:
        """The settings of the comment: the words of each."""
        return {name: [word.strip() for word in words.split(",")] for name, words in _SETTING.findall(self.source)}

    @property
    def sections(self) -> list[str]:
        """The sections that the file asks for."""
        found = self.settings.get("sections", [])
        assert found and set(found) <= set(SECTIONS), (
            f"{self.path.name} asks for no sections: `// sections: {', '.join(SECTIONS)}`"
        )
        return found

    def options(self, target: str = "") -> Options:
        """Returns the options that the file states for its compilation, with `target` instead of its first target if
        given."""
        settings = self.settings
        formats = tuple(tuple(word.split("=")) for word in settings.get("formats", ()))
        state = tuple((p, int(r)) for p, r in (word.split("=") for word in self.settings.get("state", ())))
        return Options(
            target=target or settings.get("target", ["simd128"])[0],
            tune=settings.get("tune", ["portable"])[0],
            weights=tuple(settings.get("weights", ())),
            state=state,
            weight_format=formats,
            sidecar="sidecar" in settings,
        )

    def actual(self) -> dict[str, str]:
        """The sections as they come out today."""
        made = trace(self.module, self.options(), names=True)
        return {section: _printed(made, section, "addresses" in self.settings) for section in self.sections}


def _printed(made: Trace, section: str, addresses: bool) -> str:
    if section == "hlo":
        return made.module.to_text(large_constants=False)
    if section == "plan":
        return made.plan.to_text(addresses=addresses)
    return "".join(facts(func) for func in made.plan.funcs.values())


def golden_files() -> Iterator[Path]:
    """All golden files, by name."""
    return iter(sorted(FOLDER.glob("*.hlo")))


def read(path: Path) -> Golden:
    """A golden file in its parts."""
    source, *rest = _HEADING.split(path.read_bytes().decode())
    return Golden(
        path, source.rstrip("\n") + "\n", {name: text.strip("\n") + "\n" for name, text in zip(rest[::2], rest[1::2])}
    )


def written(source: str, sections: dict[str, str]) -> str:
    """The text of a golden file."""
    return source + "".join(f"\n=== {name} ===\n{text.strip(chr(10))}\n" for name, text in sections.items())


def rewrite(golden: Golden) -> None:
    """Writes the sections of a file as they come out today."""
    golden.path.write_bytes(written(golden.source, golden.actual()).encode())
