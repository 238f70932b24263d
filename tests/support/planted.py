"""A service whose jobs contain known secrets, for tests that search for them."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

from pydantic import BaseModel, Field, SecretStr

from trellis_jobs import ActiveJob, Fail, Jobs, Retry, Secret, Service, job

NUMBER: Final = "4000-0000-1234"
PIN: Final = "pin-98765"
# Long, so that no time or address in a log contains it by chance.
CVC: Final = 958_213_047_261
QUOTED: Final = 'it\'s\n"hush"'
PHRASE: Final = "open-sesame"
RECEIPT: Final = "receipt-55555"
HUNTER: Final = "hunter2-default"
# `QUOTED` is escaped in JSON and in reprs, so this part of it is looked for.
EVERY_SECRET: Final = (NUMBER, PIN, str(CVC), "hush", PHRASE, RECEIPT, HUNTER)


class Card(BaseModel):
    number: SecretStr
    holder: str


class Charge(BaseModel):
    """`do`: what the handler does after it has reported all its secrets."""

    card: Card = Field(examples=[{"number": HUNTER, "holder": "bob"}])
    pin: Annotated[str, Secret()] = HUNTER
    cvc: Annotated[int, Secret()] = CVC
    quoted: Annotated[str, Secret()] = QUOTED
    phrases: dict[str, SecretStr] = {"door": SecretStr(HUNTER)}
    do: str = "answer"


class Receipt(BaseModel):
    token: SecretStr
    code: Annotated[str, Secret()] = RECEIPT
    cents: int


class Count(BaseModel):
    code: Annotated[int, Secret()]


class PlantedJobs(Jobs, service="planted"):
    charge = job(Charge, Receipt, max_deliver=2, backoff=[0.05])
    count = job(Charge, Count)


DOINGS: Final = ("answer", "fail", "die", "retry", "answer wrongly")


def charge_that(does: str) -> Charge:
    return Charge(
        card=Card(number=SecretStr(NUMBER), holder="ann"),
        pin=PIN,
        phrases={"door": SecretStr(PHRASE)},
        do=does,
    )


def secrets_text(payload: Charge) -> str:
    """A text of the kind that careless code writes."""
    phrase = payload.phrases["door"].get_secret_value()
    number = payload.card.number.get_secret_value()
    return f"{number} {payload.pin} {payload.cvc} {payload.quoted} {payload.quoted!r} {phrase}"


class DeclinedBy(Exception):
    pass


def planted_service() -> Service[PlantedJobs]:
    service = Service(PlantedJobs)

    @service.jobs.charge.handle
    async def charge(job: ActiveJob[Charge]) -> Receipt:
        words = secrets_text(job.payload)
        job.log(f"charging {words}", level="warning")
        job.progress(current=1, total=2, step=f"with {words}", message=words)
        match job.payload.do:
            case "fail":
                raise Fail(f"declined: {words}")
            case "die":
                try:
                    raise DeclinedBy(words)
                except DeclinedBy as error:
                    raise RuntimeError(f"cannot charge {words}") from error
            case "retry":
                raise Retry(f"later: {words}", after=0.01)
            case "answer wrongly":
                return {"token": [RECEIPT], "code": RECEIPT}  # type: ignore[return-value]
            case _:
                return Receipt(token=SecretStr(RECEIPT), cents=7)

    @service.jobs.count.handle
    async def count(job: ActiveJob[Charge]) -> Count:
        return Count(code=job.payload.cvc)

    return service


@contextmanager
def everything_logged() -> Iterator[io.StringIO]:
    """Every line of every logger, with all that its record carries."""

    class Everything(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return f"{super().format(record)} {record.__dict__!r}"

    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Everything())
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield stream
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def found_in(text: str) -> list[str]:
    """The secrets that are in a text."""
    return [secret for secret in EVERY_SECRET if secret in text]


service = planted_service()
