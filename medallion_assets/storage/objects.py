"""The storage port on an object store, through ``obstore``: S3, Google Cloud Storage, Azure, or memory.

Credentials, region and endpoint come from the environment, under the names each store's own tools use.
"""

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, BinaryIO

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import from_url

from medallion_assets.storage.odd_keys import OddKey, is_odd, listed
from medallion_assets.storage.port import (
    FILE,
    FOLDER,
    Storage,
    StorageUnreachable,
    Stored,
    every_name,
    microseconds,
)

BLOCK = 4 << 20
"""Bytes asked for at a time: a request takes as long as some megabytes do."""

CHECK = "check address, region and network"

_creating = threading.Lock()


class ObjectStorage(Storage):
    """The objects of one bucket. There are no links and no empty folders."""

    def __init__(self, bucket: str) -> None:
        """Take the address of a bucket: ``scheme://name``."""
        self.bucket = bucket
        with _python_errors(bucket):
            self.store = from_url(bucket if not bucket.startswith("memory:") else "memory:///")

    def list(self, folder: str, takes: Callable[[str], bool] = every_name) -> Iterator[Stored]:
        """Return what has the folder's path and one more part, in the order of names."""
        prefix = self._key(folder)
        try:
            with _python_errors(folder):
                found = obstore.list_with_delimiter(self.store, prefix or None)
        except OddKey as error:
            there = listed(self.bucket, f"{prefix}/" if prefix else "", error)
            yield from sorted((f for f in there if f.kind == FOLDER or takes(f.name)), key=lambda f: f.name)
            return
        folders = [Stored(self._path(p), p.rsplit("/", 1)[-1], FOLDER) for p in found["common_prefixes"]]
        # Some tools keep an empty object in place of a folder.
        objects = [self._stored(facts) for facts in found["objects"] if facts["path"] != prefix]
        yield from sorted([*folders, *(o for o in objects if takes(o.name))], key=lambda found: found.name)

    def list_after(self, folder: str, path: str) -> Iterator[Stored]:
        """Return the objects below a folder with names after that of ``path``, where the store begins."""
        prefix = self._key(folder)
        after = self._key(path)
        try:
            with _python_errors(folder):
                for page in obstore.list(self.store, prefix or None, offset=after):
                    yield from map(self._stored, page)
                    after = page[-1]["path"]
        except OddKey as error:
            yield from listed(self.bucket, f"{prefix}/" if prefix else "", error, after, deep=True)

    def stat(self, path: str, follow: bool = False) -> Stored | None:
        """Return the metadata of a path; a path that is a prefix of others is a folder."""
        key = self._key(path)
        with _python_errors(path):
            try:
                return self._stored(obstore.head(self.store, key)) if key else Stored(path, "", FOLDER)
            except FileNotFoundError:
                some = self._is_prefix(key)
        return Stored(self._path(key), key.rsplit("/", 1)[-1], FOLDER) if some else None

    def _is_prefix(self, key: str) -> bool:
        try:
            # One page: a prefix may have millions of objects.
            return next(iter(obstore.list(self.store, key, chunk_size=1)), None) is not None
        except BaseError as error:
            if not is_odd(error):
                raise
            return True

    def open(self, path: str) -> BinaryIO:
        """Return an object's bytes; a read fails once the object has another version."""
        with _python_errors(path):
            facts = obstore.head(self.store, self._key(path))
        return io.BufferedReader(_ObjectBytes(self.store, path, dict(facts)), BLOCK)

    def create(self, path: str, content: bytes | BinaryIO) -> bool:
        """Create an object where there is none of its key: the store lets one of several callers do it."""
        # In one request, from memory: no store promises create-if-absent of an upload in parts.
        whole = content if isinstance(content, bytes) else content.read()
        try:
            with _python_errors(path):
                obstore.put(self.store, self._key(path), whole, mode="create", use_multipart=False)
        except FileExistsError:
            return False
        return True

    def put(self, path: str, content: bytes | BinaryIO) -> None:
        """Write an object, from a file in parts."""
        with _python_errors(path):
            obstore.put(self.store, self._key(path), content)

    def delete(self, path: str) -> None:
        """Delete an object."""
        with _python_errors(path):
            try:
                obstore.delete(self.store, self._key(path))
            except FileNotFoundError:
                return

    def _key(self, path: str) -> str:
        return path.removeprefix(self.bucket).strip("/")

    def _path(self, key: str) -> str:
        return f"{self.bucket}/{key}"

    def _stored(self, facts: Any) -> Stored:
        key, at = facts["path"], microseconds(facts["last_modified"])
        return Stored(self._path(key), key.rsplit("/", 1)[-1], FILE, facts["size"], at, facts["e_tag"] or "")


class _ObjectBytes(io.RawIOBase):
    """One version of an object, read by ranges."""

    def __init__(self, store: Any, path: str, facts: dict[str, Any]) -> None:
        self.store, self.path, self.facts, self.at = store, path, facts, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: int(self.facts["size"])}[whence]
        self.at = max(0, start + offset)
        return self.at

    def readinto(self, buffer: Any) -> int:
        upto = min(self.at + len(buffer), int(self.facts["size"]))
        if upto <= self.at:
            return 0
        version: obstore.GetOptions = {"range": (self.at, upto)}
        if self.facts["e_tag"]:
            version["if_match"] = self.facts["e_tag"]
        with _python_errors(self.path):
            block = obstore.get(self.store, self.facts["path"], options=version).bytes()
        buffer[: len(block)] = memoryview(block)
        self.at += len(block)
        return len(block)


@cache
def _object_storage(bucket: str) -> ObjectStorage:
    return ObjectStorage(bucket)


def object_storage(bucket: str) -> ObjectStorage:
    """Return the storage of a bucket, one for the whole process: it keeps the connections."""
    with _creating:
        return _object_storage(bucket)


@contextmanager
def _python_errors(path: str) -> Iterator[None]:
    """Raise the library's errors as Python's own; others, as of the network, as StorageUnreachable."""
    try:
        yield
    except AlreadyExistsError as error:
        raise FileExistsError(path) from error
    except PreconditionError as error:
        raise OSError(f"{path} changed while it was read") from error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(f"{path}: {_first_line(error)}") from error
    except BaseError as error:
        if is_odd(error):
            raise OddKey(path, str(error).strip().split("\n\n")[0]) from error
        # What the library says of an http:// address that it was not allowed.
        is_plain = "builder error" in str(error) and path.startswith("s3://")
        what = "set AWS_ALLOW_HTTP=true for a store at an http:// address" if is_plain else CHECK
        why = _first_line(error)
        raise StorageUnreachable(
            f"{path} could not be reached: {why}. Nothing was read or changed: {what}, and run again."
        ) from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0]
