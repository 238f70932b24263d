"""The docs also render as a site, and every page of them is in its table of contents."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.blocks import ROOT


def test_the_docs_render_as_a_site_that_has_every_page(tmp_path: Path) -> None:
    build = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path))
    ended = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False, timeout=50)
    assert ended.returncode == 0, ended.stderr
    assert 'not included in the "nav"' not in ended.stderr, ended.stderr
    pages = {page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")}
    assert all((tmp_path / page).with_suffix(".html").exists() for page in pages)
