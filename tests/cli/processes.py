"""Processes as Linux knows them."""

from __future__ import annotations

from pathlib import Path


def children(pid: int) -> list[int]:
    """Listed under the thread that made them."""
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for each in listed for child in _read(each).split()]


def _read(listed: Path) -> str:
    try:
        return listed.read_text()
    except OSError:  # the thread ended meanwhile
        return ""


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
