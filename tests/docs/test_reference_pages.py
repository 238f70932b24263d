from __future__ import annotations

import pytest

from tools.reference.write import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_what_the_reference_says_is_true_today(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run: make docs"
