"""Which jobs a command is about: the filters of the admin runtime, as options."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import orjson
import typer

from jobs_admin.api.client import JobQuery
from jobs_admin.api.job_filter import Scalar
from jobs_admin.cli.durations import moment_ago
from trellis_jobs.model.states import JobState

PANEL: Final = "Which jobs"
_STATES: Final = [state.value for state in JobState]

Service = Annotated[
    str | None, typer.Option("--service", help="Of this service.", rich_help_panel=PANEL)
]
Type = Annotated[str | None, typer.Option("--type", help="Of this type.", rich_help_panel=PANEL)]


def _state(text: str) -> JobState:
    if text not in _STATES:
        raise typer.BadParameter(
            f"{text!r} is none of {', '.join(_STATES)}; for several, repeat --state",
            param_hint="--state",
        )
    return JobState(text)


States = Annotated[
    list[JobState] | None,
    typer.Option(
        "--state",
        help=f"In this state: {', '.join(_STATES)}; may be repeated.",
        metavar="STATE",
        parser=_state,
        autocompletion=lambda: _STATES,
        rich_help_panel=PANEL,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What is left out does not narrow."""

    service: Service = None
    type: Type = None
    since: Annotated[
        str | None,
        typer.Option(
            help="Changed since then: 10m, 2h, 3d, or RFC 3339.",
            metavar="TIME",
            rich_help_panel=PANEL,
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(help="Not changed since then.", metavar="TIME", rich_help_panel=PANEL),
    ] = None
    key: Annotated[
        str | None, typer.Option(help="With this concurrency key.", rich_help_panel=PANEL)
    ] = None
    id_prefix: Annotated[
        str | None, typer.Option(help="Whose id begins so.", rich_help_panel=PANEL)
    ] = None
    error: Annotated[
        str | None,
        typer.Option(help="With this text in their last error.", rich_help_panel=PANEL),
    ] = None
    payload: Annotated[
        list[str] | None,
        typer.Option(
            help="Whose payload has this: customer.id=17, which finds the number and the text, "
            "or with '\"17\"' only the text; may be repeated.",
            metavar="FIELD=VALUE",
            rich_help_panel=PANEL,
        ),
    ] = None

    @property
    def is_narrow(self) -> bool:
        return self.query() != JobQuery()

    def query(self, states: list[JobState] | None = None) -> JobQuery:
        now = datetime.now(UTC)
        return JobQuery(
            service=self.service,
            type=self.type,
            state=states or None,
            since=moment("--since", self.since, now),
            until=moment("--until", self.until, now),
            key=self.key,
            id_prefix=self.id_prefix,
            error=self.error,
            payload=dict(map(_field, self.payload)) if self.payload else None,
        )


def moment(option: str, text: str | None, now: datetime) -> datetime | None:
    return None if text is None else moment_ago(option, text, now)


def _field(text: str) -> tuple[str, Scalar]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise typer.BadParameter(f"{text!r} is not FIELD=VALUE", param_hint="--payload")
    return name, _scalar(value)


def _scalar(text: str) -> Scalar:
    """What it reads as in JSON (17, true, "17"): 17 finds "17" too, but 1.10 would find "1.1"."""
    try:
        read = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    if isinstance(read, str):
        return read
    is_written_so = isinstance(read, int | float) and orjson.dumps(read).decode() == text
    return read if is_written_so else text
