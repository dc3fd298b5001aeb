"""What Postgres keeps in no text, though requests can hold it: NUL, and lone surrogates inside JSON."""

import re

UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def is_storable(text: str) -> bool:
    return not UNSTORABLE.search(text)
