"""`xla-wasm completion`: scripts that complete commands, options and their values in a shell, made of what the commands
take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo

from ..dataclass import dataclass
from .base import app

NAME = "xla-wasm"
SHELLS = ("bash", "zsh", "fish")
Shell = Literal["bash", "zsh", "fish"]
FILES = "files"
"""Values that are names of files or folders."""


@dataclass(frozen=True)
class Parameter:
    """An option of a command, or where `names` is empty its argument."""

    names: tuple[str, ...]
    help: str
    takes: tuple[str, ...] | str | None
    """The values that it takes, FILES, "" where nobody can list them, or None for a flag."""


Commands = dict[str, tuple[str, list[Parameter]]]
"""Name of a command -> what it does, and its options and arguments."""


def completion(shell: Annotated[Shell, typer.Argument(help="The shell that the script is for.")]) -> None:
    """Prints a script that completes commands, options and their values.

    bash: add  eval "$(xla-wasm completion bash)"  to ~/.bashrc

    zsh: add  eval "$(xla-wasm completion zsh)"  to ~/.zshrc, below compinit

    fish: xla-wasm completion fish > ~/.config/fish/completions/xla-wasm.fish
    """
    print(script(shell, app), end="")


def script(shell: str, of: typer.Typer) -> str:
    """The script for a shell, of an application."""
    scripts: dict[str, Callable[[Commands], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    return scripts[shell](commands(of))


def commands(of: typer.Typer) -> Commands:
    """Returns the commands that there are to complete."""
    found: Commands = {}
    for command in of.registered_commands:
        function = command.callback
        assert function is not None and command.name is not None
        hints = get_type_hints(function, include_extras=True)
        parameters = [_parameter(*get_args(hint)) for name, hint in hints.items() if name != "return"]
        found[command.name] = _first_line(function.__doc__), parameters
    return found


def _parameter(type_: Any, info: Any) -> Parameter:
    takes: tuple[str, ...] | str | None = ""
    kinds = (type_, *get_args(type_))
    choices = next((kind for kind in kinds if get_origin(kind) is Literal), None)
    if choices is not None:
        takes = tuple(map(str, get_args(choices)))
    elif bool in kinds:
        takes = None
    elif Path in kinds or any(word in (info.metavar or "") for word in ("FILE", "DIR", "NPY")):
        takes = FILES
    if isinstance(info, ArgumentInfo):
        return Parameter((), _first_line(info.help), takes)
    # Inside of Annotated, typer has the first name where elsewhere the default stands.
    declared = [
        text for text in (info.default, *(info.param_decls or ())) if isinstance(text, str) and text.startswith("-")
    ]
    return Parameter(tuple(part for text in declared for part in text.split("/")), _first_line(info.help), takes)


def _first_line(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _bash(known: Commands) -> str:
    cases = []
    for name, (_, parameters) in known.items():
        options = [option for p in parameters for option in p.names]
        values = [
            f"        {'|'.join(p.names)}) values={_quoted(' '.join(p.takes))} ;;"
            for p in parameters
            if p.names and type(p.takes) is tuple
        ]
        values += [f"        {'|'.join(p.names)}) files=1 ;;" for p in parameters if p.names and p.takes == FILES]
        values += [f"        {'|'.join(p.names)}) nothing=1 ;;" for p in parameters if p.names and p.takes == ""]
        arguments = [p for p in parameters if not p.names]
        listed = " ".join(value for p in arguments if type(p.takes) is tuple for value in p.takes)
        body = "\n".join(
            [*values, f"        *) options={_quoted(' '.join([*options, '--help']))} values={_quoted(listed)} ;;"]
        )
        more = "\n      files_too=1" if any(p.takes == FILES for p in arguments) else ""
        cases.append(f"    {name})\n      case $previous in\n{body}\n      esac{more} ;;")
    return f"""# bash completion for {NAME}
_xla_wasm() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local command= options= values= files= files_too= nothing=
  local IFS=$' \\t\\n'
  # NAME=FILE, which bash takes apart at the sign
  [ "$current" = = ] && current=
  COMPREPLY=()
  [ "$COMP_CWORD" -gt 1 ] && command=${{COMP_WORDS[1]}}
  if [ "$previous" = = ] || [ "${{COMP_WORDS[COMP_CWORD]}}" = = ]; then
    compopt -o filenames 2> /dev/null
    IFS=$'\\n'; COMPREPLY=($(compgen -f -- "$current")); return
  fi
  case $command in
    '') values={_quoted(" ".join(known))} options='--help --version' ;;
{chr(10).join(cases)}
  esac
  [ -n "$nothing" ] && return
  case $current in
    -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
    *)
      [ -n "$values" ] && COMPREPLY=($(compgen -W "$values" -- "$current"))
      if [ -n "$files" ] || [ -n "$files_too" ]; then
        compopt -o filenames 2> /dev/null
        IFS=$'\\n'; COMPREPLY+=($(compgen -f -- "$current"))
      fi ;;
  esac
}}
complete -F _xla_wasm {NAME}
"""


def _zsh(known: Commands) -> str:
    def described(text: str) -> str:
        return text.replace("\\", "").replace("[", "(").replace("]", ")").replace(":", ";")

    def action(takes: tuple[str, ...] | str | None) -> str:
        return f"({' '.join(takes)})" if isinstance(takes, tuple) else "_files" if takes == FILES else " "

    cases = []
    for name, (_, parameters) in known.items():
        lines = ["'(- *)'{-h,--help}'[Show the help.]'"]
        for p in parameters:
            value = "" if p.takes is None else f":value:{action(p.takes)}"
            lines += [_quoted(f"*{option}[{described(p.help)}]{value}") for option in p.names]
            if not p.names:
                lines.append(_quoted(f"::argument:{action(p.takes)}"))
        cases.append(f"    {name})\n      _arguments " + " \\\n        ".join(lines) + " ;;")
    listed = "\n".join(f"    {_quoted(f'{name}:{described(text)}')}" for name, (text, _) in known.items())
    return f"""#compdef {NAME}
# zsh completion for {NAME}
_xla_wasm() {{
  local -a commands
  commands=(
{listed}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{chr(10).join(cases)}
  esac
}}
compdef _xla_wasm {NAME}
"""


def _fish(known: Commands) -> str:
    lines = [f"# fish completion for {NAME}", f"complete -c {NAME} -f"]
    lines += [
        f"complete -c {NAME} -n __fish_use_subcommand -a {name} -d {_fish_quoted(text)}"
        for name, (text, _) in known.items()
    ]
    lines.append(f"complete -c {NAME} -n __fish_use_subcommand -l version -d 'Print the version and exit.'")
    for name, (_, parameters) in known.items():
        begin = f"complete -c {NAME} -n '__fish_seen_subcommand_from {name}'"
        lines.append(f"{begin} -s h -l help -d 'Show the help.'")
        for p in parameters:
            takes = (
                f"-xa {_fish_quoted(' '.join(p.takes))}"
                if isinstance(p.takes, tuple)
                else "-rF"
                if p.takes == FILES
                else "-x"
            )
            if not p.names:
                lines.append(
                    f"{begin} {'-F' if p.takes == FILES else takes.replace('-xa', '-a')}" if p.takes else f"{begin} -f"
                )
                continue
            names = " ".join(
                f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}" for option in p.names
            )
            lines.append(f"{begin} {names}{'' if p.takes is None else f' {takes}'} -d {_fish_quoted(p.help)}")
    return "\n".join([*lines, ""])


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
