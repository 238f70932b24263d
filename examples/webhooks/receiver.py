"""A receiver for the demo: an HTTP server whose paths fail in different ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

from examples.webhooks.app import SECRET
from examples.webhooks.signature import is_genuine

# The answers of each path, one after the other. The last one repeats.
ANSWERS: dict[str, list[tuple[int, dict[str, str]]]] = {
    "/fine": [(200, {})],
    "/flaky": [(502, {}), (502, {}), (200, {})],
    "/busy": [(429, {"Retry-After": "1"}), (200, {})],
    "/gone": [(410, {})],
    "/broken": [(500, {})],
}


class Receiver(BaseHTTPRequestHandler):
    requests: ClassVar[Counter[str]] = Counter()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, headers = self._answer()
        if not is_genuine(body, dict(self.headers.items()), SECRET):
            status, headers = 401, {}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Logs nothing: the history of the jobs has the answers."""

    def _answer(self) -> tuple[int, dict[str, str]]:
        answers = ANSWERS[self.path]
        self.requests[self.path] += 1
        return answers[min(self.requests[self.path], len(answers)) - 1]


@contextmanager
def receiving() -> Iterator[str]:
    Receiver.requests.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
