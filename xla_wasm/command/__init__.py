"""The command `xla-wasm`: a module for each command, or for a few that belong together; `cli` puts them together."""

from .interrupt import ends_at_once


def main() -> None:
    """Runs the command."""
    with ends_at_once():
        from .cli import main as run
    run()
