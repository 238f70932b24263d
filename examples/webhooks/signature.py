"""Signs webhooks as in https://www.standardwebhooks.com, so that receivers can verify them."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping


def sign(body: bytes, *, message_id: str, at: int, secret: str) -> dict[str, str]:
    signed = f"{message_id}.{at}.".encode() + body
    digest = hmac.digest(secret.encode(), signed, hashlib.sha256)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def is_genuine(body: bytes, headers: Mapping[str, str], secret: str) -> bool:
    try:
        message_id, at = headers["webhook-id"], int(headers["webhook-timestamp"])
    except (KeyError, ValueError):
        return False
    right = sign(body, message_id=message_id, at=at, secret=secret)["webhook-signature"]
    return hmac.compare_digest(right, headers.get("webhook-signature", ""))
