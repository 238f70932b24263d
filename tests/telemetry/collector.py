"""A small OTLP receiver over HTTP that keeps what programs send, by signal."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Collector:
    """Names and attributes are in a body as they are, so they are found without its schema."""

    url: str
    bodies: dict[str, bytes] = field(default_factory=lambda: defaultdict(bytes))

    def has(self, signal: str, *words: str) -> bool:
        return all(word.encode() in self.bodies[signal] for word in words)


@contextmanager
def collecting() -> Iterator[Collector]:
    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            signal = self.path.rpartition("/")[2]
            collector.bodies[signal] += self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
