"""The pages of the site that mkdocs.yml lacks: those outside of docs/, links between them, and generated ones.

Pages keep their places in the repository, and links are written as a code host wants them. Here each link is read as a
path of the repository and written as one of the site: README.md is the front page, docs/ is the top, and everything
else stays where it is. A file that is no page is shown as it stands, under files/, and a folder as the list of what is
in it.
"""

from __future__ import annotations

import ast
import posixpath
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import command_reference
import python_reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
FILES = "files"
SHOWN = {
    ".py": "python",
    ".js": "js",
    ".mjs": "js",
    ".c": "c",
    ".h": "c",
    ".rs": "rust",
    ".go": "go",
    ".json": "json",
    "": "text",
}
"""Files that may be shown, by their suffix, and the languages that they are in."""

FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")


def outside_of_code(text: str) -> Iterator[tuple[str, bool]]:
    """The text in parts, each with whether it is code."""
    at = 0
    for found in re.finditer(
        f"{FENCE.pattern}|{SPAN.pattern.replace(chr(92) + '1', chr(92) + '3')}", text, re.DOTALL | re.MULTILINE
    ):
        yield text[at : found.start()], False
        yield found[0], True
        at = found.end()
    yield text[at:], False


def place_of(page: str) -> str:
    """Returns the path in the repository of a page of the site."""
    if page == "index.md":
        return "README.md"
    return page if (ROOT / page).is_file() else f"docs/{page}"


def page_of(path: str) -> str:
    """The page of the site that shows this file or folder of the repository."""
    if path in ("", ".", "README.md"):
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if (ROOT / path / "README.md").is_file():
        return f"{path}/README.md"
    return path if path.endswith(".md") else f"{FILES}/{path}.md"


def targets(markdown: str, place: str) -> Iterator[str]:
    """The paths in the repository that a page links to."""
    for text, is_code in outside_of_code(markdown):
        if not is_code:
            for link in LINK.finditer(text):
                yield posixpath.normpath(posixpath.join(posixpath.dirname(place), link[1]))


def copied(code: str) -> str:
    """A block of a console as blocks of commands and of what they print, in turns: what a reader copies are commands,
    without the prompts."""
    if not code.startswith("```console\n"):
        return code
    made: list[tuple[str, list[str]]] = []
    for line in code.splitlines()[1:-1]:
        is_command = line.startswith("$ ") or bool(made and made[-1][0] == "sh" and made[-1][1][-1].endswith("\\"))
        language = "sh" if is_command else "text"
        if not made or made[-1][0] != language:
            made.append((language, []))
        made[-1][1].append(line.removeprefix("$ "))
    return "\n".join("\n".join((f"```{language}", *lines, "```")) for language, lines in made)


def rewritten(markdown: str, page: str) -> str:
    """The page with its links as the site has them, and consoles as blocks that can be copied."""
    folder = posixpath.dirname(place_of(page))

    def link(found: re.Match[str]) -> str:
        target = page_of(posixpath.normpath(posixpath.join(folder, found[1])))
        return posixpath.relpath(target, posixpath.dirname(page) or ".") + (found[2] or "")

    return "".join(copied(text) if is_code else LINK.sub(link, text) for text, is_code in outside_of_code(markdown))


def shown(path: str) -> str:
    """A page that shows a file, or lists a folder."""
    place = ROOT / path
    if place.is_dir():
        entries = sorted(child for child in place.iterdir() if child.name[0] not in "._" and child.name != "README.md")
        lines = [f"- `{child.name}{'/' if child.is_dir() else ''}`{_about(child)}" for child in entries]
        return f"# {path}\n\nThis folder of the repository holds:\n\n" + "\n".join(lines) + "\n"
    try:
        language = SHOWN[place.suffix]
        text = place.read_text(encoding="utf-8")
    except (KeyError, OSError) as error:
        raise PluginError(f"a page links to {path}, which cannot be shown: {error!r}") from error
    return f"# {path}\n\n````{language}\n{text.rstrip()}\n````\n"


def _about(path: Path) -> str:
    """The first sentence of what a Python file or package says of itself."""
    file = path / "__init__.py" if path.is_dir() else path
    if file.suffix != ".py" or not file.is_file():
        return ""
    said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return f": {said.splitlines()[0]}" if said else ""


def generated(tools: Path = ROOT / ".tools") -> dict[str, str]:
    """The pages of the API, each with its text."""
    script = [ROOT / "tools" / "docs" / "javascript_reference.mjs", tools]
    made = subprocess.run(["node", *script], capture_output=True, text=True, encoding="utf-8", timeout=120)
    if made.returncode:
        raise PluginError(f"the reference of the JavaScript API cannot be made:\n{made.stderr}")
    return {
        "reference/python.md": python_reference.page(),
        "reference/javascript.md": made.stdout,
        "reference/command.md": command_reference.page(),
    }


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Adds the pages that do not lie in docs/: those that others link to, and those that are generated."""
    for name, text in generated().items():
        files.append(File.generated(config, name, content=text))
    waiting = [
        "README.md",
        "SECURITY.md",
        "web/README.md",
        *(place_of(file.src_uri) for file in files if file.is_documentation_page()),
    ]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        page = page_of(path)
        if page in seen:
            continue
        seen.add(page)
        file = files.get_file_from_path(page)
        if file is None and not path.startswith("docs/"):
            place = ROOT / (path if path.endswith(".md") else f"{path}/README.md")
            text = place.read_text(encoding="utf-8") if place.is_file() else shown(path)
            file = File.generated(config, page, content=text)
            files.append(file)
        if file is not None and file.is_documentation_page() and not page.startswith((f"{FILES}/", "reference/")):
            waiting += targets(file.content_string, place_of(page))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Writes links as the site has them."""
    uri = page.file.src_uri
    if uri == "index.md":
        # Where a site with demo pages links them: xla_wasm/site/pages.py.
        markdown = markdown.replace("\n## ", "\n<!-- the demo pages -->\n\n## ", 1)
    return markdown if uri.startswith((f"{FILES}/", "reference/")) else rewritten(markdown, uri)
