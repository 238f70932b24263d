"""Run commands one after the other, each in a fork: to import everything again takes a second.

Reads `[[environment, arguments], …]` as JSON, and prints `[[exit code, output], …]`.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
import tempfile
import traceback
from typing import Any, NoReturn

import jobs_admin
import trellis_jobs
from jobs_admin.cli.app import command_line


def walk(environment: dict[str, str], arguments: list[str]) -> tuple[int, str]:
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            run(output.fileno(), environment, arguments)
        _, status = os.waitpid(child, 0)
        output.seek(0)
        return os.waitstatus_to_exitcode(status), output.read().decode()


def run(output: int, environment: dict[str, str], arguments: list[str]) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        os.dup2(output, stream.fileno())
    os.environ.clear()
    os.environ.update(environment)
    code: Any = 1
    try:
        command_line()(arguments)
    except SystemExit as left:
        code = left.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(code or 0))


def import_all() -> None:
    """What commands import only when they are run."""
    for package in (jobs_admin, trellis_jobs):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


if __name__ == "__main__":
    import_all()
    print(json.dumps([walk(*step) for step in json.load(sys.stdin)]))
