"""The storage port on a local or mounted disk, with the operating system's own calls.

A library would not keep the promises for landing zones: links are reported and never followed, names that
are not UTF-8 are returned unchanged, and the error for an unreadable folder has the folder's name.
"""

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from medallion_assets.storage.port import FILE, FOLDER, LINK, OTHER, Storage, Stored, every_name

FORMAT, REGULAR = stat.S_IFMT(0xFFFF), stat.S_IFREG
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
NO_LINKS = (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)
"""What ``link`` answers on a disk without hard links, or between two disks."""


class LocalStorage(Storage):
    """Files of this machine."""

    def list(self, folder: str, takes: Callable[[str], bool] = every_name) -> Iterator[Stored]:
        """Return the entries of a folder, in the order of names."""
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            # It went between being listed and being opened.
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield Stored(entry.path, entry.name, FOLDER)
            elif takes(entry.name):
                try:
                    facts = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    # It went, or got its last name, since the folder was listed.
                    continue
                # One call for each of a hundred thousand files: it is worth its line.
                mode, at = facts.st_mode, facts.st_mtime_ns // 1000
                kind = FILE if mode & FORMAT == REGULAR else _kind(mode)
                yield Stored(entry.path, entry.name, kind, facts.st_size, at)

    def list_after(self, folder: str, path: str) -> Iterator[Stored]:
        """Return the later files of a folder and those below it."""
        for found in self.list(folder):
            if found.kind == FOLDER:
                yield from self.list_after(found.path, path)
            elif found.path > path:
                yield found

    def stat(self, path: str, follow: bool = False) -> Stored | None:
        """Return the metadata of a path; with ``follow``, a broken link counts as nothing."""
        try:
            facts = os.stat(path, follow_symlinks=follow)  # noqa: PTH116 (the one place that asks)
        except OSError as error:
            if error.errno in ABSENT:
                return None
            raise
        return _stored(path, os.path.basename(path), facts)  # noqa: PTH119 (Path drops a trailing part)

    def open(self, path: str) -> BinaryIO:
        """Return a file's bytes."""
        return Path(path).open("rb")

    def create(self, path: str, content: bytes | BinaryIO) -> bool:
        """Create a file under its name only once it is whole."""
        draft = _draft(path, content)
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            return _create_without_links(draft, path)
        finally:
            Path(draft).unlink()
        return True

    def put(self, path: str, content: bytes | BinaryIO) -> None:
        """Write a file beside, and give it the name of the other."""
        Path(_draft(path, content)).replace(path)

    def delete(self, path: str) -> None:
        """Delete a file."""
        Path(path).unlink(missing_ok=True)

    def move(self, path: str, target: str) -> bool:
        """Give a file another path, in the other's folder or on another disk; return false where that exists.

        It is never missing at both, and in an instant at both.
        """
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, target, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            with self.open(path) as content:
                if not self.create(target, content):
                    return False
            shutil.copystat(path, target)
        self.delete(path)
        return True

    def set_aside(self, path: str) -> Stored | None:
        """Rename a file to a hidden name beside it, by which no other program writes; return what lies there.

        None where nothing was renamed: there is no file, the hidden name is taken, or a program has the file
        open for writing. ``put_back`` takes it back.
        """
        aside = aside_of(path)
        if self.stat(aside) is not None or self.stat(path) is None:
            return None
        Path(path).rename(aside)
        if _is_open_for_writing(aside):
            self.put_back(path)
            return None
        return self.stat(aside)

    def put_back(self, path: str) -> bool:
        """Give a file that was set aside its name again; return false where another one has it by now."""
        return self.stat(aside_of(path)) is None or self.move(aside_of(path), path)


def aside_of(path: str) -> str:
    """Return the hidden name that a file has while it is set aside."""
    folder, name = os.path.split(path)
    return str(Path(folder, f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}.aside"))


def _is_open_for_writing(path: str) -> bool:
    """Return true where the operating system knows of a writer; false where it cannot say."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    with Path(path).open("rb") as file:
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError as error:
            return error.errno == errno.EAGAIN
    return False


def _create_without_links(draft: str, path: str) -> bool:
    try:
        with Path(path).open("xb") as target, Path(draft).open("rb") as content:
            shutil.copyfileobj(content, target)
    except FileExistsError:
        return False
    return True


def _draft(path: str, content: bytes | BinaryIO) -> str:
    """Write the content to a hidden file in the same folder; return its path."""
    folder, name = os.path.split(path)
    draft = Path(folder, f".{name[:100]}.{uuid.uuid4().hex}.draft")
    draft.parent.mkdir(parents=True, exist_ok=True)
    try:
        with draft.open("xb") as file:
            file.write(content) if isinstance(content, bytes) else shutil.copyfileobj(content, file)
            file.flush()
            # Else a power cut may leave the file under its name, and empty.
            os.fsync(file.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return str(draft)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFREG: FILE, stat.S_IFDIR: FOLDER, stat.S_IFLNK: LINK}
    return kinds.get(stat.S_IFMT(mode), OTHER)


def _stored(path: str, name: str, facts: os.stat_result) -> Stored:
    return Stored(path, name, _kind(facts.st_mode), facts.st_size, facts.st_mtime_ns // 1000)
