"""Format Python source, and convert names to valid Python names."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import timedelta

WIDTH: Final = 100
_INDENT: Final = "    "
_OPENING: Final = "([{"
_CLOSING: Final = ")]}"
_CHUNK: Final = 70
_WORDS: Final = re.compile(r"[A-Za-z0-9]+")
_AMBIGUOUS: Final = frozenset({"l", "I", "O"})
_MODEL_ATTRIBUTES: Final = frozenset({"schema", "json", "dict", "copy", "construct", "validate"})


def wrapped(text: str, indent: int = 0) -> str:
    """Wrap a long line: the contents of its last brackets go on separate lines."""
    margin = _INDENT * indent
    brackets = None if len(margin + text) <= WIDTH else _outermost(text)
    if brackets is None:
        return margin + text
    begin, end = brackets
    inner = [wrapped(f"{part},", indent + 1) for part in _parts(text[begin + 1 : end])]
    return "\n".join([margin + text[: begin + 1], *inner, margin + text[end:]])


def literal(value: Any) -> str:
    """A JSON value as a Python literal, with the quotes that formatters use."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(k)}: {literal(v)}' for k, v in value.items())}}}"
    return repr(value)


def long_text(value: str) -> str:
    """A string literal, split into chunks that wrapped() can put on separate lines."""
    if len(value) <= _CHUNK:
        return literal(value)
    chunks = [value[at : at + _CHUNK] for at in range(0, len(value), _CHUNK)]
    return f'"".join([{", ".join(map(literal, chunks))}])'


def seconds(duration: timedelta) -> str:
    number = duration.total_seconds()
    return repr(int(number) if number.is_integer() else number)


def class_name(words: str) -> str:
    name = "".join(word[0].upper() + word[1:] for word in _WORDS.findall(words))
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"T{name}"


def lint_codes(names: Iterable[str]) -> set[str]:
    """The lint rules about names that the field names of the manifest violate."""
    found = set(names)
    mixed = {"N815"} if any(name != name.lower() for name in found) else set[str]()
    return mixed | ({"E741"} if found & _AMBIGUOUS else set[str]())


def field_name(name: str) -> str:
    """The name itself if it is valid for Python and pydantic, else a valid one."""
    if is_plain(name) and not name.startswith(("_", "model_")) and name not in _MODEL_ATTRIBUTES:
        return name
    plain = "_".join(_WORDS.findall(name)) or "field"
    return f"{plain}_" if is_plain(plain) else f"f_{plain}"


def member_name(value: object) -> str:
    name = "_".join(_WORDS.findall(str(value))).upper()
    return name if is_plain(name) else f"V_{name}"


def is_plain(name: str) -> bool:
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name)


def _quoted(text: str) -> str:
    shown = repr(text)
    if shown[0] == "'" and '"' not in shown:
        plain = shown[1:-1].replace("\\'", "'")
        return f'"{plain}"'
    return shown


def _outermost(text: str) -> tuple[int, int] | None:
    """The positions of the last outermost brackets that are not empty, or None."""
    found, begin = None, 0
    for n, character, depth in _characters(text):
        if character in _OPENING and depth == 1:
            begin = n
        elif character in _CLOSING and depth == 0 and n > begin + 1:
            found = begin, n
    return found


def _parts(text: str) -> Iterator[str]:
    """Split at the commas that are outside of brackets."""
    begin = 0
    for n, character, depth in _characters(text):
        if character == "," and depth == 0:
            yield text[begin:n].strip()
            begin = n + 1
    if text[begin:].strip():
        yield text[begin:].strip()


def _characters(text: str) -> Iterator[tuple[int, str, int]]:
    """The characters outside of string literals, with their position and bracket depth."""
    quote, depth, escaped = "", 0, False
    for n, character in enumerate(text):
        if quote:
            quote = quote if escaped or character != quote else ""
            escaped = character == "\\" and not escaped
            continue
        if character in "'\"":
            quote = character
            continue
        depth += (character in _OPENING) - (character in _CLOSING)
        yield n, character, depth


def lines(parts: Iterable[str]) -> str:
    return "\n".join(parts) + "\n"
