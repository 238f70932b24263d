"""Writes contracts/trellis.jobs@v1.json: `python -m tools.rpc_contract`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from jobs_admin.api.contract import ID, contract

FILE: Final = Path(__file__).parents[1] / "contracts" / f"{ID}.json"


def text() -> str:
    return json.dumps(contract(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
