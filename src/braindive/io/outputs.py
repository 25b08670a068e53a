"""Files that are written: whole or not at all, by one writer at a time, over nothing but files."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from braindive.errors import BraindiveError, ParameterError

try:
    import fcntl
except ImportError:  # Windows, where nobody is kept waiting
    fcntl = None  # type: ignore[assignment]


class OutputError(BraindiveError, OSError):
    """An output cannot be written."""


class BusyError(OutputError):
    """Somebody else is writing the same output."""


def real_file(path: Path) -> Path:
    """The file itself that is meant by a path: links are followed, and only files are written.

    Parameters
    ----------
    path : Path
        What a user gave; it need not exist.

    Returns
    -------
    Path
    """
    try:
        # Replacing a link would leave the file it names as it was.
        real = path.resolve() if path.is_symlink() else path
        kind = real.stat().st_mode
    except FileNotFoundError:
        return real
    except (OSError, RuntimeError) as error:
        raise ParameterError(f"{path} cannot be written ({_reason(error)}).") from None
    if stat.S_ISDIR(kind):
        raise ParameterError(f"{path} is a folder; give the name of a file.")
    if not stat.S_ISREG(kind):
        raise ParameterError(
            f"{path} is a device or a pipe, which a file would replace; give the name of a file."
        )
    return real


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Give a temporary file that takes the place of `path` once it is complete.

    Parameters
    ----------
    path : Path
        File to write in the end; of a link, the file that it names.

    Yields
    ------
    Path
        File to write now, in the same folder.
    """
    path = real_file(Path(path))
    remove_stale(path)
    temporary = _unfinished(path)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def fill_folder(folder: Path, name: str, last: str = "") -> Iterator[Path]:
    """Give a temporary folder whose files move into `folder` once all of them are complete.

    One process at a time may write what has the same name.

    Parameters
    ----------
    folder : Path
        Where files are to be in the end; made if it is not there.
    name : str
        What is written, for the name of the temporary folder.
    last : str
        File that moves after all others, because it names them.

    Yields
    ------
    Path
        Folder to write into now; its names may hold no folder.
    """
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    temporary = _unfinished(folder / name)
    try:
        with only_writer(folder / name):
            remove_stale(folder / name)
            temporary.mkdir()
            yield temporary
            for path in sorted(temporary.iterdir(), key=lambda path: (path.name == last, path)):
                path.replace(real_file(folder / path.name))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if made:
            with suppress(OSError):  # something is in it
                folder.rmdir()


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Keep every other process from writing the same output at the same time.

    A lock beside the output says who holds it. It ends with its process, however that ends, so
    that what a killed one left never stands in the way.

    Parameters
    ----------
    path : Path
        File or folder that is to be written; its own folder has to exist.
    """
    if fcntl is None:
        yield
        return
    lock = path.with_name(f".{path.name}.lock")
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 4096)
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                raise BusyError(
                    f"{path} is being written by {_who(holder)}; wait for it to end, or choose "
                    "another output."
                ) from None
            yield  # a file system without locks
            return
        with suppress(FileNotFoundError):
            if os.fstat(descriptor).st_ino == os.stat(lock).st_ino:
                break
        os.close(descriptor)  # its holder has just removed it
    try:
        me = {"process": os.getpid(), "computer": socket.gethostname(), "since": time.time()}
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(me).encode())
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def remove_stale(path: Path) -> None:
    """Remove unfinished files of processes on this computer that are no more."""
    start = f".{path.name}."
    for other in path.parent.glob(f".{_plain(path.name)}.*.part"):
        owner = other.name.removeprefix(start).removesuffix(".part").rpartition("-")[0]
        computer, _, process = owner.rpartition("-")
        if computer == socket.gethostname() and process.isdigit() and not _is_alive(int(process)):
            if other.is_dir() and not other.is_symlink():
                shutil.rmtree(other, ignore_errors=True)
            else:
                other.unlink(missing_ok=True)


def check_room(path: Path, needed: float) -> None:
    """Refuse to begin what the disk cannot hold.

    Parameters
    ----------
    path : Path
        Output, in a folder that exists.
    needed : float
        Bytes that will be written.
    """
    folder = path if path.is_dir() else path.absolute().parent
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ParameterError(
            f"{path} needs about {needed / 1e9:.2g} GB, but only {free / 1e9:.2g} GB are free in "
            f"{folder}."
        )


def check_writable(folder: Path) -> None:
    """Refuse a folder in which no file can be made."""
    probe = _unfinished(folder / "probe")
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ParameterError(f"nothing can be written to {folder} ({_reason(error)}).") from None


def _unfinished(path: Path) -> Path:
    """Name that no other writer has, and that tells whether its own is still there."""
    owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    return path.with_name(f".{path.name}.{owner}.part")


def _plain(name: str) -> str:
    """Name in which nothing stands for something else in a pattern."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _who(holder: bytes) -> str:
    try:
        told = json.loads(holder)
        since = time.strftime("%H:%M:%S on %Y-%m-%d", time.localtime(told["since"]))
        return f"process {told['process']} on {told['computer']} since {since}"
    except (ValueError, KeyError, TypeError):
        return "another process"


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
