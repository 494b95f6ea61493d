"""Loop IR as text, for people."""

from __future__ import annotations

from .ir import Block, Func, If, Invoke, Loop, Store, Val


def to_text(func: Func) -> str:
    """A kernel, one statement a line."""
    names: dict[Val, str] = {}
    lines = [f"kernel {func.name}({func.pointers} pointers), {func.trips} trips"]

    def name(val: Val) -> str:
        if val.op == "const":
            return f"{val.dtype}:{val.imm:#x}"
        if val.op == "induction":
            return f"{val.imm}*i{val.block.level}"
        if val.op == "pointer":
            return f"p{val.imm}"
        if val not in names:
            names[val] = f"v{len(names)}"
        return names[val]

    def write(block: Block, indent: str) -> None:
        for s in block.statements:
            if isinstance(s, Val):
                if s.op in ("const", "induction", "pointer"):
                    continue
                imm = "" if s.imm is None else f" {s.imm}"
                lines.append(f"{indent}{name(s)}: {s.dtype}x{s.lanes} = {s.op}({', '.join(name(a) for a in s.args)}){imm}")
            elif isinstance(s, Store):
                lines.append(f"{indent}store {s.dtype} [{name(s.address)} + {s.offset}] = {name(s.value)}")
            elif isinstance(s, Loop):
                kind = "ranged " if s.ranged else ""
                lanes = f", {s.lanes} lanes" if s.lanes > 1 else ""
                count = f"{s.trips} trips by {s.step}{lanes}" if s.again is None else "repeat"
                lines.append(f"{indent}{kind}loop i{s.level}: {count}")
                for c in s.carries:
                    lines.append(f"{indent}  carry {name(c.value)} = {name(c.init)}")
                write(s.body, indent + "  ")
                for c in s.carries:
                    if c.next is not None:
                        lines.append(f"{indent}  next {name(c.value)} = {name(c.next)}")
                    if c.result is not None:
                        names[c.result] = name(c.value) + "'"
                if s.again is not None:
                    lines.append(f"{indent}  again if {name(s.again)}")
            elif isinstance(s, Invoke):
                lines.append(f"{indent}invoke {s.symbol}({', '.join(name(a) for a in s.args)})")
            elif isinstance(s, If):
                lines.append(f"{indent}if {name(s.condition)}")
                write(s.body, indent + "  ")

    write(func.body, "  ")
    return "\n".join(lines) + "\n"
