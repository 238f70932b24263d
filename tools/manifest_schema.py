"""Writes contracts/manifest.schema.json: `python -m tools.manifest_schema`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from trellis_jobs.contract.manifest import manifest_schema

FILE: Final = Path(__file__).parents[1] / "contracts" / "manifest.schema.json"


def text() -> str:
    return json.dumps(manifest_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
