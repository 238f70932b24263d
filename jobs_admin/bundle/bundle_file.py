"""Bundles as JSON files. docs/reference/bundles.md describes the format.

A file may come from anywhere, so everything in it is checked before it is used.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - pydantic reads the annotation
from typing import Annotated, Any, Final

import orjson
from pydantic import AfterValidator, Field, ValidationError

from jobs_admin.api.errors import BundleInvalid
from jobs_admin.api.inputs import Moment
from jobs_admin.api.views.base import View
from jobs_admin.api.views.creation import ContractView
from jobs_admin.api.views.jobs import ExplanationView, LogEntry
from jobs_admin.bundle.job_bundle import JobBundle
from trellis_jobs.errors import InvalidToken
from trellis_jobs.model import subjects
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.wire.fields import is_too_deep

_NAME: Final = "trellis-jobs.bundle@v"
_VERSION: Final = 1
FORMAT: Final = f"{_NAME}{_VERSION}"
MAX_BYTES: Final = 256 * 1024 * 1024
_MAX_ISSUES: Final = 3
_YEARS: Final = range(1970, 9000)


def _plausible(moment: datetime) -> datetime:
    """Python cannot convert times near its limits to other time zones."""
    if moment.year not in _YEARS:
        raise ValueError("the time is not within the years 1970 to 8999")
    return moment


_Moment = Annotated[Moment, AfterValidator(_plausible)]


class _Entry(View):
    """An entry as it is in the log: an event, or why the message is not one."""

    seq: Annotated[int, Field(ge=1, lt=2**63)]
    subject: str
    stored_at: _Moment
    event: dict[str, Any] | None = None
    undecodable: str | None = None


class _Explanation(ExplanationView):
    since: _Moment | None = None
    until: _Moment | None = None
    deadline: _Moment | None = None


class _File(View):
    """The content of a file. Fields that this version does not know are ignored."""

    format: str
    exported_at: _Moment
    exported_by: str | None = None
    service: str
    type: str
    id: str
    revealed: bool = False
    entries: Annotated[tuple[_Entry, ...], Field(min_length=1)]
    contract: ContractView | None = None
    explanation: _Explanation | None = None


def write_bundle(bundle: JobBundle) -> dict[str, Any]:
    """The content of the file, as JSON."""
    address = bundle.address
    content: dict[str, Any] = {
        "format": FORMAT,
        "exportedAt": bundle.exported_at.isoformat().replace("+00:00", "Z"),
        "exportedBy": bundle.exported_by,
        "service": address.service,
        "type": address.job_type,
        "id": address.job_id,
        "revealed": bundle.revealed,
        "entries": [_written(entry) for entry in bundle.entries],
        "contract": None if bundle.contract is None else _json(bundle.contract),
        "explanation": None if bundle.explanation is None else _json(bundle.explanation),
    }
    return {name: value for name, value in content.items() if value is not None}


def read_bundle(data: bytes) -> JobBundle:
    """Raises BundleInvalid, which says what is wrong."""
    file = _checked(_document(data))
    try:
        address = JobAddress(file.service, file.type, file.id)
    except InvalidToken as error:
        raise BundleInvalid(f"the bundle names no job: {error}") from None
    _check_entries(file.entries, address)
    explanation = file.explanation
    if explanation is not None and not _is_about(explanation, address):
        raise BundleInvalid("the explanation in the bundle is that of another job")
    bundle = JobBundle(
        address=address,
        exported_at=file.exported_at,
        exported_by=file.exported_by,
        revealed=file.revealed,
        entries=tuple(LogEntry(**each.model_dump()) for each in file.entries),
        contract=file.contract,
        explanation=explanation,
    )
    if bundle.job.address != address:
        raise BundleInvalid("the events in the bundle are those of another job")
    return bundle


def _document(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_BYTES:
        raise BundleInvalid(f"the file has {len(data):,} bytes, the limit is {MAX_BYTES:,}")
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BundleInvalid(f"the file is not JSON, or not all of it: {error}") from None
    if not isinstance(document, dict):
        raise BundleInvalid("the file is not a bundle: it is not a JSON object")
    if is_too_deep(document):
        raise BundleInvalid("the file is not a bundle: its JSON is nested too deep")
    form = document.get("format")
    if not isinstance(form, str) or not form.startswith(_NAME):
        raise BundleInvalid(f"the file is not a bundle: its format is not {FORMAT}")
    if form != FORMAT:
        raise BundleInvalid(
            f"the bundle has the format {form[:80]}, and this version reads {FORMAT}: "
            "use the version of trellis-jobs that wrote it"
        )
    return document


def _checked(document: dict[str, Any]) -> _File:
    try:
        return _File.model_validate(document)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[:_MAX_ISSUES]
        issues = "; ".join(
            f"/{'/'.join(str(part)[:100] for part in each['loc'])}: {each['msg']}" for each in found
        )
        raise BundleInvalid(f"the bundle is damaged: {issues}") from None


def _check_entries(entries: tuple[_Entry, ...], address: JobAddress) -> None:
    prefix, last = subjects.history(address).removesuffix(">"), 0
    for each in entries:
        if not each.subject.startswith(prefix):
            raise BundleInvalid(f"entry {each.seq} of the bundle belongs to another job")
        if each.seq <= last:
            raise BundleInvalid(f"entry {each.seq} of the bundle does not follow entry {last}")
        last = each.seq


def _is_about(explanation: ExplanationView, job: JobAddress) -> bool:
    return (explanation.service, explanation.type, explanation.id) == (
        job.service,
        job.job_type,
        job.job_id,
    )


def _written(entry: LogEntry) -> dict[str, Any]:
    kept = {"seq", "subject", "stored_at", "event", "undecodable"}
    return entry.model_dump(mode="json", by_alias=True, include=kept, exclude_none=True)


def _json(view: View) -> Any:
    return orjson.loads(view.encode())
