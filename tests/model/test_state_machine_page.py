from __future__ import annotations

from tools.states_page import PAGE, page


def test_the_page_about_states_says_what_the_rules_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tools.states_page"
