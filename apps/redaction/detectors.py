"""Named detectors: a pattern that finds candidates, and a check to rule out false positives.

Patterns are RE2's, which match in linear time. RE2 has no lookaround, so conditions on the surrounding text are part of the check.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Callable, Iterator
from typing import NamedTuple

from contract import jsontext

Span = tuple[int, int]
Check = Callable[[str, int, int], Iterator[Span]]
"""Yields the actual spans within a candidate, given the text and the candidate's start and end."""

IBAN_LENGTHS = {
    "AD": 24,
    "AE": 23,
    "AL": 28,
    "AT": 20,
    "AZ": 28,
    "BA": 20,
    "BE": 16,
    "BG": 22,
    "BH": 22,
    "BR": 29,
    "BY": 28,
    "CH": 21,
    "CR": 22,
    "CY": 28,
    "CZ": 24,
    "DE": 22,
    "DK": 18,
    "DO": 28,
    "EE": 20,
    "EG": 29,
    "ES": 24,
    "FI": 18,
    "FO": 18,
    "FR": 27,
    "GB": 22,
    "GE": 22,
    "GI": 23,
    "GL": 18,
    "GR": 27,
    "GT": 28,
    "HR": 21,
    "HU": 28,
    "IE": 22,
    "IL": 23,
    "IQ": 23,
    "IS": 26,
    "IT": 27,
    "JO": 30,
    "KW": 30,
    "KZ": 20,
    "LB": 28,
    "LC": 32,
    "LI": 21,
    "LT": 20,
    "LU": 20,
    "LV": 21,
    "LY": 25,
    "MC": 27,
    "MD": 24,
    "ME": 22,
    "MK": 19,
    "MR": 27,
    "MT": 31,
    "MU": 30,
    "NL": 18,
    "NO": 15,
    "PK": 24,
    "PL": 28,
    "PS": 29,
    "PT": 25,
    "QA": 29,
    "RO": 24,
    "RS": 22,
    "SA": 24,
    "SC": 31,
    "SE": 24,
    "SI": 19,
    "SK": 24,
    "SM": 27,
    "ST": 25,
    "SV": 28,
    "TN": 24,
    "TR": 26,
    "UA": 29,
    "VA": 22,
    "VG": 24,
    "XK": 20,
}
"""Length of an account number in characters, by country (ISO 13616)."""
CARD_DIGITS = range(13, 20)
PHONE_DIGITS = range(8, 16)
"""Number of digits including the country code (E.164)."""


class Detector(NamedTuple):
    """A detector of text with a recognizable form."""

    name: str
    """The name in the marker."""
    pattern: str
    check: Check
    example: str


def whole(text: str, start: int, end: int) -> Iterator[Span]:
    yield start, end


def _card(text: str, start: int, end: int) -> Iterator[Span]:
    """Candidates may contain more than a card number, so it may start or end at any group of digits."""
    if _is_adjacent(text, start - 1) or _is_adjacent(text, end):
        return
    groups, begin = [], start
    for at in range(start, end + 1):
        if at == end or not text[at].isdigit():
            groups.append((begin, at))
            begin = at + 1
    first = 0
    while first < len(groups):
        digits, match_end = "", 0
        for last in range(first, len(groups)):
            digits += text[slice(*groups[last])]
            if len(digits) >= CARD_DIGITS.stop:
                break
            if len(digits) in CARD_DIGITS and _is_card(digits):
                match_end = last + 1
        if match_end:
            yield groups[first][0], groups[match_end - 1][1]
        first = match_end or first + 1


def _is_card(digits: str) -> bool:
    """Valid if prefix and length match an issuer, and the Luhn checksum is right (ISO/IEC 7812-1)."""
    head, length = int(digits[:4]), len(digits)
    issued = (
        (digits[0] == "4" and length in (13, 16, 19))  # Visa
        or ((5100 <= head < 5600 or 2221 <= head <= 2720) and length == 16)  # Mastercard
        or (digits[:2] in ("34", "37") and length == 15)  # American Express
        or ((head == 6011 or 6440 <= head < 6600) and length in (16, 19))  # Discover
        or ((3000 <= head < 3060 or digits[:2] in ("36", "38", "39")) and length in (14, 16, 19))  # Diners Club
        or (3528 <= head < 3590 and length in (16, 19))  # JCB
        or (digits[:2] == "62" and length in (16, 17, 18, 19))  # UnionPay
    )
    doubled = (int(digit) * (2 if index % 2 else 1) for index, digit in enumerate(reversed(digits)))
    return issued and sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _phone(text: str, start: int, end: int) -> Iterator[Span]:
    if text[start] == "(" and ")" not in text[start:end]:
        start += 1  # the parenthesis encloses more than the area code
    digits = sum(letter.isdigit() for letter in text[start:end])
    is_international = text[start] == "+"
    if (digits in PHONE_DIGITS if is_international else digits == 10) and not (
        _is_adjacent(text, start - 1) or _is_adjacent(text, end) or text[start - 1 : start] == "+"
    ):
        yield start, end


