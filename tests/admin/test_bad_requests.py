"""Whatever a stranger sends is answered with what is wrong about it, and changes nothing (G10)."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import orjson
import pytest

from jobs_admin.api.views.health import HealthView
from jobs_admin.reads import services
from tests.admin.admin_lab import AdminLab, Stranger
from tests.support.example_service import Task
from trellis_jobs.jetstream.client import api
from trellis_jobs.model.states import JobState

METHODS = (
    "Jobs.Health",
    "Jobs.ListServices",
    "Jobs.ListIgnored",
    "Jobs.List",
    "Jobs.Get",
    "Jobs.ListDLQ",
    "Jobs.Events",
    "Jobs.Explain",
    "Jobs.Stats",
    "Jobs.Cancel",
    "Jobs.Retry",
    "Jobs.ReplayDLQ",
    "Jobs.DismissDLQ",
    "Jobs.GetKey",
    "Jobs.ListQueues",
    "Jobs.PauseQueue",
    "Jobs.ResumeQueue",
    "Jobs.Doctor",
    "Jobs.Attention",
)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "data",
    [b"{", b"\xff\xfe", b"[]", b'"List"', b"null", b"17", b"{'id': 1}", b"[" * 60_000],
    ids=["cut", "no utf-8", "array", "string", "null", "number", "python", "deep"],
)
async def test_what_is_no_json_object_is_refused(lab: AdminLab, method: str, data: bytes) -> None:
    told = await lab.stranger.refused(method, data)
    assert told["type"] == "ValidationError"
    assert told["issues"]
    assert told["context"]["method"] == method


BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("Jobs.List", {}, "/limit", "required"),
    ("Jobs.List", {"limit": 0}, "/limit", "greater than or equal to 1"),
    ("Jobs.List", {"limit": 10**9}, "/limit", "less than or equal to 500"),
    ("Jobs.List", {"limit": "many"}, "/limit", "valid integer"),
    ("Jobs.ListQueues", {}, "/limit", "required"),
    ("Jobs.PauseQueue", {"service": "lab", "type": "work"}, "/reason", "required"),
    (
        "Jobs.PauseQueue",
        {"service": "lab", "type": "work", "reason": "x", "durationMs": 0},
        "/durationMs",
        "greater than or equal to 1",
    ),
    ("Jobs.ResumeQueue", {"service": "lab.a", "type": "work"}, "/service", "pattern"),
    ("Jobs.List", {"limit": 1, "offset": -1}, "/offset", "greater than or equal to 0"),
    ("Jobs.List", {"limit": 1, "state": ["gone"]}, "/state/0", "'pending'"),
    ("Jobs.List", {"limit": 1, "state": "dead"}, "/state", "valid array"),
    ("Jobs.List", {"limit": 1, "since": "yesterday"}, "/since", "datetime"),
    ("Jobs.List", {"limit": 1, "since": "2026-01-01T00:00:00"}, "/since", "timezone"),
    ("Jobs.List", {"limit": 1, "service": "a.b"}, "/service", "pattern"),
    ("Jobs.List", {"limit": 1, "service": "a' OR '1'='1"}, "/service", "pattern"),
    ("Jobs.List", {"limit": 1, "servce": "lab"}, "/servce", "not permitted"),
    ("Jobs.List", {"limit": 1, "minSeq": -1}, "/minSeq", "greater than or equal to 0"),
    ("Jobs.List", {"limit": 1, "minSeq": 2**70}, "/minSeq", "less than or equal to"),
    ("Jobs.ListDLQ", {"limit": 1, "state": ["dead"]}, "/state", "not permitted"),
    ("Jobs.ListIgnored", {}, "/limit", "required"),
    ("Jobs.ListIgnored", {"limit": 1, "service": "*"}, "/service", "pattern"),
    ("Jobs.ListIgnored", {"limit": 1, "type": "[a-z]"}, "/type", "pattern"),
    ("Jobs.Get", {}, "/id", "required"),
    ("Jobs.Get", {"id": 17}, "/id", "valid string"),
    ("Jobs.Get", {"id": "*"}, "/id", "pattern"),
    ("Jobs.Events", {"id": "A", "limit": 501}, "/limit", "less than or equal to 500"),
    ("Jobs.Stats", {"windowMinutes": 0}, "/windowMinutes", "greater than or equal to 1"),
    ("Jobs.Health", {"id": "A"}, "/id", "not permitted"),
    ("Jobs.Cancel", {"id": "A", "reason": "x" * 5_000}, "/reason", "4000"),
    ("Jobs.GetKey", {"service": "lab", "type": "work"}, "/key", "required"),
]


@pytest.mark.parametrize(("method", "asked", "path", "words"), BAD)
async def test_what_is_wrong_is_named(
    lab: AdminLab, method: str, asked: dict[str, Any], path: str, words: str
) -> None:
    told = await lab.stranger.refused(method, orjson.dumps(asked) if _fits(asked) else _big(asked))
    assert told["type"] == "ValidationError"
    assert [issue for issue in told["issues"] if issue["path"].startswith(path)], told["issues"]
    assert words in told["message"]


def _fits(asked: dict[str, Any]) -> bool:
    return bool(asked.get("minSeq", 0) < 2**64)


def _big(asked: dict[str, Any]) -> bytes:
    return repr(asked).replace("'", '"').encode()


@pytest.mark.parametrize(
    "filters",
    [
        {"error": "'; DROP TABLE jobs_projection; --"},
        {"key": "' OR 1=1 --"},
        {"payload": {"text') OR 1=1 --": "x"}},
        {"payload": {"text": "' OR '1'='1"}},
        {"error": "%"},
        {"error": "\u0000"},
        {"error": "\U0001f600"},
    ],
)
async def test_sql_is_only_text(lab: AdminLab, filters: dict[str, Any]) -> None:
    ref = await lab.jobs.work.create(Task(text="untouched"))
    await lab.client.get(ref.id)
    assert (await lab.stranger.ask("Jobs.List", {"limit": 5, **filters}))["count"] == 0
    assert (await lab.client.list_jobs()).count == 1


@pytest.mark.parametrize(
    "data",
    [
        b'{"limit": 1, "payload": {"n": 1000000000000000000000000000000}}',
        b'{"limit": 1, "payload": {"n": -9223372036854775809}}',
        b'{"limit": 1, "payload": {"n": NaN}}',
        b'{"limit": 1, "payload": {"n": 1e999}}',
        b'{"limit": 1, "error": "\\ud800"}',
        b'{"limit": 1, "payload": {"\\ud800": 1}}',
        b'{"limit": 1, "limit": 2, "key": "x"}',
    ],
)
async def test_values_that_json_has_and_others_do_not_find_nothing_or_are_refused(
    lab: AdminLab, data: bytes
) -> None:
    await lab.jobs.work.create(Task())
    reply = await lab.stranger.send("Jobs.List", data)
    told = orjson.loads(reply.data)
    assert told.get("count") == 0 or told["type"] == "ValidationError"


async def test_an_unknown_method_names_the_known_ones(lab: AdminLab) -> None:
    told = await lab.stranger.refused("Jobs.Obliterate", b"{}")
    assert told["type"] == "ValidationError"
    assert "Jobs.Cancel, " in told["issues"][0]["message"]


async def test_a_megabyte_is_refused_and_said_to_be_too_much(lab: AdminLab) -> None:
    padded = orjson.dumps({"id": "x" * 1_000_000})
    told = await lab.stranger.refused("Jobs.Get", padded)
    assert "the request has 1000009 bytes, the limit is 65536" in told["message"]


async def test_a_thousand_mistakes_are_not_all_repeated(lab: AdminLab) -> None:
    told = await lab.stranger.refused(
        "Jobs.List", orjson.dumps({"limit": 1, **{f"x{n}": n for n in range(1_000)}})
    )
    assert len(told["issues"]) == 10
    assert len(told["message"]) < 2_000


async def test_headers_of_a_stranger_are_cut_to_what_can_be_an_id(lab: AdminLab) -> None:
    told = await lab.stranger.ask("Jobs.Get", {"id": "A"}, **{"request-id": "r" * 5_000})
    assert told["type"] == "NotFoundError"
    assert told["context"]["requestId"] == "r" * 128


async def test_a_request_that_wants_no_answer_is_no_request(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task())
    body = orjson.dumps({"id": ref.id})
    await lab.stranger.connection.publish("rpc.v1.Jobs.Cancel", body)
    await lab.stranger.connection.flush()
    assert (await lab.client.get(ref.id)).state is JobState.PENDING


@pytest.mark.timeout(300)
async def test_ten_thousand_odd_requests_are_answered_and_the_daemon_lives(lab: AdminLab) -> None:
    chance = random.Random(20_260_328)  # noqa: S311 - the same every time
    refs = [await lab.jobs.work.create(Task(text=str(n))) for n in range(5)]
    odd = Oddities(chance, [ref.id for ref in refs])
    asked = served = 0
    while asked < 10_000:
        batch = [odd.request() for _ in range(100)]
        replies = await asyncio.gather(*(_sent(lab.stranger, *each) for each in batch))
        for (method, data), (is_error, answer) in zip(batch, replies, strict=True):
            assert isinstance(answer, dict), (method, data)
            if is_error:
                told = answer["type"]
                assert told in {"ValidationError", "NotFoundError"}, (method, data, answer)
            else:
                served += 1
        asked += len(batch)
    assert served > 1_500, "most of them do not even look like requests"
    health: HealthView = await lab.client.health()
    assert health.status == "ok", health
    assert (await lab.client.list_jobs()).count == 5


async def _sent(stranger: Stranger, method: str, data: bytes) -> tuple[bool, Any]:
    reply = await stranger.send(method, data)
    return reply.headers.get("status") == "error", orjson.loads(reply.data)


_FILTERS = (
    "service",
    "type",
    "since",
    "until",
    "key",
    "idPrefix",
    "error",
    "appVersion",
    "payload",
)
_PAGE = ("offset", "minSeq")
_ACTION = ("service", "type", "by", "reason", "minSeq")
NEEDED = {
    **dict.fromkeys(
        (
            "Jobs.List",
            "Jobs.ListDLQ",
            "Jobs.ListServices",
            "Jobs.ListIgnored",
            "Jobs.ListKeys",
            "Jobs.ListQueues",
        ),
        ("limit",),
    ),
    **dict.fromkeys(("Jobs.Get", "Jobs.Events", "Jobs.Explain"), ("id",)),
    **dict.fromkeys(("Jobs.Cancel", "Jobs.Retry", "Jobs.ReplayDLQ", "Jobs.DismissDLQ"), ("id",)),
    "Jobs.GetKey": ("service", "type", "key"),
    "Jobs.ReleaseKey": ("service", "type", "key", "jobId"),
    "Jobs.PauseQueue": ("service", "type", "reason"),
    "Jobs.ResumeQueue": ("service", "type"),
}
TAKEN = {
    "Jobs.List": (*_FILTERS, *_PAGE, "state"),
    "Jobs.ListDLQ": (*_FILTERS, *_PAGE),
    "Jobs.ListServices": _PAGE,
    "Jobs.ListIgnored": (*_PAGE, "service", "type"),
    "Jobs.ListQueues": (*_PAGE, "service", "type", "withEnded"),
    "Jobs.PauseQueue": ("durationMs", "by"),
    "Jobs.ResumeQueue": ("by", "x"),
    "Jobs.Events": (*_PAGE, "service", "type", "limit"),
    "Jobs.Stats": ("service", "type", "windowMinutes", "minSeq"),
    **dict.fromkeys(("Jobs.Cancel", "Jobs.Retry", "Jobs.ReplayDLQ", "Jobs.DismissDLQ"), _ACTION),
}


class Oddities:
    """Requests as a careless program or a bored person would send them."""

    def __init__(self, chance: random.Random, ids: list[str]) -> None:
        self._chance = chance
        self._ids = ids

    def request(self) -> tuple[str, bytes]:
        method = self._chance.choice((*METHODS, "Jobs.ListKeys", "Jobs.ReleaseKey", "Jobs.Nosuch"))
        body = orjson.dumps(self._object(method))
        kind = self._chance.random()
        if kind < 0.1:
            return method, body[: self._chance.randrange(len(body) + 1)]
        if kind < 0.2:
            return method, self._chance.randbytes(self._chance.randrange(60))
        return method, body

    def _object(self, method: str) -> dict[str, Any]:
        """What the method needs, some of what it takes, and now and then something else."""
        chance = self._chance
        body = {name: self._fitting(name) for name in NEEDED.get(method, ())}
        for name in chance.sample(TAKEN.get(method, ("x", "y")), chance.choice((0, 1, 1, 2))):
            body[name] = self._fitting(name)
        for name in chance.sample([*body, "x"], chance.choice((0, 0, 1))):
            body[name] = self._value(2)
        return body

    def _fitting(self, name: str) -> Any:
        """Of the right type, most of the time; not therefore sensible."""
        text = self._chance.choice(("lab", "work", "'; --", "\u0000", "ß", "\U0001f600", "x" * 300))
        fitting = {
            "id": self._chance.choice((*self._ids, "01NOSUCH")),
            "jobId": self._chance.choice(self._ids),
            "limit": self._chance.choice((1, 5, 500)),
            "offset": self._chance.choice((0, 3, 10_000_000)),
            "minSeq": self._chance.choice((0, 1, 5, 2**63 - 1)),
            "windowMinutes": self._chance.choice((1, 60, 1_440)),
            "durationMs": self._chance.choice((1, 60_000)),
            "withEnded": self._chance.choice((True, False)),
            "state": self._chance.sample(list(JobState), self._chance.randrange(4)),
            "payload": {text: self._value(0)},
            "since": "0001-01-01T00:00:00Z",
            "until": "9999-12-31T23:59:59.999999999Z",
            "service": "lab",
            "type": "work",
        }
        return fitting.get(name, text)

    def _value(self, depth: int) -> Any:
        scalars = (
            None, True, 0, 1, -1, 7, 2**31, 2**63 - 1, 2**63, 1e308, 0.5, "", "lab", "work", "dead",
            "*", ">", "a.b", "'; --", "\u0000", "ß", "\U0001f600", "x" * 300,
            "2026-01-01T00:00:00Z",
            "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", *self._ids,
        )  # fmt: skip
        if depth and self._chance.random() < 0.3:
            inner = [self._value(depth - 1) for _ in range(self._chance.randrange(4))]
            as_list = self._chance.random() < 0.5
            return inner if as_list else {str(n): each for n, each in enumerate(inner)}
        return self._chance.choice(scalars)


@pytest.mark.parametrize(
    ("method", "body", "level"),
    [
        ("Jobs.Get", {"id": "unknown"}, "INFO"),
        ("Jobs.GetKey", {"service": "lab", "type": "work", "key": "nothing"}, "WARNING"),
        ("Jobs.ListServices", {"limit": 1}, "ERROR"),
    ],
)
async def test_what_is_refused_is_found_again_in_the_log(
    lab: AdminLab,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    body: dict[str, Any],
    level: str,
) -> None:
    """By the id of the error, and of the request: whether it was wrong, or the server, or we."""
    caplog.set_level("INFO")
    if level == "WARNING":
        await api.request(lab.stranger.connection, "STREAM.DELETE.KV_JOBS_KEYS")
    if level == "ERROR":
        monkeypatch.setattr(services, "_COUNTS", "no SQL at all")
    told = await lab.stranger.ask(method, body, **{"request-id": "REQ-18"})
    [said] = [each for each in caplog.records if "was refused: " in each.message]
    found = vars(said)
    assert (found["error_id"], found["request_id"]) == (told["id"], "REQ-18")
    assert (found["method"], said.levelname) == (method, level)
    assert bool(said.exc_info) == (level == "ERROR")
