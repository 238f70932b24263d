"""How many inputs each test tries, and from which seed: few and always the same, unless told."""

from __future__ import annotations

import os
from typing import Final

INPUTS: Final = int(os.environ.get("FUZZ_INPUTS", "400"))
# Past a running worker, which does the jobs that come of them.
LIVE: Final = min(INPUTS, 1_500)
# Requests to a running admin runtime.
ASKED: Final = INPUTS * 3 // 4
SEED: Final = int(os.environ.get("FUZZ_SEED", "20260328"))
