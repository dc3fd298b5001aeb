"""Which code runs: what one version rendered is nothing that another may show."""

import hashlib
from functools import cache

from django.conf import settings

CODE = {"apps": ".py", "contract": ".py", "templates": ".html"}
"""Folders and what of them makes pages."""


@cache
def code_version() -> bytes:
    """A digest of the code and templates of this process, as they were when it was first asked; about 30 ms then.

    Icons are part of it: markup names their file, which is called by its content.
    """
    digest = hashlib.sha256()
    for folder, suffix in CODE.items():
        for path in sorted((settings.BASE_DIR / folder).rglob(f"*{suffix}")):
            digest.update(path.relative_to(settings.BASE_DIR).as_posix().encode() + b"\0" + path.read_bytes())
    digest.update((settings.BASE_DIR / "static" / "icons.svg").read_bytes())
    return digest.digest()
