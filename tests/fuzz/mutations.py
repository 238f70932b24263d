"""Corrupted messages: valid ones changed here and there, pieces of them, and noise.

Everything comes from one seeded source of chance, so an input that breaks something can be made
again from the seed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any, Final

_DEEP: Final = (3, 60, 240, 260, 500, 1_010, 1_100)
# Up to six digits: a mutated mark may have hundreds.
_DEEP_MARK: Final = re.compile(rb'"@deep (\d{1,6}) (.)"')
_LONG: Final = (129, 600, 5_000)
_MAX_CHANGES: Final = 3

ODD_TEXTS: Final = (
    "", " ", "a.b", "*", ">", "workers", "\x00", "x\r\nPUB y 0\r\n", "ß", "٣", "²", "\U0001f600",
    "null", "-1", "1e999", "NaN", "/", "/*", "/*/*", "~2", "%s", "{}", "'; --", "9" * 400,
    "2026-07-01T09:00:00", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-14:00", "2026-07-01T24:00:00Z",
)  # fmt: skip
ODD_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 2, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30,
    0.5, -0.0, 1e308, 5e-324, [], {}, [[]], [{}], {"": {}}, *ODD_TEXTS,
)  # fmt: skip
_ODD_BYTES: Final = (b"\x00", b"\xff", b"\xed\xa0\x80", b'"', b"{", b"]", b"\\u", b"\r\n", b"1e9")


class Mutator:
    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)  # noqa: S311 - the same every time

    def message(self, seeds: Sequence[bytes]) -> bytes:
        """One of the messages, corrupt, or noise."""
        (make,) = self._chance.choices(
            (self._changed, self._scratched, self._spliced, self._invented, self._noise),
            (12, 2, 2, 2, 1),
        )
        return make(seeds)

    def block(self, seeds: Sequence[bytes]) -> bytes:
        """For bytes that are no JSON: what a server sends."""
        (make,) = self._chance.choices((self._scratched, self._spliced, self._noise), (6, 3, 1))
        return make(seeds)

    def text(self, seeds: Sequence[str]) -> str:
        """For what is no JSON: subjects, headers, what people type."""
        text = self._chance.choice(seeds)
        for _ in range(self._chance.randint(1, _MAX_CHANGES)):
            text = self._chance.choice((self._retoken, self._retype, self._cut))(text)
        return text

    def _changed(self, seeds: Sequence[bytes]) -> bytes:
        """Still JSON, with other values, names or shapes in some places."""
        body = json.loads(self._chance.choice(seeds))
        for _ in range(self._chance.randint(1, _MAX_CHANGES)):
            body = self._change(body, seeds)
        return written(body)

    def _scratched(self, seeds: Sequence[bytes]) -> bytes:
        data = bytearray(self._chance.choice(seeds))
        for _ in range(self._chance.randint(1, 4)):
            at = self._chance.randrange(len(data) + 1)
            width = self._chance.choice((0, 1, 1, 8))
            data[at : at + width] = self._chance.choice(
                (*_ODD_BYTES, b"", self._chance.randbytes(2))
            )
        return bytes(data)

    def _spliced(self, seeds: Sequence[bytes]) -> bytes:
        first, second = self._chance.choice(seeds), self._chance.choice(seeds)
        begin = first[: self._chance.randrange(len(first) + 1)]
        return begin + second[self._chance.randrange(len(second) + 1) :]

    def _invented(self, _seeds: Sequence[bytes]) -> bytes:
        return written(self._value(3))

    def _noise(self, _seeds: Sequence[bytes]) -> bytes:
        return self._chance.randbytes(self._chance.randrange(80))

    def _change(self, body: Any, seeds: Sequence[bytes]) -> Any:
        """Somewhere in the value, at any depth."""
        if isinstance(body, dict | list) and body and self._chance.random() < 0.8:
            place = self._chance.choice(list(body) if isinstance(body, dict) else range(len(body)))
            if self._chance.random() < 0.15:
                return self._without(body, place)
            changed = body.copy()
            changed[place] = self._change(body[place], seeds)
            return changed
        return self._replaced(body, seeds)

    def _without(self, body: Any, place: Any) -> Any:
        changed = body.copy()
        taken = changed.pop(place)
        if isinstance(changed, dict) and self._chance.random() < 0.5:
            changed[self._chance.choice(ODD_TEXTS)] = taken
        return changed

    def _replaced(self, body: Any, seeds: Sequence[bytes]) -> Any:
        ways: tuple[Callable[[], Any], ...] = (
            lambda: self._chance.choice(ODD_VALUES),
            lambda: self._chance.choice(ODD_VALUES),
            lambda: self._value(2),
            lambda: self._transplant(seeds),
            lambda: f"@deep {self._chance.choice(_DEEP)} {self._chance.choice('[{')}",
            lambda: [deepcopy(body) for _ in range(self._chance.choice((1, 2, 40)))],
            lambda: self._near(body),
            lambda: {"unheard-of": body, **(body if isinstance(body, dict) else {})},
        )
        return self._chance.choice(ways)()

    def _near(self, body: Any) -> Any:
        """Of the same type, and a little off."""
        if isinstance(body, str):
            return self._chance.choice((self._retoken, self._retype, self._cut))(body)
        if isinstance(body, int | float):
            return body + self._chance.choice((-1, 1, 0.5, 10**6, -(10**20)))
        return self._chance.choice((str(body), [body], {"value": body}))

    def _transplant(self, seeds: Sequence[bytes]) -> Any:
        """What stands somewhere else, in this message or another."""
        found = json.loads(self._chance.choice(seeds))
        while isinstance(found, dict | list) and found and self._chance.random() < 0.8:
            found = self._chance.choice(list(found.values()) if isinstance(found, dict) else found)
        return found

    def _value(self, depth: int) -> Any:
        if depth == 0 or self._chance.random() < 0.4:
            return self._chance.choice(ODD_VALUES)
        inner = [self._value(depth - 1) for _ in range(self._chance.randrange(4))]
        if self._chance.random() < 0.5:
            return inner
        return {self._chance.choice(ODD_TEXTS): each for each in inner}

    def _retoken(self, text: str) -> str:
        separator = self._chance.choice((".", " ", ":", "/"))
        parts = text.split(separator)
        at = self._chance.randrange(len(parts))
        parts[at : at + self._chance.choice((0, 1))] = [self._chance.choice(ODD_TEXTS)]
        return separator.join(parts)

    def _retype(self, text: str) -> str:
        at = self._chance.randrange(len(text) + 1)
        typed = self._chance.choice((*ODD_TEXTS, "x" * self._chance.choice(_LONG)))
        return text[:at] + typed + text[at + self._chance.choice((0, 1)) :]

    def _cut(self, text: str) -> str:
        return text[: self._chance.randrange(len(text) + 1)]


def _deep(match: re.Match[bytes]) -> bytes:
    depth, opening = int(match[1]), match[2]
    closing = b"]" if opening == b"[" else b"}"
    return (b"[" if opening == b"[" else b'{"a":') * depth + b"1" + closing * depth


def written(body: Any) -> bytes:
    """With values nested deeper than json could write them, where their marks are."""
    return _DEEP_MARK.sub(_deep, json.dumps(body).encode())
