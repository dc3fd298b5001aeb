"""Version of the running code: HTML rendered by one version mustn't be used by another."""

import hashlib
from functools import cache

from django.conf import settings

CODE = (("apps", ".py"), ("contract", ".py"), ("templates", ".html"), ("templates", ".jinja"))
"""Folders and file types that affect rendered pages."""


@cache
def code_version() -> bytes:
    """A digest of this process's code and templates at the first call, which takes about 30 ms.

    Icons are included, since markup refers to their content-hashed file name.
    """
    digest = hashlib.sha256()
    for folder, suffix in CODE:
        for path in sorted((settings.BASE_DIR / folder).rglob(f"*{suffix}")):
            digest.update(path.relative_to(settings.BASE_DIR).as_posix().encode() + b"\0" + path.read_bytes())
    digest.update((settings.BASE_DIR / "static" / "icons.svg").read_bytes())
    return digest.digest()
