"""No span or metric contains the secrets of a job, even if its errors quote them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import trellis_jobs
from tests.support.planted import found_in
from trellis_jobs.embedded import EmbeddedServer


def test_exported_telemetry_has_no_secrets(server: EmbeddedServer) -> None:
    argv = (sys.executable, "-m", "tests.telemetry.planted_spans", server.url)
    root = Path(trellis_jobs.__file__).parent.parent
    exported = subprocess.check_output(argv, cwd=root, text=True)
    assert "RuntimeError" in exported
    assert "cannot charge [secret]" in exported
    assert found_in(exported) == []
