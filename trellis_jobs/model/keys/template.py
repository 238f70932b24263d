"""Compute a job's key from its queue's key template and its payload.

A segment that starts with `/` is a JSON Pointer into the payload; any other is a constant. The
display key is for people and not unique. The hash is unique and the same in all Trellis runtimes.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import DeclarationError, KeyUnresolvable
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from trellis_jobs.model.json_values import Json

Scalar = str | int | float | bool

_BAD_ESCAPE: Final = re.compile(r"~(?![01])")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,17}")
_EXACT_INTEGERS: Final = 2**53
# ECMAScript formats numbers without an exponent within these bounds.
_PLAIN_DIGITS: Final = 21
_PLAIN_ZEROS: Final = -6


class JobKey(Value, frozen=True):
    display: str
    hash: str


class KeyTemplate(Value, frozen=True):
    segments: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.segments:
            raise DeclarationError("a key needs at least one segment, such as '/customer/id'")
        for segment in self.segments:
            _check(segment)

    def resolve(self, payload: Json) -> JobKey:
        values = [
            _value_at(payload, segment) if segment.startswith("/") else segment
            for segment in self.segments
        ]
        typed = ",".join(_typed(value) for value in values)
        document = f'{{"version":1,"segments":[{typed}]}}'
        digest = hashlib.sha256(document.encode()).hexdigest()
        return JobKey(":".join(_shown(value) for value in values), digest)


def _check(segment: object) -> None:
    if not isinstance(segment, str) or not _is_text(segment):
        raise DeclarationError(f"a key segment must be text, found {segment!r}")
    if not segment:
        raise DeclarationError("a key segment cannot be empty")
    if segment.startswith("/") and _BAD_ESCAPE.search(segment):
        raise DeclarationError(
            f"key pointer {segment!r} has a bad escape: use '~0' for '~' and '~1' for '/'"
        )


def _value_at(payload: Json, pointer: str) -> Scalar:
    found: Json = payload
    for part in pointer[1:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and _INDEX.fullmatch(name) and int(name) < len(found):
            found = found[int(name)]
        else:
            raise KeyUnresolvable(pointer)
    if not isinstance(found, str | int | float) or not _can_be_hashed(found):
        raise KeyUnresolvable(pointer)
    return found


def _can_be_hashed(value: Scalar) -> bool:
    """Numbers must be finite doubles and strings valid UTF-8, as other runtimes read them."""
    if isinstance(value, str):
        return _is_text(value)
    return -sys.float_info.max <= value <= sys.float_info.max


def _is_text(value: str) -> bool:
    """False for lone surrogates, which cannot be stored as UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _typed(value: Scalar) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else _shown(value)


def _shown(value: Scalar) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) <= _EXACT_INTEGERS:
        return str(value)
    return _ecmascript(float(value))


def _ecmascript(number: float) -> str:
    """Format a number like JavaScript: 1.0 is `1`, 1e21 is `1e+21`, 1e-7 is `1e-7`."""
    if number == 0:
        return "0"
    negative, shortest, exponent = Decimal(repr(number)).as_tuple()
    padded = "".join(map(str, shortest))
    digits, point = padded.rstrip("0"), len(padded) + int(exponent)
    return ("-" if negative else "") + _with_point(digits, point)


def _with_point(digits: str, point: int) -> str:
    """Place the decimal point after `point` digits, or use an exponent if that is far away."""
    if len(digits) <= point <= _PLAIN_DIGITS:
        return digits.ljust(point, "0")
    if 0 < point <= _PLAIN_DIGITS:
        return f"{digits[:point]}.{digits[point:]}"
    if _PLAIN_ZEROS < point <= 0:
        return f"0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"
