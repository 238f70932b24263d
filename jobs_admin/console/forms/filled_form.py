"""Makes a payload from what a person has filled into a form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from jobs_admin.console.forms.schema_fields import FieldKind, FormField
from trellis_jobs.model.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class FilledForm:
    """`payload` is None if `problems`, by JSON Pointer, say why there is none."""

    payload: Any
    problems: dict[str, str]


def read_form(fields: Sequence[FormField], given: Mapping[str, str]) -> FilledForm:
    """Read the values of a form, which are under the names of its fields.

    Whether the values are valid for the queue is for the admin runtime to say; a problem here is
    text that cannot be read as the type of its field.
    """
    payload: Any = {}
    problems: dict[str, str] = {}
    for field in fields:
        try:
            value = _value(field, given.get(field.name, ""))
        except ValueError as error:
            problems[field.pointer] = str(error)
            continue
        if value is not _LEFT_OUT:
            payload = _put(payload, field.pointer, value)
    return FilledForm(None if problems else payload, problems)


def kept(field: FormField, given: Mapping[str, str]) -> FormField:
    """The field as it was filled in, except secrets: they are never sent back.

    They must be entered again, and so must those that were hidden in the form that was sent.
    """
    text = given.get(field.name, "")
    if not field.secrets:
        return replace(field, text=text)
    shown = _without_secrets(field, text) if text else field
    was_hidden = text or given.get(f"again{field.pointer}")
    return replace(shown, again=shown.again or ((field.pointer,) if was_hidden else ()))


def _without_secrets(field: FormField, text: str) -> FormField:
    try:
        value = _value(field, text)
    except ValueError:
        # JSON with a mistake stays, so that its author can correct it.
        is_secret = "" in field.secrets or field.kind is FieldKind.LINES
        return replace(field, text="" if is_secret else text)
    return field.filled(redacted(value, field.secrets))


_LEFT_OUT = object()


def _value(field: FormField, text: str) -> Any:
    if field.kind is FieldKind.CHECKBOX:
        return text != ""
    if text == "" and (not field.required or field.kind is not FieldKind.TEXT):
        return _LEFT_OUT
    if field.kind is FieldKind.LINES:
        return [_scalar(field.item, line.strip()) for line in text.splitlines() if line.strip()]
    return _scalar(field.kind, text)


def _scalar(kind: FieldKind, text: str) -> Any:
    match kind:
        case FieldKind.INTEGER:
            return _number(text, int)
        case FieldKind.NUMBER:
            return _number(text, float)
        case FieldKind.JSON | FieldKind.CHOICE:
            return _json(text)
        case _:
            return text.replace("\r\n", "\n")


def _number(text: str, kind: type[int] | type[float]) -> int | float:
    try:
        return kind(text.strip())
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise ValueError(f"{text!r} is not {what}") from None


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error}") from None


def _put(payload: Any, pointer: str, value: Any) -> Any:
    if pointer == "":
        return value
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]
    place = payload
    for name in parents:
        place = place.setdefault(name, {})
    place[last] = value
    return payload
