"""Bodies of type multipart/form-data, as a browser sends its forms: a part for each input."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from ..dataclass import dataclass, field
from .problems import unreadable

# What is wrong with a form is for its sender, who is told, and not for the log.
logging.getLogger("python_multipart").setLevel(logging.ERROR)


@dataclass
class Part:
    """One part: the name of its field, the name of its file ("" if there is none), its media type ("" if it has none),
    its content."""

    headers: dict[str, bytes] = field(default_factory=dict)
    content: bytes = b""
    name: str = ""
    filename: str = ""
    media_type: str = ""

    def describe(self) -> None:
        """Takes name, file and type from the headers."""
        disposition, options = parse_options_header(self.headers.get("content-disposition"))
        if disposition != b"form-data" or b"name" not in options:
            raise unreadable(
                "a part of the form has no name: it needs the header Content-Disposition: form-data; name=..."
            )
        self.name = options[b"name"].decode("utf-8", "replace")
        self.filename = options.get(b"filename", b"").decode("utf-8", "replace")
        self.media_type = parse_options_header(self.headers.get("content-type"))[0].decode("latin-1").strip().lower()


class _Collector:
    """Takes what the parser finds."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.ended = False
        self._header, self._value = b"", b""
        self._chunks: list[bytes] = []

    def begin_part(self) -> None:
        self.parts.append(Part())
        self._chunks = []

    def header_name(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def end_header(self) -> None:
        self.parts[-1].headers[self._header.decode("latin-1").lower()] = self._value
        self._header, self._value = b"", b""

    def content(self, data: bytes, start: int, end: int) -> None:
        self._chunks.append(data[start:end])

    def end_part(self) -> None:
        self.parts[-1].content = b"".join(self._chunks)
        self.parts[-1].describe()

    def end(self) -> None:
        self.ended = True


def parts(content_type: str, data: bytes) -> list[Part]:
    """The parts of a body; `content_type` is the header, which says what divides them."""
    boundary = parse_options_header(content_type)[1].get(b"boundary")
    if not boundary:
        raise unreadable(
            "the header Content-Type of a form must name its boundary, as in multipart/form-data; boundary=X"
        )
    found = _Collector()
    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": found.begin_part,
                "on_header_field": found.header_name,
                "on_header_value": found.header_value,
                "on_header_end": found.end_header,
                "on_part_data": found.content,
                "on_part_end": found.end_part,
                "on_end": found.end,
            },
        )
        parser.write(data)
    except FormParserError as error:
        raise unreadable(f"the body is not multipart/form-data: {error}") from None
    if not found.ended:
        raise unreadable("the form ends early: its last boundary is missing")
    return found.parts


def given(found: Sequence[Part]) -> dict[str, Part]:
    """The parts by name. Fields that were left empty do not count, since a browser sends them too."""
    made: dict[str, Part] = {}
    for part in found:
        if not part.content.strip() and not part.filename:
            continue
        if part.name in made:
            raise unreadable(f"the form has two parts for '{part.name}'", part.name)
        made[part.name] = part
    return made
