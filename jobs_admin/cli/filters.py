"""The job filters of the admin runtime, as command line options."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from jobs_admin.api.filter_text import FIELDS, FilterTextError, parse_filter, read_scalar
from jobs_admin.api.job_filter import JobFilter, Scalar
from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.cli.time_options import moment_ago
from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.identity import check_token
from trellis_jobs.model.states import JobState

PANEL: Final = "Filters"
_STATES: Final = [state.value for state in JobState]


def _token(text: str | None) -> str | None:
    """Check a name before it is sent, so that the error names the option."""
    try:
        return None if text is None else check_token("name", text)
    except InvalidToken as error:
        raise typer.BadParameter(str(error)) from None


Service = Annotated[
    str | None,
    typer.Option("--service", help="Only this service.", callback=_token, rich_help_panel=PANEL),
]
Type = Annotated[
    str | None,
    typer.Option("--type", help="Only this job type.", callback=_token, rich_help_panel=PANEL),
]


def _state(text: str) -> JobState:
    if text not in _STATES:
        raise typer.BadParameter(
            f"{text!r} is not one of {', '.join(_STATES)}; repeat --state for several",
            param_hint="--state",
        )
    return JobState(text)


States = Annotated[
    list[JobState] | None,
    typer.Option(
        "--state",
        help=f"Only jobs in this state: {', '.join(_STATES)}. May be repeated.",
        metavar="STATE",
        parser=_state,
        autocompletion=lambda: _STATES,
        rich_help_panel=PANEL,
    ),
]


FilterWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILTER",
        help='The filter as text, such as \'state:dead type:shop/charge error:"503 from" '
        f"since:2h'. The fields are {', '.join(FIELDS)}.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """An option that is not given does not restrict the result."""

    service: Service = None
    type: Type = None
    since: Annotated[
        str | None,
        typer.Option(
            help="Only jobs changed since this time: 10m, 2h, 3d ago, or RFC 3339.",
            metavar="TIME",
            rich_help_panel=PANEL,
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(
            help="Only jobs not changed since this time.", metavar="TIME", rich_help_panel=PANEL
        ),
    ] = None
    key: Annotated[
        str | None, typer.Option(help="Only jobs with this concurrency key.", rich_help_panel=PANEL)
    ] = None
    id_prefix: Annotated[
        str | None,
        typer.Option(
            help="Only jobs whose id starts with this.", callback=_token, rich_help_panel=PANEL
        ),
    ] = None
    error: Annotated[
        str | None,
        typer.Option(help="Only jobs whose last error contains this text.", rich_help_panel=PANEL),
    ] = None
    app_version: Annotated[
        str | None,
        typer.Option(
            help="Only jobs whose newest try ran in this version of the application.",
            rich_help_panel=PANEL,
        ),
    ] = None
    request_id: Annotated[
        str | None,
        typer.Option(help="Only jobs created under this request id.", rich_help_panel=PANEL),
    ] = None
    trace_id: Annotated[
        str | None,
        typer.Option(
            help="Only jobs created under this trace id, of 32 digits.", rich_help_panel=PANEL
        ),
    ] = None
    schedule: Annotated[
        str | None,
        typer.Option(
            help="Only jobs that the schedule with this name created.",
            callback=_token,
            rich_help_panel=PANEL,
        ),
    ] = None
    payload: Annotated[
        list[str] | None,
        typer.Option(
            help="Only jobs with this payload field: customer.id=17 matches the number and the "
            "string, customer.id='\"17\"' only the string. May be repeated.",
            metavar="FIELD=VALUE",
            rich_help_panel=PANEL,
        ),
    ] = None

    @property
    def has_filters(self) -> bool:
        return self.query() != JobFilter()

    def query(self, states: list[JobState] | None = None) -> JobFilter:
        now = datetime.now(UTC)
        return JobFilter(
            service=self.service,
            type=self.type,
            state=states or None,
            since=moment("--since", self.since, now),
            until=moment("--until", self.until, now),
            key=self.key,
            id_prefix=self.id_prefix,
            error=self.error,
            app_version=self.app_version,
            request_id=self.request_id,
            trace_id=self.trace_id,
            schedule=self.schedule,
            payload=dict(map(_field, self.payload)) if self.payload else None,
        )


def combined(options: JobFilter, words: list[str] | None) -> JobFilter:
    """The filter of the options and that of the text, as one. A field may be in one of them."""
    try:
        written = parse_filter(" ".join(words or ()), datetime.now(UTC), zone=None)
    except FilterTextError as error:
        raise UsageError(str(error)) from None
    given, more = _set_fields(options), _set_fields(written)
    payload = given.pop("payload", {}), more.pop("payload", {})
    for field in (given.keys() & more.keys()) | (payload[0].keys() & payload[1].keys()):
        raise UsageError(f"{field} is given by an option and in the filter text: remove one")
    return JobFilter(**given, **more, payload=payload[0] | payload[1] or None)


def _set_fields(query: JobFilter) -> dict[str, Any]:
    return {name: value for name, value in query if value is not None}


def moment(option: str, text: str | None, now: datetime) -> datetime | None:
    return None if text is None else moment_ago(option, text, now)


def _field(text: str) -> tuple[str, Scalar]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise typer.BadParameter(f"{text!r} is not FIELD=VALUE", param_hint="--payload")
    return name, read_scalar(value)
