"""What users may import, and nothing else by accident."""

from __future__ import annotations

import inspect

import pytest

import trellis_jobs
from trellis_jobs import errors

PUBLIC = [
    "Accepted",
    "ActiveJob",
    "Bindings",
    "CallNext",
    "CalledInEventLoop",
    "CertificateRefused",
    "Coalesced",
    "ConnectOptions",
    "CredentialsRefused",
    "CredentialsUnusable",
    "Cron",
    "DeadlineInvalid",
    "DeclarationError",
    "Every",
    "Fail",
    "InboxNotPermitted",
    "InfrastructureError",
    "InfrastructureMismatch",
    "InfrastructureMissing",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobDead",
    "JobDismissed",
    "JobEnded",
    "JobExists",
    "JobExpired",
    "JobFailed",
    "JobIsOver",
    "JobNotFound",
    "JobNotWaiting",
    "JobOptionInvalid",
    "JobRef",
    "JobSkipped",
    "JobSnapshot",
    "JobStale",
    "JobState",
    "Jobs",
    "JobsError",
    "KeyBusy",
    "KeyConcurrency",
    "KeyContention",
    "KeyLease",
    "KeyStateMalformed",
    "KeyUnresolvable",
    "NoAnswer",
    "NoCurrentJob",
    "NotAdmitted",
    "NotConfirmed",
    "NotConnected",
    "NotEncrypted",
    "NotPermitted",
    "PayloadInvalid",
    "PayloadTooLarge",
    "Queue",
    "QueueDepth",
    "QueueFull",
    "Rejected",
    "Replaced",
    "Resource",
    "ResourceUnavailable",
    "ResultInvalid",
    "Retry",
    "RunAtInvalid",
    "ScheduleDeclared",
    "ScheduleNotFound",
    "ScheduleRefused",
    "Secret",
    "Service",
    "Snooze",
    "SomeNotCreated",
    "StreamFull",
    "SyncClient",
    "SyncJobRef",
    "SyncQueue",
    "TlsFiles",
    "TryOptions",
    "Unreachable",
    "WaitTimeout",
    "Workers",
    "WrongEventLoop",
    "current_job",
    "job",
    "upgraded_elsewhere",
]

ERRORS = {
    name: error
    for name, error in vars(errors).items()
    if inspect.isclass(error) and issubclass(error, Exception)
}


def test_the_public_names_are_these() -> None:
    assert trellis_jobs.__all__ == PUBLIC


def test_the_public_names_are_sorted() -> None:
    assert sorted(trellis_jobs.__all__) == trellis_jobs.__all__


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_there_and_says_what_it_is(name: str) -> None:
    assert getattr(trellis_jobs, name).__name__ == name


def test_nothing_else_is_in_the_way_of_a_reader_of_the_package() -> None:
    found = {
        name
        for name, value in vars(trellis_jobs).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert found - {"annotations"} == set(PUBLIC)


def test_the_tree_that_users_read_names_every_error_and_no_other() -> None:
    lines = (errors.__doc__ or "").splitlines()
    drawn = [line.split("── ")[1].split("  ")[0] for line in lines if "── " in line]
    named = {name for branch in drawn for name in branch.split(", ")}
    assert named | {"JobsError", "Retry", "Snooze", "Fail"} == ERRORS.keys()


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_can_be_caught_as_one_of_ours(name: str) -> None:
    chosen_by_handlers = {"Retry", "Snooze", "Fail"}
    assert issubclass(ERRORS[name], errors.JobsError) != (name in chosen_by_handlers)