def _ipv4(text: str, start: int, end: int) -> Iterator[Span]:
    """Not part of a longer sequence of numbers, such as a version."""
    if _is_adjacent(text, start - 1) or _is_adjacent(text, end):
        return
    if text[start - 1 : start] == "." or (text[end : end + 1] == "." and text[end + 1 : end + 2].isdigit()):
        return
    try:
        ipaddress.IPv4Address(text[start:end])
    except ValueError:
        return
    yield start, end


def _ipv6(text: str, start: int, end: int) -> Iterator[Span]:
    """Requires four hexadecimal digits, since code also contains names like `a::b`."""
    if _is_adjacent(text, start - 1):
        start = text.index(":", start)  # the candidate begins inside a label, as in `source:2001:db8::1`
    if text[start] == ":" and text[start + 1] != ":":
        start += 1
    while end > start and text[end - 1] == ".":
        end -= 1  # the end of a sentence
    if end - start > 1 and text[end - 1] == ":" and text[end - 2] != ":":
        end -= 1
    if (
        _is_adjacent(text, start - 1)
        or _is_adjacent(text, end)
        or sum(letter not in ":." for letter in text[start:end]) < 4
    ):
        return
    try:
        ipaddress.IPv6Address(text[start:end])
    except ValueError:
        return
    yield start, end


def _iban(text: str, start: int, end: int) -> Iterator[Span]:
    """Starts at the country code and check digits, with that country's length and a valid checksum (ISO 7064, mod 97-10)."""
    length = IBAN_LENGTHS.get(text[start : start + 2].upper(), 0)
    if not length or _is_adjacent(text, start - 1):
        return
    letters, at = text[start:end], end
    while len(letters) < length and at < len(text):
        if text[at] in " -" and text[at - 1] not in " -":
            at += 1
        elif text[at].isascii() and text[at].isalnum():
            letters += text[at]
            at += 1
        else:
            return
    if len(letters) < length or _is_adjacent(text, at):
        return
    number = "".join(str(int(letter, 36)) for letter in letters[4:] + letters[:4])
    if int(number) % 97 == 1:
        yield start, at


def _jwt(text: str, start: int, end: int) -> Iterator[Span]:
    """The first part must be a JSON object with an algorithm."""
    head = text[start:end].partition(".")[0]
    try:
        header = jsontext.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (binascii.Error, ValueError):
        return
    if isinstance(header, dict) and "alg" in header:
        yield start, end


def _is_adjacent(text: str, at: int) -> bool:
    """Whether the character there continues a word, so that a match would be part of it."""
    return 0 <= at < len(text) and (text[at].isalnum() or text[at] == "_")


KEYS = (
    r"\bsk-[A-Za-z0-9_-]{20,}",  # OpenAI, Anthropic, and many that copy their format
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",  # AWS
    r"\bgh[pousr]_[A-Za-z0-9]{36,}",  # GitHub
    r"\bgithub_pat_[A-Za-z0-9_]{22,}",
    r"\bglpat-[A-Za-z0-9_-]{20,}",  # GitLab
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
    r"\bAIza[A-Za-z0-9_-]{35}",  # Google
    r"\b[prs]k_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
    r"\bhf_[A-Za-z0-9]{30,}",  # Hugging Face
    r"\bnpm_[A-Za-z0-9]{36}",
    r"\bpypi-[A-Za-z0-9_-]{50,}",
    r"\bwhsec_[A-Za-z0-9+/=]{24,}",  # Standard Webhooks
    r"\br[sft]_[A-Za-z0-9_-]{40,}",  # Retrace
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
)
DETECTORS = {
    "email": Detector(
        "e-mail", r"[\p{L}\p{N}._%+'-]+@(?:[\p{L}\p{N}-]+\.)+\p{L}{2,}", whole, "Write to ada@example.org."
    ),
    "card": Detector("card", r"\d(?:[ -]?\d){12,}", _card, "Paid with 4111 1111 1111 1111."),
    "phone": Detector(
        "phone",
        r"\+\d(?:[ .()/-]{0,2}\d){7,14}|\(?\b[2-9]\d{2}(?:\)[ .-]?|[ .-])\d{3}[ .-]\d{4}",
        _phone,
        "Call +49 30 901820.",
    ),
    "ipv4": Detector("IPv4", r"\d{1,3}(?:\.\d{1,3}){3}", _ipv4, "From 203.0.113.7."),
    "ipv6": Detector("IPv6", r"[0-9A-Fa-f]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*", _ipv6, "From 2001:db8::8a2e:370:7334."),
    "iban": Detector("IBAN", r"[A-Za-z]{2}\d{2}", _iban, "To DE89 3704 0044 0532 0130 00."),
    "key": Detector("API key", "|".join(KEYS), whole, "A key of OpenAI, AWS, GitHub, Slack, Google, Stripe, …"),
    "jwt": Detector("JWT", r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*", _jwt, "eyJ….eyJ….…"),
}
"""Detectors by the key that rules refer to them with."""
