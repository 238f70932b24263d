"""Every block of docs/guides/testing.md, run as a reader would run it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.testing.user_project import run_pytest

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "testing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(python|toml)\n# (\S+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def write_blocks(folder: Path) -> None:
    for _, name, content in BLOCKS:
        (folder / name).write_text(content, encoding="utf-8")


def test_every_block_of_code_is_a_file_of_the_project() -> None:
    assert len(BLOCKS) == len(re.findall(r"^```(?:python|toml)$", GUIDE, re.MULTILINE)) == 7


def test_the_tests_in_the_guide_pass(tmp_path: Path) -> None:
    write_blocks(tmp_path)
    written = sum(content.count("async def test_") for _, _, content in BLOCKS)
    result = run_pytest(tmp_path)
    assert result.counts == {"passed": written}, result.text


def test_the_fixture_and_the_failure_in_the_guide_are_true(tmp_path: Path) -> None:
    write_blocks(tmp_path)
    (tmp_path / "test_failing.py").write_text(
        "from shop import service, sign_up\n"
        "from trellis_jobs.testing import assert_enqueued\n"
        "async def test_bob(shop):\n"
        "    await sign_up('ada@example.com')\n"
        "    await assert_enqueued(shop.jobs.send_email, {'to': 'bob@example.com'})\n",
        encoding="utf-8",
    )
    result = run_pytest(tmp_path, "test_failing.py")
    assert result.counts == {"failed": 1}, result.text
    (shown,) = re.findall(r"^```text\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    for line in shown.splitlines():
        assert re.sub("[0-9A-Z]{26}", "", line) in re.sub("[0-9A-Z]{26}", "", result.text)
