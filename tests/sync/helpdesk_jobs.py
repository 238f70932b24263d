"""The service that the tests of the sync client use, and programs that use it from sync code.

`python -m tests.sync.helpdesk_jobs PROGRAM URL` runs one of the programs below.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any, Final

from tests.support.example_service import ExampleJobs, example_jobs
from trellis_jobs import (
    ActiveJob,
    Fail,
    JobsError,
    KeyConcurrency,
    QueueDepth,
    Service,
    SyncJobRef,
)

HELPDESK: Final = example_jobs(
    "helpdesk",
    str,
    str,
    shout={"concurrency": 20},
    keyed={"key": KeyConcurrency(["all"]), "queue": QueueDepth(max_queued_per_key=0)},
)


def helpdesk() -> Service[ExampleJobs[str, str]]:
    service = Service(HELPDESK)

    @service.jobs.shout.handle
    async def shout(active: ActiveJob[str]) -> str:
        if active.payload == "bad":
            raise Fail("not a word")
        active.progress(current=1, total=1)
        return active.payload.upper()

    return service


def fork(url: str) -> None:
    """The parent uses the client, forks, and both go on; the child's exit code is printed."""
    shout = (client := helpdesk().connect_sync(url)).queue(helpdesk().jobs.shout)
    before = shout.create("parent before")
    child = os.fork()
    if child == 0:
        assert before.get().id == before.id, "a reference made before the fork works after it"
        print("created", shout.create("child").id, flush=True)
        sys.exit(0)  # with atexit, as in a server that forks
    _, status = os.waitpid(child, 0)
    print("child", os.waitstatus_to_exitcode(status), flush=True)
    print("created", shout.create("parent after").id, flush=True)
    client.close()


def end(url: str) -> None:
    """Ends with an open client, and a daemon thread that waits for a job that no worker runs."""
    shout = helpdesk().connect_sync(url).queue(helpdesk().jobs.shout)
    ref = shout.create("left alone")

    def wait() -> None:
        with suppress(JobsError):
            ref.wait()

    threading.Thread(target=wait, daemon=True).start()
    print("created", ref.id, flush=True)


def interrupted(url: str) -> None:
    """Ctrl-C while it waits; then the client still works."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ref: SyncJobRef[Any] = helpdesk().connect_sync(url).queue(helpdesk().jobs.shout).create("slow")
    try:
        print("created", ref.id, flush=True)
        ref.wait()
    except KeyboardInterrupt:
        print("interrupted", ref.get().state, flush=True)


if __name__ == "__main__":
    {"fork": fork, "end": end, "interrupted": interrupted}[sys.argv[1]](sys.argv[2])
