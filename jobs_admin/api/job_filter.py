"""The filter that selects jobs in lists and bulk operations."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from trellis_jobs.model.states import JobState

Scalar = str | int | float | bool


class FilterFields(BaseModel):
    """All fields of a filter except the state, which requests about dead jobs do not take."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        defer_build=True,
    )

    service: str | None = None
    type: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    key: str | None = None
    id_prefix: str | None = None
    error: str | None = None
    app_version: str | None = None
    request_id: str | None = None
    trace_id: str | None = None
    schedule: str | None = None
    payload: dict[str, Scalar] | None = None
    error_group: str | None = None
    jobs: list[str] | None = None


class JobFilter(FilterFields):
    """A field that is None does not restrict the selection.

    `since` and `until` compare with the time of the job's last change. A number or boolean in
    `payload` also matches the same value stored as text, because a caller may not know the type;
    text matches only text. `app_version` is that of the worker that started the newest try.
    `request_id` and `trace_id` are those under which the job was created, `schedule` is the name of
    the schedule that created it. `error_group` is the id of a group of jobs with similar errors
    (Jobs.GroupErrors). `jobs` are single jobs, as `service/type/id`.
    """

    state: list[JobState] | None = None

    @property
    def is_impossible(self) -> bool:
        is_empty_range = (
            self.since is not None and self.until is not None and self.since >= self.until
        )
        has_empty_list = any(each is not None and not each for each in (self.state, self.jobs))
        return is_empty_range or has_empty_list

    @property
    def is_counted(self) -> bool:
        """True if only service, type, state and error are set: the projection counts by them."""
        return not (self.since or self.until or self.needs_rows)

    @property
    def is_counted_by_change(self) -> bool:
        """True if only service, type, state and the time of the last change are set."""
        return self.error is None and not self.needs_rows

    @property
    def needs_rows(self) -> bool:
        """True if no counter has the fields that are set, so that the rows of jobs must be read."""
        is_by_job = self.jobs is not None or self.error_group is not None
        return is_by_job or bool(self.key or self.id_prefix or self.app_version or self.has_values)

    @property
    def has_values(self) -> bool:
        """True if fields are set that the projection stores as hashes of their values."""
        return bool(self.payload or self.origins)

    @property
    def is_one_origin(self) -> bool:
        """True if only one of `request_id`, `trace_id` and `schedule` is set, and nothing else."""
        return len(self.origins) == 1 and len(self.model_dump(exclude_none=True)) == 1

    @property
    def origins(self) -> dict[str, str]:
        """The fields that are set about where a job comes from, those of the fewest jobs first."""
        fields = {"requestId": self.request_id, "traceId": self.trace_id, "schedule": self.schedule}
        return {name: value for name, value in fields.items() if value is not None}
