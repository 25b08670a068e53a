"""Scans on their way into a packed cohort, kept so that an interrupted call can go on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from braindive.arrays import Array
from braindive.errors import CohortError
from braindive.io.plan import Plan, ReportProgress
from braindive.io.provenance import Ledger

DTYPE = np.dtype("<f4")

Inputs = list[dict[str, Any]]
_FILES = {"scans.f32", "journal.jsonl", "plan.sha256", "store"}


class Scratch:
    """Scans one after the other in a file, and a journal of those that are there.

    Parameters
    ----------
    folder : Path
        Where to keep them; what an interrupted call left there is used if it is of this plan.
    plan : Plan
        What to read.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._plan = plan
        self._row_bytes = plan.reader.n_vertices * DTYPE.itemsize
        self._values, self._journal = folder / "scans.f32", folder / "journal.jsonl"
        marker, mark = folder / "plan.sha256", fingerprint(plan)
        if folder.exists() and not (marker.is_file() and marker.read_text() == mark):
            remove_scratch(folder)
        if not folder.exists():
            folder.mkdir()
            self._values.touch()
            self._journal.touch()
            # Last, so that a folder with the mark is complete.
            marker.write_text(mark)

    def fill(self, n_jobs: int | None, tell: ReportProgress) -> Inputs:
        """Read what is not there yet; return the record of all inputs."""
        plan = self._plan
        ledger = Ledger()
        done = self._verified(n_jobs, ledger)
        rows = [row for row in range(plan.n_visits) if row not in done]
        tell("read", len(done), plan.n_visits)
        with open(self._values, "r+b") as values, open(self._journal, "a") as journal:
            for batch, part in plan.read(rows, n_jobs, ledger):
                bad = plan.problems.rows
                for row, numbers in zip(batch, part, strict=True):
                    values.seek(row * self._row_bytes)
                    values.write(np.ascontiguousarray(numbers, dtype=DTYPE).tobytes())
                # The journal may speak of a scan only when the scan is on the disk.
                values.flush()
                os.fsync(values.fileno())
                for row in batch:
                    if row not in bad:
                        done[row] = record_inputs(plan, [row], ledger)
                        journal.write(json.dumps({"row": row, "inputs": done[row]}) + "\n")
                journal.flush()
                os.fsync(journal.fileno())
                tell("read", len(done), plan.n_visits)
        plan.problems.raise_if_any()
        return [entry for row in range(plan.n_visits) for entry in done[row]]

    def columns(self, where: slice) -> Array:
        """All visits of some vertices."""
        start, width = where.start * DTYPE.itemsize, where.stop - where.start
        block = np.empty((self._plan.n_visits, width), dtype=DTYPE)
        with open(self._values, "rb", buffering=0) as stream:
            for row in range(self._plan.n_visits):
                stream.seek(row * self._row_bytes + start)
                stream.readinto(memoryview(block[row]).cast("B"))
        return block

    def _verified(self, n_jobs: int | None, ledger: Ledger) -> dict[int, Inputs]:
        """Rows in the journal whose input files have not changed since."""
        noted: dict[int, Inputs] = {}
        text = self._journal.read_text()
        whole, _, broken = text.rpartition("\n")
        for line in whole.splitlines():
            entry = json.loads(line)
            noted[entry["row"]] = entry["inputs"]
        if broken:  # half a line, from a process that was killed
            os.truncate(self._journal, len(text) - len(broken))

        def unchanged(row: int) -> bool:
            return record_inputs(self._plan, [row], ledger) == noted[row]

        rows = list(noted)
        same = Parallel(n_jobs=-1 if n_jobs is None else n_jobs, prefer="threads")(
            delayed(unchanged)(row) for row in rows
        )
        return {row: noted[row] for row, kept in zip(rows, same, strict=True) if kept}


def unfinished(target: Path) -> Path:
    """Folder beside an output where unfinished work on it is kept."""
    return target.with_name(target.name + ".partial")


def remove_if_nothing_was_read(folder: Path) -> None:
    """Remove a folder in which no scan is kept: there is nothing to go on from."""
    journal = folder / "journal.jsonl"
    if journal.is_file() and journal.stat().st_size == 0:
        remove_scratch(folder)


def remove_scratch(folder: Path) -> None:
    """Remove what an earlier call left, and nothing that anybody else put there."""
    others = {path.name for path in folder.iterdir()} - _FILES if folder.is_dir() else {folder.name}
    if others:
        raise CohortError(
            f"{folder}, where unfinished work is kept, holds something else ({sorted(others)[0]}); "
            "move it away."
        )
    shutil.rmtree(folder)


def fingerprint(plan: Plan) -> str:
    """Hash of everything that decides what a packed cohort holds, but the contents of files."""
    digest = hashlib.sha256(str(plan.reader.n_vertices).encode())
    digest.update(json.dumps(plan.text.to_dict("list")).encode())
    for array in (plan.times, plan.controls, plan.numbers):
        if array is not None:
            digest.update(np.ascontiguousarray(array).tobytes())
    for scan in plan.scans:
        digest.update(json.dumps([scan.names, scan.frame]).encode())
    if plan.space is not None:
        for name, array in sorted(plan.space.to_arrays().items()):
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def record_inputs(plan: Plan, rows: Iterable[int], ledger: Ledger | None = None) -> Inputs:
    """Name, size and hash of the files of some rows, as the ledger has them."""
    ledger = Ledger() if ledger is None else ledger
    entries: Inputs = []
    if not plan.scans:
        return entries
    for row in rows:
        scan = plan.scans[row]
        for column, path in scan.files.items():
            told = {"row": row, "column": column, "path": scan.names[column]}
            entries.append({**told, **ledger.entry(path)})
    return entries


def record_table(plan: Plan) -> Inputs:
    """Name, size and hash of the table, if it is a file, as it was when it was read."""
    if plan.file is None or plan.record is None:
        return []
    return [{"row": None, "column": None, "path": plan.file.name, **plan.record}]
