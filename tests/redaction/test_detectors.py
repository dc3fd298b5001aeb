"""What detectors find, and what only resembles it."""

import pytest

from apps.redaction.detectors import DETECTORS
from apps.redaction.patterns import Pattern
from apps.redaction.redaction import Redaction, Rule

A40 = "a1" * 20
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"

FOUND = {
    "email": ["ada@example.org", "a.b+c@mail.example.co.uk", "jürgen@münchen.example"],
    "card": ["4111 1111 1111 1111", "5555555555554444", "3782-822463-10005", "6011111111111117"],
    "phone": ["+49 30 901820", "+1 (415) 555-2671", "415-555-2671", "(415) 555-2671", "(415)555-2671"],
    "ipv4": ["203.0.113.7", "255.255.255.255"],
    "ipv6": ["2001:db8::8a2e:370:7334", "fe80::1ff:fe23:4567:890a", "2001:db8:0:0:0:0:0:1"],
    "iban": ["DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432", "nl91abna0417164300"],
    "key": [f"sk-proj-{A40}", "AKIA" + "A1B2" * 4, f"ghp_{A40}", f"xoxb-{A40}", f"rt_{A40}", f"hf_{A40}"],
    "jwt": [JWT],
}
PASSED = {
    "email": ["ada@localhost", "@ada", "a @ b.c"],
    "card": ["4111 1111 1111 1112", "1234567890123456", "41111111111111110000", "x4111111111111111"],
    "phone": ["+1 23", "1415-555-26712", "2026-11-25", "12:30:45"],
    "ipv4": ["1.2.3.4.5", "256.1.1.1", "v1.2.3", "01.2.3.4x"],
    "ipv6": ["12:30:45", "std::vector", "aa:bb:cc:dd:ee:ff", "a::b", "::"],
    "iban": ["DE89 3704 0044 0532 0130 01", "XX89370400440532013000", "DE89", "AB12CD34"],
    "key": ["sk-short", "AKIAabc", "ghp_1", "task-" + A40],
    "jwt": ["eyJ.eyJ.x", "eyJhbGciOiJIUzI1NiJ9", "eyJub3QgSlNPTg.eyJzdWIiOiIxIn0.c2ln"],
}


def redacted(detector: str, text: str) -> str:
    pattern = DETECTORS[detector]
    return Redaction([Rule(pattern.name, Pattern(pattern.pattern), pattern.check)]).text(text)


@pytest.mark.parametrize("detector", DETECTORS)
def test_a_detector_finds_its_own_wherever_it_stands(detector: str) -> None:
    marked = f"[redacted: {DETECTORS[detector].name}]"
    for text in FOUND[detector]:
        for before, after in (("", ""), ("See ", "."), ("(", ")"), ("\n", "\n"), ("“", "”")):
            assert redacted(detector, before + text + after) == before + marked + after


@pytest.mark.parametrize("detector", DETECTORS)
def test_a_detector_leaves_what_only_looks_like_it(detector: str) -> None:
    for text in PASSED[detector]:
        assert redacted(detector, text) == text
        assert redacted(detector, f"See {text}, and more") == f"See {text}, and more"


def test_a_card_is_found_among_other_groups_of_digits() -> None:
    assert redacted("card", "030 1234 4111 1111 1111 1111 99") == "030 1234 [redacted: card] 99"


def test_words_that_follow_an_iban_stay() -> None:
    assert redacted("iban", "AB12 DE89 3704 0044 0532 0130 00 AND MORE") == "AB12 [redacted: IBAN] AND MORE"


def test_a_private_key_is_redacted_to_its_end_and_one_without_an_end_as_a_whole() -> None:
    begin, end = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
    assert redacted("key", f"a {begin}\nMIIE\n{end} b") == "a [redacted: API key] b"
    assert redacted("key", f"a {begin}\nMIIE") == "a [redacted: API key]"


def test_an_ip_address_is_found_right_after_its_label() -> None:
    for label in ("ip:", "source:", "addr :", "[client:"):
        assert redacted("ipv6", f"{label}2001:db8::8a2e:370:7334 up") == f"{label}[redacted: IPv6] up"
        assert redacted("ipv4", f"{label}203.0.113.7 up") == f"{label}[redacted: IPv4] up"
    assert redacted("ipv6", "node::dead:beef") == "node::dead:beef"
