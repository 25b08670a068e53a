"""What files were when they were read: sizes and hashes that are true of the values beside them."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A file that was written so shortly before it was hashed could be written again without another
# date, since file systems count in steps; in seconds.
_JUST_NOW = 2.0
_TRIES = 3


@dataclass(frozen=True)
class _Noted:
    """A file as it was, by its date and place on the disk, and when that was looked up."""

    state: tuple[int, ...]
    when: float
    entry: dict[str, Any]


class Ledger:
    """Sizes and hashes of files, noted before they are read and confirmed afterwards.

    Values that were read in between are then those of the hash, whoever writes to the files
    meanwhile. Threads may share a ledger.
    """

    def __init__(self) -> None:
        self._noted: dict[Path, _Noted] = {}

    def note(self, path: Path) -> None:
        """Hash a file that is to be read, unless that is done."""
        if path in self._noted:
            return
        noted = _Noted((), 0.0, {})
        for _ in range(_TRIES):
            try:
                state, when = _state(path), time.time()
                noted = _Noted((), when, hash_file(path))
                if _state(path) == state:
                    noted = _Noted(state, when, noted.entry)
                    break
            except OSError:  # gone: whoever reads it will say so
                break
        # Without a state where somebody writes to it all the time: that is never confirmed.
        self._noted[path] = noted

    def confirmed(self, path: Path) -> bool:
        """Whether a file is still what was noted, so that what was read in between is that."""
        noted = self._noted[path]
        try:
            if not noted.state or _state(path) != noted.state:
                return False
            written = max(noted.state[2:]) / 1e9
            return noted.when - written > _JUST_NOW or hash_file(path) == noted.entry
        except OSError:
            return False

    def entry(self, path: Path) -> dict[str, Any]:
        """Size and hash of a file."""
        self.note(path)
        return self._noted[path].entry


def hash_file(path: Path) -> dict[str, Any]:
    """Size and SHA-256 of a file, both of the bytes that were read."""
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return {"size": stream.tell(), "sha256": digest}


def _state(path: Path) -> tuple[int, ...]:
    status = os.stat(path)
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
