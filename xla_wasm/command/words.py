"""Messages of the compiler and the hosts in the words of the command line: its options in the place of Python's, and
the place in the file that was read."""

from __future__ import annotations

import re
from pathlib import Path

from ..hlo.op import records

_WORDS = (
    (r"from_exported\(data, dims=\{[^}]*\}\), or to the command as in ", ""),
    (r"HloModule\.from_stablehlo\(data, shapes=\{.*?\}\), or to the command as in ", ""),
    (r"(give the sizes with|or give) dims=\{\.\.\.\}", r"\1 --dim NAME=SIZE"),
    (
        r": register an expansion with xla_wasm\.custom_call\(.*?\), or let the host run it with Options\(.*?\)\)",
        ": the command cannot give it a meaning, a program in Python can (docs/custom_calls.md)",
    ),
    (
        r"pass a function for it, load\(.*?function\}\)",
        "the command has no functions: run it in Python, load(..., custom_calls=...), or in JavaScript",
    ),
    (
        r"an artifact in a file has none: pass one, load\(.*?function\}\)",
        "the command has none: run it in Python, or compile with --callbacks drop",
    ),
    (r"\(callbacks='trap'\): compile it with callbacks='host'", "(--callbacks trap): compile it with --callbacks host"),
    (r"compile it with Options\(threads=True\), or --threads", "compile it with --threads"),
    (r"leave out threads=\d+", "leave out --threads"),
    (r"load it with a longer timeout", "give it more with --timeout"),
    (r"^timeout must be", "--timeout must be"),
    (r"\bsidecar=True:", "--sidecar:"),
    (r"\bthreads=True:", "--threads:"),
    (r"\bnum_(replicas|partitions)=(\d+):", r"--num-\1 \2:"),
    (
        r"\bweight_format is for weights, and Options\.weights names none",
        "--weight-format is for weights: name them, as in NAME=int8, or with --weight",
    ),
    (r"\bweight_format:", "--weight-format:"),
    (r"\bunknown weight_format\b", "unknown --weight-format"),
    (r"\b(weight)_(format)='(\w+)'", r"--\1-\2 \3"),
    (r"\bwinograd='off'", "--winograd off"),
    (r"\binitial: ", "--initial: "),
    (r"which Options\.state pairs", "which --state pairs"),
    (r"\bdims\['(.*?)'\]", r"--dim \1"),
    (r", or a range of sizes such as range\(1, 129\),", ", or a range of sizes such as 1..128,"),
    (r"call exe\.set\('(.*?)', .*?\) first", r"give it with --set \1=FILE"),
    (r"exe\.set\('(.*?)', \.\.\.\) sets it", r"--set \1=FILE sets it"),
    (r"lower it with xla_wasm\.jax\.lower", "lower it with xla_wasm.jax.lower in Python"),
)
"""The words of messages for Python, as patterns, and those of the command in their place."""

_MOST_BYTES = 64 << 20
"""The largest file that is searched for a line."""

read_files: list[Path] = []
"""The files of modules that this process has read."""


def in_words(message: str) -> str:
    """Returns a message with the command's options in the place of Python's."""
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message)
    return message


def placed(message: str) -> str:
    """Returns a message about an instruction with the file, and the line if it is one of text, in front, and how to
    learn what the constraint is that it names."""
    found = re.match(r"(?:(?P<opcode>[a-z][a-z0-9-]*)|computation) '(?P<name>[^']+)'", message)
    if found is None or not read_files or (found["opcode"] and found["opcode"] not in records()):
        return message
    path = read_files[-1]
    number = re.search(r"\(C\d+\)", message)
    if number is not None and found["opcode"]:
        message += f"; 'xla-wasm ops {found['opcode']}' says what {number[0]} is"
    line = _line_of(path, found["name"])
    return f"{path}:{line}: {message}" if line else f"{path}: {message}"


def _line_of(path: Path, name: str) -> int:
    """Returns the line of a text where an instruction is defined, or a computation begins; 0 if there is none."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return 0
        text = path.read_text("utf-8")
    except (OSError, ValueError):
        return 0
    found = re.search(rf"^[ \t]*(?:ROOT[ \t]+|ENTRY[ \t]+)?%?{re.escape(name)}[ \t]*[=({{]", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else 0
