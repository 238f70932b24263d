"""Exit codes that scripts rely on, of errors and of commands."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from jobs_admin.api.errors import (
    Denied,
    Invalid,
    NotFound,
    ProjectionMissing,
    ProjectionRebuilding,
    Unexpected,
)
from jobs_admin.cli.exit_codes import Exit, UsageError, exit_code_for, remedy_for, report_error
from tests.cli.shell import shell
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import (
    InfrastructureMissing,
    JobNotFound,
    JobsError,
    NotConfirmed,
    NotPermitted,
    ServiceMissing,
    Unreachable,
)

CODES: dict[JobsError, int] = {
    UsageError("say which"): 2,
    NotFound("there is no job x"): 3,
    JobNotFound("x"): 3,
    Unreachable("nats://127.0.0.1:1", "refused"): 4,
    ServiceMissing("rpc.v1.Jobs.List"): 4,
    NotConfirmed("a request", 1.0): 4,
    Invalid("it is over"): 1,
    Denied("not you"): 1,
    Unexpected("a mistake"): 1,
    ProjectionRebuilding(1, 2): 1,
    InfrastructureMissing("stream JOBS"): 1,
}
READS = (
    ("jobs", "list"),
    ("dlq", "list"),
    ("dlq", "list", "--group"),
    ("keys", "list"),
    ("keys", "get", "lab/work", "acme"),
    ("services",),
)
CHANGES = (
    ("jobs", "cancel", "01J", "--yes"),
    ("jobs", "retry", "--error", "x", "--yes"),
    ("dlq", "replay", "--everything", "--yes"),
    ("dlq", "dismiss", "01J", "--dry-run"),
    ("keys", "release", "lab/work", "acme", "01J", "--yes"),
)


@pytest.fixture(scope="module")
def lone_server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start() as running:
        yield running


@pytest.mark.parametrize(("error", "code"), CODES.items(), ids=lambda it: type(it).__name__)
def test_what_went_wrong_has_a_code(
    error: JobsError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_for(error) == code
    assert report_error(error) is Exit(code)
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: {error}")
    assert printed.endswith(f"{remedy_for(error) or ''}\n")
    assert "?;" not in printed


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (Unreachable("nats://127.0.0.1:1", "refused"), "--nats, NATS_URL or --context"),
        (ServiceMissing("rpc.v1.Jobs.List"), "`trellis-jobs doctor` shows which server"),
        (NotPermitted("rpc.v1.Jobs.List"), "`trellis-jobs doctor` lists what these permit"),
        (ProjectionMissing(Path("x.sqlite")), "name it with --db or TRELLIS_JOBS_DB"),
        (InfrastructureMissing("stream JOBS"), "create it with `trellis-jobs infra apply`"),
        (Invalid("there is no method Jobs.Operate"), "is older than this command: upgrade it"),
    ],
    ids=lambda it: type(it).__name__,
)
def test_what_went_wrong_comes_with_what_to_do(
    error: JobsError, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report_error(error)
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("command", [*READS, *CHANGES, ("workers", "list")], ids=" ".join)
def test_without_a_server_a_command_ends_with_4(command: tuple[str, ...]) -> None:
    ended = shell(*command, "--nats", "nats://127.0.0.1:1")
    assert (ended.code, ended.out) == (4, "")
    assert ended.err.startswith("error: ")
    assert "127.0.0.1:1" in ended.err


@pytest.mark.parametrize("command", [*READS, *CHANGES], ids=" ".join)
def test_without_an_admin_runtime_a_command_ends_with_4(
    lone_server: EmbeddedServer, command: tuple[str, ...]
) -> None:
    ended = shell(*command, "--nats", lone_server.url)
    assert (ended.code, ended.out) == (4, "")
    assert "trellis-jobs admin serve" in ended.err


def test_a_command_line_that_is_wrong_ends_with_2() -> None:
    for command in (
        ("dlq", "list", "--limit", "0"),
        ("jobs", "list", "--state", "x"),
        ("dlq", "x"),
        ("jobs", "list", "--nats", "foo://bar"),
    ):
        ended = shell(*command)
        assert (ended.code, ended.out) == (2, ""), command


def test_several_states_in_one_are_refused_with_how_to_say_them() -> None:
    for command in ("list", "retry"):
        ended = shell("jobs", command, "--state", "dead,failed")
        assert ended.code == 2
        assert "repeat --state for several" in " ".join(ended.err.replace("│", " ").split())


def test_the_version_is_told() -> None:
    told = shell("--version")
    assert (told.code, told.out.strip()) == (0, f"trellis-jobs {metadata.version('trellis-jobs')}")


def test_no_variable_makes_every_command_tell_the_version() -> None:
    told = shell("services", "--help", env={"TRELLIS_JOBS__VERSION": "1"})
    assert (told.code, "Usage" in told.out) == (0, True)
