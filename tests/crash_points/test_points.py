"""The list of crash points is read from the code, and no point of it is forgotten."""

from __future__ import annotations

from pathlib import Path

from tests.crash_points import scope
from tests.crash_points.points import Site, names, sites_in
from tests.crash_points.unpassed import BY_CHANCE, NEVER

CODE = """
class Counter:
    async def close(self):
        try:
            await self.answer(await self.settle())
            await self.answer(1)
        finally:
            await self.leave()

    async def read(self):
        async with self.lock:
            return [await each for each in self.all]

def put(fresh, path, text):
    text.replace("a", "b")
    fresh.replace(path)
    return connection.publish_now(path, text)
"""


def sites(tmp_path: Path, code: str = CODE) -> list[Site]:
    path = tmp_path / "counter.py"
    path.write_text(code)
    return sites_in("shop.counter", path)


def test_each_await_and_each_effect_has_a_name(tmp_path: Path) -> None:
    assert names(sites(tmp_path)) == {
        "shop.counter:Counter.close:self.answer",
        "shop.counter:Counter.close:self.settle",
        "shop.counter:Counter.close:self.answer#2",
        "shop.counter:Counter.close:self.leave",
        "shop.counter:Counter.read:each",
        "shop.counter:put:fresh.replace",
        "shop.counter:put:connection.publish_now",
    }


def test_names_stay_when_lines_move(tmp_path: Path) -> None:
    before = names(sites(tmp_path))
    assert names(sites(tmp_path, "import os\n\n\n" + CODE)) == before


def test_what_is_compiled_twice_is_one_point(tmp_path: Path) -> None:
    leaving = [site for site in sites(tmp_path) if site.point.endswith("self.leave")]
    assert len(leaving) > 1
    assert len({site.before for site in leaving}) == len(leaving)


def test_modules_that_are_left_out_are_there() -> None:
    there = [module for module, _ in scope.modules()]
    for named in scope.OUTSIDE:
        assert any(module == named or module.startswith(f"{named}.") for module in there), named


def test_points_that_are_excused_are_there_and_only_once() -> None:
    excused = [point for points in NEVER.values() for point in points] + [*BY_CHANCE]
    assert set(excused) <= names(scope.all_sites())
    assert len(excused) == len(set(excused))
