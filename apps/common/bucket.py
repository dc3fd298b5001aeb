"""Files in a bucket (S3), read a block at a time: django-storages loads a whole file into memory, or onto the disk, to read a byte of it."""

from __future__ import annotations

import errno
import io
from http import HTTPStatus
from typing import Any, Self

from botocore.exceptions import ClientError
from django.core.files import File
from storages.backends.s3 import S3Storage
from storages.utils import clean_name

BLOCK_BYTES = 1 << 20
"""How much of a file is in memory while it's read, unless more is requested at once."""


class Bucket(S3Storage):  # type: ignore[misc]  # django-storages has no types
    """S3Storage whose files are read in ranges."""

    def _open(self, name: str, mode: str = "rb") -> Any:
        """A file to read in bytes. Raises FileNotFoundError."""
        if mode != "rb":
            raise ValueError(f"Files in a bucket are opened to read bytes, not as {mode!r}.")
        stored = self.bucket.Object(self._normalize_name(clean_name(name)))
        try:
            stored.load()
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == HTTPStatus.NOT_FOUND:
                raise FileNotFoundError(errno.ENOENT, "There is no such file in the bucket", name) from error
            raise
        return BucketFile(stored, name)


class BucketFile(File):  # type: ignore[type-arg]  # generic in the stubs only
    """A stored file. `stored`: boto's object, whose size is known."""

    def __init__(self, stored: Any, name: str) -> None:
        self._stored = stored
        super().__init__(io.BufferedReader(_Ranges(stored), BLOCK_BYTES), name)

    @property
    def size(self) -> int:
        return int(self._stored.content_length)

    def open(self, mode: str | None = None, *args: Any, **kwargs: Any) -> Self:
        """Read it again from its beginning, also after it was closed."""
        self.file = io.BufferedReader(_Ranges(self._stored), BLOCK_BYTES)
        return self


class _Ranges(io.RawIOBase):
    """Requests what is read."""

    def __init__(self, stored: Any) -> None:
        self._stored = stored
        self._size = int(stored.content_length)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Raises OSError if the bucket returns something other than the requested range."""
        end = min(self._position + len(buffer), self._size)
        if end <= self._position:
            return 0
        reply = self._stored.get(Range=f"bytes={self._position}-{end - 1}")
        if reply["ContentLength"] != end - self._position:
            raise OSError(errno.EIO, "The bucket returned another range of the file")
        block = reply["Body"].read()
        buffer[: len(block)] = block
        self._position += len(block)
        return len(block)

    def readall(self) -> bytes:
        """The rest, in one request: RawIOBase would make one for every few kilobytes."""
        return self.read(max(0, self._size - self._position)) or b""
