"""Web applications of examples as real processes, and requests to them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.docs.blocks import ROOT


@dataclass(frozen=True)
class Web:
    """A server on a free port; `post` and `get` return the status and the JSON body."""

    port: int

    def post(self, path: str, body: object) -> tuple[int, Any]:
        data = json.dumps(body).encode()
        return self._ask(
            urllib.request.Request(  # noqa: S310 - our own server
                self._url(path), data, {"Content-Type": "application/json"}
            )
        )

    def get(self, path: str) -> tuple[int, Any]:
        return self._ask(urllib.request.Request(self._url(path)))  # noqa: S310 - our own server

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def _ask(self, request: urllib.request.Request) -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)


@contextmanager
def serving(*argv: str, **environment: str) -> Iterator[Web]:
    """Run `python -m argv` with a socket that listens already, {fd} in argv, and stop it by TERM.

    Requests wait in the socket until the server takes them, so nothing has to be waited for.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        fd = listening.fileno()
        process = subprocess.Popen(
            (sys.executable, "-m", *(word.format(fd=fd) for word in argv)),
            cwd=ROOT,
            env={**os.environ, **environment},
            pass_fds=[fd],
        )
        try:
            yield Web(listening.getsockname()[1])
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        finally:
            process.kill()
            process.wait()
