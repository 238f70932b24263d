"""The delivery metadata in the reply subject of a JetStream message."""

from __future__ import annotations

from typing import Final

from trellis_jobs.model.values import Value

_TOKENS_V1: Final = 9
_DOMAIN_AND_ACCOUNT: Final = 2


class DeliveryInfo(Value, frozen=True):
    """`number` counts the deliveries of this message, `consumer_sequence` those of the consumer.

    `pending` is how many messages the consumer still had to deliver.
    """

    number: int
    stream_sequence: int
    consumer_sequence: int
    stored_ns: int
    pending: int


def read_reply(reply: str) -> DeliveryInfo | None:
    """`$JS.ACK[.<domain>.<account>].<stream>.<consumer>.<number>.<seq>.<consumer seq>.<time>.…`"""
    tokens = reply.split(".")
    if tokens[:2] != ["$JS", "ACK"] or len(tokens) < _TOKENS_V1:
        return None
    if len(tokens) > _TOKENS_V1:
        tokens = tokens[_DOMAIN_AND_ACCOUNT:]
    try:
        return DeliveryInfo(
            int(tokens[4]), int(tokens[5]), int(tokens[6]), int(tokens[7]), int(tokens[8])
        )
    except (ValueError, IndexError):
        return None
