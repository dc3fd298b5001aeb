"""Signing secrets, derived from SECRET_KEY and a salt, so that neither the database nor a backup contains any."""

from __future__ import annotations

import base64
import secrets
from datetime import datetime

from django.utils.crypto import salted_hmac
from standardwebhooks import Webhook

from apps.webhooks.models import Destination

PREFIX = "whsec_"


def new_salt() -> str:
    return secrets.token_hex(24)


def secret_of(salt: str) -> str:
    """`whsec_` and 32 bytes in Base64, the format of receivers' libraries."""
    digest = salted_hmac("apps.webhooks.secrets", salt, algorithm="sha256").digest()
    return PREFIX + base64.b64encode(digest).decode()


def signatures(destination: Destination, message_id: str, at: datetime, body: str) -> str:
    """The header `webhook-signature`, signed with the secret and, for a day after a replacement, also with the previous one."""
    salts = [destination.salt]
    if destination.earlier_signs:
        salts.append(destination.earlier_salt)
    return " ".join(Webhook(secret_of(salt)).sign(message_id, at, body) for salt in salts)
