"""A cohort as the files of a study: one table, and one map for each scan."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pandas as pd

from braindive.arrays import Array
from braindive.cohort import Cohort
from braindive.errors import ParameterError
from braindive.io.paths import PathLike
from braindive.io.reading import Progress
from braindive.io.times import TIME_COLUMNS
from braindive.space import Regions, Side, Surface, Volume
from braindive.values.walking import visit_blocks

# Longest axis that NIfTI-1 can hold.
_LONGEST_AXIS = 32767
_ENDINGS = {"mgh": ".mgh", "gifti": ".shape.gii", "nifti": ".nii.gz"}
_STRUCTURES = {"left": "CortexLeft", "right": "CortexRight"}


def write_cohort(
    cohort: Cohort,
    folder: PathLike,
    format: str = "mgh",  # noqa: A002
    *,
    progress: Progress | None = None,
) -> Path:
    """Write a cohort as ``cohort.tsv`` and one file per scan, for `read_cohort`.

    Parameters
    ----------
    cohort : Cohort
        What to write. Values are written as float32.
    folder : path
        Where to; made if it is not there.
    format : {"mgh", "gifti", "nifti", "table"}
        Maps as FreeSurfer, GIFTI or NIfTI files, or as columns of the table. On a surface there
        is one file for each hemisphere.
    progress : callable, optional
        Called with "write", scans written so far and their number.

    Returns
    -------
    Path
        The table.

    Examples
    --------
    >>> import tempfile, braindive as bd
    >>> cohort = bd.simulate_cohort(n_subjects=2, n_vertices=5, random_state=0).cohort
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = bd.write_cohort(cohort, folder)
    ...     bd.read_cohort(table)
    Cohort(2 subjects, 8 visits, 5 vertices)
    """
    if format not in (*_ENDINGS, "table"):
        raise ParameterError(f"format must be {', '.join(_ENDINGS)} or table; got {format!r}.")
    if isinstance(cohort.space, Volume) and format == "gifti":
        raise ParameterError("GIFTI holds surfaces; write a volume as nifti, mgh or table.")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    table = _study_table(cohort)
    if format == "table":
        names = _column_names(cohort)
        values = np.asarray(cohort.values, dtype=np.float32)
        measured = pd.DataFrame(values, columns=names)
        table = pd.concat([table, measured.astype(object).where(~np.isnan(values))], axis=1)
    else:
        files = []
        stems = _stems(table)
        for visits, block in visit_blocks(cohort.stored, cohort.rows):
            for stem, scan in zip(stems[visits], block, strict=True):
                files.append(_write_scan(cohort, scan.astype(np.float32), target, stem, format))
                if progress is not None:
                    progress("write", len(files), len(stems))
        table = pd.concat([table, pd.DataFrame(files)], axis=1)
    # The table comes last and at once: where it is, the study is complete.
    path, unfinished = target / "cohort.tsv", target / ".cohort.tsv.partial"
    table.to_csv(unfinished, sep="\t", index=False, na_rep="n/a")
    os.replace(unfinished, path)
    return path


def _study_table(cohort: Cohort) -> pd.DataFrame:
    """The cohort's table with everything that `read_cohort` looks for."""
    table = cohort.table.drop(columns=["path", "left", "right", "frame", "index"], errors="ignore")
    table["participant_id"] = [str(subject) for subject in cohort.subjects]
    if "session_id" not in table.columns:
        rank = np.empty(cohort.n_visits, dtype=int)
        order = np.argsort(cohort.times, kind="stable")
        ranks = pd.Series(cohort.subject_index[order]).groupby(cohort.subject_index[order])
        rank[order] = ranks.cumcount().to_numpy()
        table.insert(1, "session_id", [f"ses-{number + 1}" for number in rank])
    found = next((name for name in TIME_COLUMNS if name in table.columns), None)
    if found is None or not _same_times(table[found], cohort.times):
        table = table.drop(columns=list(TIME_COLUMNS), errors="ignore")
        table.insert(2, "years", cohort.times)
    if cohort.controls is not None and "diagnosis" not in table.columns:
        table["diagnosis"] = np.where(cohort.controls, "CN", "patient")
    first = ["participant_id", "session_id"]
    return table[[*first, *(name for name in table.columns if name not in first)]]


def _same_times(column: pd.Series, times: Array) -> bool:
    return bool(np.array_equal(pd.to_numeric(column, errors="coerce").to_numpy(), times))


def _stems(table: pd.DataFrame) -> list[str]:
    """Names of the scans, free of anything that could lead out of the folder."""
    stems = [
        "_".join(re.sub(r"[^\w-]", "-", str(part)) for part in parts)
        for parts in zip(table["participant_id"], table["session_id"], strict=True)
    ]
    return stems if len(set(stems)) == len(stems) else [f"{s}_{i}" for i, s in enumerate(stems)]


def _column_names(cohort: Cohort) -> list[str]:
    if isinstance(cohort.space, Regions):
        return list(cohort.space.names)
    return [f"vertex_{i}" for i in range(cohort.n_vertices)]


def _write_scan(
    cohort: Cohort, values: Array, folder: Path, stem: str, format_: str
) -> dict[str, str]:
    """Write the maps of one scan; return the columns of the table that name them."""
    ending = _ENDINGS[format_]
    if isinstance(cohort.space, Volume):
        name = f"{stem}{ending}"
        _save(cohort.space.unmask(values), cohort.space.affine, folder / name, format_)
        return {"path": name}
    if isinstance(cohort.space, Surface):
        names = {}
        for side, full in cohort.space.split(values).items():
            name = f"{stem}_hemi-{side[0].upper()}{ending}"
            _save_flat(full, folder / name, format_, side)
            names[str(side)] = name
        return names
    name = f"{stem}{ending}"
    _save_flat(values, folder / name, format_)
    return {"path": name}


def _save_flat(values: Array, path: Path, format_: str, side: Side | None = None) -> None:
    if format_ == "gifti":
        meta = {} if side is None else {"AnatomicalStructurePrimary": _STRUCTURES[side]}
        gifti: Any = nib.gifti
        array = gifti.GiftiDataArray(
            values.astype(np.float32), intent="NIFTI_INTENT_SHAPE", datatype="NIFTI_TYPE_FLOAT32"
        )
        nib.save(gifti.GiftiImage(darrays=[array], meta=gifti.GiftiMetaData(meta)), path)
        return
    folds = 1 if format_ == "mgh" else _folds(len(values))
    _save(values.reshape(-1, 1, folds, order="F"), np.eye(4), path, format_)


def _save(data: Array, affine: Array, path: Path, format_: str) -> None:
    image = nib.Nifti1Image if format_ == "nifti" else nib.MGHImage
    nib.save(image(data.astype(np.float32), affine), path)


def _folds(n_values: int) -> int:
    """Pieces into which a long row is folded to fit NIfTI-1: 163,842 becomes 27307 x 1 x 6."""
    for folds in range(-(-n_values // _LONGEST_AXIS), _LONGEST_AXIS + 1):
        if n_values % folds == 0:
            return folds
    raise ParameterError(f"{n_values} values do not fit the axes of NIfTI; write mgh or gifti.")
