"""Images inside a trajectory: displayed only if their bytes are what they claim to be. Nothing is ever fetched."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, NamedTuple

from apps.trajectories.rendering.shapes import MAX_ADDRESS

MAX_BYTES = 8 * 1024 * 1024
MAX_SIDE = 12_000
MAX_PIXELS = 40_000_000
"""About the size of a screenshot of a long page; anything larger is a decompression bomb."""

_DATA_URI = re.compile(r"data:image/(?:png|jpeg|jpg|gif|webp);base64,", re.IGNORECASE)


class Picture(NamedTuple):
    """A verified image."""

    media_type: str
    width: int
    height: int
    body: bytes


def picture_of(part: Any) -> Picture | str:
    """The image in a content part (OpenAI's `image_url`, Anthropic's `source`), or why it isn't shown."""
    encoded_url = _encoded(part)
    if not encoded_url:
        return "An image without data."
    if encoded_url.startswith("data:"):
        return "An image that is not a Base64-encoded PNG, JPEG, GIF or WebP."
    if not encoded_url.startswith("base64:"):
        return "An external image; external images are never loaded."
    encoded = encoded_url.removeprefix("base64:")
    if len(encoded) > MAX_BYTES * 4 // 3 + 4:
        return f"An image of more than {MAX_BYTES // 1024 // 1024} MB."
    try:
        body = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return "An image whose data is not base64."
    return verified(body)


def address_of(part: Any) -> str:
    """The address of an image stored outside the trajectory, or ""."""
    url = _encoded(part)
    return url if url.startswith(("http://", "https://")) else ""


def verified(body: bytes) -> Picture | str:
    """The image in these bytes according to its header, or why it isn't shown."""
    measured = _measure(body)
    if measured is None:
        return "Data that is not a PNG, JPEG, GIF or WebP image."
    media_type, width, height = measured
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE and width * height <= MAX_PIXELS):
        return f"An image of {width:,} × {height:,} pixels; up to {MAX_PIXELS // 1_000_000} million are shown."
    return Picture(media_type, width, height, body)


def _encoded(part: Any) -> str:
    """`base64:` and the data, another address, or "" if there is none."""
    if not isinstance(part, dict):
        return ""
    source = part.get("source")
    if isinstance(source, dict) and isinstance(source.get("data"), str):
        return f"base64:{source['data']}"
    url = part.get("image_url", part.get("url", part.get("image", source)))
    if isinstance(url, dict):
        url = url.get("url")
    if not isinstance(url, str):
        return ""
    match = _DATA_URI.match(url[:64])
    return f"base64:{url[match.end() :]}" if match else url[: MAX_ADDRESS + 1]


def _measure(body: bytes) -> tuple[str, int, int] | None:
    """Type, width, and height from the header."""
    if body[:8] == b"\x89PNG\r\n\x1a\n" and body[12:16] == b"IHDR" and len(body) >= 24:
        return "image/png", int.from_bytes(body[16:20], "big"), int.from_bytes(body[20:24], "big")
    if body[:6] in (b"GIF87a", b"GIF89a") and len(body) >= 10:
        return "image/gif", int.from_bytes(body[6:8], "little"), int.from_bytes(body[8:10], "little")
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP" and len(body) >= 30:
        size = _webp_size(body)
        return ("image/webp", *size) if size else None
    if body[:3] == b"\xff\xd8\xff":
        size = _jpeg_size(body)
        return ("image/jpeg", *size) if size else None
    return None


def _webp_size(body: bytes) -> tuple[int, int] | None:
    chunk = body[12:16]
    if chunk == b"VP8X":
        return int.from_bytes(body[24:27], "little") + 1, int.from_bytes(body[27:30], "little") + 1
    if chunk == b"VP8 ":
        return int.from_bytes(body[26:28], "little") & 0x3FFF, int.from_bytes(body[28:30], "little") & 0x3FFF
    if chunk == b"VP8L":
        bits = int.from_bytes(body[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return None


def _jpeg_size(body: bytes) -> tuple[int, int] | None:
    """Scans the segments for the frame header."""
    position = 2
    while position + 9 < len(body):
        if body[position] != 0xFF:
            return None
        marker = body[position + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = body[position + 5 : position + 7], body[position + 7 : position + 9]
            return int.from_bytes(width, "big"), int.from_bytes(height, "big")
        position += 2 + max(2, int.from_bytes(body[position + 2 : position + 4], "big"))
    return None
