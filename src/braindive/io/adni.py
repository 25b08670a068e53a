"""ADNI's files as its holders have them: ADNIMERGE beside a FreeSurfer subjects folder."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from braindive.errors import CohortError
from braindive.io.joining import join_nearest
from braindive.io.paths import PathLike
from braindive.io.sheets import read_text_table

#: The tests of the published comparison, as ADNIMERGE calls them.
COGNITIVE_TESTS = ("CDRSB", "ADAS13", "MMSE", "RAVLT_immediate")
_NEEDED = ("RID", "PTID", "VISCODE", "EXAMDATE")
# Half of the shortest time between ADNI's visits, which is six months.
WITHIN = 91.0
# The published cohort has 1,973 scans of 454 people, 4.3 of each.
FEWEST_SCANS = 4
_DAYS_PER_YEAR = 365.25
# How people who work with ADNI name FreeSurfer's folders: 002_S_0413_2007-06-01, 002_S_0413_m12,
# sub-ADNI002S0413_ses-M012, with .long.<base> behind where the longitudinal stream was run.
_PERSON = re.compile(r"(?P<site>\d{3})_?S_?(?P<rid>\d{4,5})(?!\d)")
_DATE = re.compile(r"(?<!\d)(?P<y>(?:19|20)\d\d)[-_.]?(?P<m>\d\d)[-_.]?(?P<d>\d\d)(?!\d)")
_VISIT = re.compile(r"(?:^|[-_.])(?:ses-)?(?P<code>bl|sc|m\d{1,3})(?=$|[-_.])", re.IGNORECASE)
_OWNER_COLUMNS = ("PTID", "Subject", "Subject ID", "participant_id")
_DATE_COLUMNS = ("EXAMDATE", "SCANDATE", "Acq Date", "date", "acq_time", "ScanDate")
_FOLDER_COLUMNS = ("fsid", "folder", "Image Data ID", "IMAGEUID", "Image ID")


@dataclass
class AdniStudy:
    """A study that was joined from ADNI's files.

    Parameters
    ----------
    table : DataFrame
        One row per scan, for `read_cohort` or `pack_cohort` with ``times="years"`` and the
        subjects folder as `root`: who and when, the maps, diagnosis, APOE and cognitive tests.
    steps : list of str
        What was left out and what is there, one sentence each.
    """

    table: pd.DataFrame
    steps: list[str] = field(default_factory=list)


def read_adni(
    table: PathLike,
    subjects_dir: PathLike,
    *,
    scans: PathLike | None = None,
    at_least: int = FEWEST_SCANS,
    within: float = WITHIN,
    measure: str = "thickness",
    fwhm: int = 0,
    target: str = "fsaverage",
) -> AdniStudy:
    """Join ADNIMERGE with the maps of a FreeSurfer subjects folder.

    A folder belongs to the person whose PTID its name has (``002_S_0413_...`` or
    ``sub-ADNI002S0413_...``), and was scanned on the date in its name, or on the date of the visit
    (``bl``, ``m12``, ``ses-M012``) in its name. Runs of the longitudinal stream come before
    cross-sectional ones of the same scan. Each scan takes what the nearest exam says.

    Parameters
    ----------
    table : path
        ADNIMERGE.csv, or a table with its columns: RID, PTID, VISCODE and EXAMDATE; as far as they
        are there DX, AGE, PTGENDER, PTEDUCAT, APOE4, CDRSB, ADAS13, MMSE and RAVLT_immediate.
    subjects_dir : path
        FreeSurfer's SUBJECTS_DIR.
    scans : path, optional
        Table of the folders where their names do not tell: `fsid`, `PTID` and `EXAMDATE`; or a
        list of images of ADNI's archive, if the folders are called by their image numbers.
    at_least : int, default 4
        Scans that a person has to have.
    within : float, default 91
        Most days between a scan and an exam.
    measure, fwhm, target
        Which maps, as for `read_freesurfer_table`.

    Returns
    -------
    AdniStudy
        Its table has `participant_id`, `years` since the first scan, `age`, `diagnosis`,
        `APOE4` (alleles), `APOE4_carrier`, the cognitive tests, `sex`, `education`, `scan_date`,
        `days_apart` from the exam, `fsid`, `left` and `right`.

    Examples
    --------
    See the page on ADNI in the documentation.
    """
    exams = _read_exams(Path(os.fspath(table)).expanduser())
    folder = Path(os.fspath(subjects_dir)).expanduser()
    if not folder.is_dir():
        raise CohortError(f"there is no subjects folder {subjects_dir}.")
    found, steps = _find_scans(folder, exams, scans)
    found, steps = _with_maps(found, folder, measure, fwhm, target, steps)
    columns = [name for name in exams.columns if name not in ("participant_id", "date", "visit")]
    joined = join_nearest(found, exams, columns, within)
    far = joined["days_apart"].isna()
    _note(steps, far.sum(), f"scans without an exam within {within:g} days", joined["fsid"][far])
    joined = _one_a_day(joined[~far], steps)
    counts = joined["participant_id"].map(joined["participant_id"].value_counts())
    few = counts < at_least
    _note(steps, few.sum(), f"scans of people with fewer than {at_least}", ())
    study = joined[~few].sort_values(["participant_id", "date"], kind="stable")
    if study.empty:
        raise CohortError(f"no scan is left. {' '.join(steps)}")
    result = _describe(study.reset_index(drop=True))
    groups = result.groupby("participant_id")["diagnosis"].first().fillna("unknown").value_counts()
    steps.append(
        f"Kept {len(result):,} scans of {result['participant_id'].nunique():,} people "
        f"({', '.join(f'{n} {name}' for name, n in groups.items())} at the first scan)."
    )
    return AdniStudy(result, steps)


def _read_exams(path: Path) -> pd.DataFrame:
    """Rows of ADNIMERGE, dates as dates and numbers as numbers."""
    if not path.is_file():
        raise CohortError(f"there is no table {path}.")
    text = read_text_table(path)
    known = {name.lower(): name for name in text.columns}
    lacking = [name for name in _NEEDED if name.lower() not in known]
    if lacking:
        raise CohortError(
            f"{path.name} has no column {', '.join(lacking)}; a table of ADNI's exams has "
            f"{', '.join(_NEEDED)}."
        )
    text = text.rename(columns={known[name.lower()]: name for name in _NEEDED})
    exams = pd.DataFrame({"participant_id": text["PTID"], "visit": text["VISCODE"].str.lower()})
    exams["date"] = pd.to_datetime(text["EXAMDATE"], errors="coerce", format="mixed")
    bad = exams["date"].isna() & (text["EXAMDATE"] != "")
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise CohortError(
            f"{path.name}, row {row + 1}: EXAMDATE {text['EXAMDATE'].iloc[row]!r} is not a date."
        )
    for name in ("AGE", "PTEDUCAT", "APOE4", *COGNITIVE_TESTS):
        if name.lower() in known:
            exams[name] = pd.to_numeric(text[known[name.lower()]], errors="coerce")
    for name in ("DX", "PTGENDER", "SITE"):
        if name.lower() in known:
            column = text[known[name.lower()]]
            exams[name] = column.where(column != "", None)
    if "DX" in exams:
        exams["DX"] = exams["DX"].map(_last_diagnosis)
    exams["first_exam"] = exams.groupby("participant_id")["date"].transform("min")
    # What is true of the person counts at every visit.
    for name in {"APOE4", "AGE", "PTGENDER", "PTEDUCAT"} & set(exams.columns):
        exams[name] = exams.groupby("participant_id")[name].transform("first")
    return exams


def _last_diagnosis(text: object) -> object:
    """Diagnosis of an exam; earlier releases write changes such as "NL to MCI"."""
    if not isinstance(text, str):
        return None
    last = text.split(" to ")[-1].strip()
    return {"NL": "CN"}.get(last, last)


def _find_scans(
    folder: Path, exams: pd.DataFrame, table: PathLike | None
) -> tuple[pd.DataFrame, list[str]]:
    """Folders that are scans of people in the table, each with its date."""
    runs: dict[str, str] = {}
    bases: set[str] = set()
    for path in sorted(folder.iterdir()):
        if not path.is_dir() or path.name.startswith((".", "fsaverage")):
            continue
        name, _, base = path.name.partition(".long.")
        if base or name not in runs:
            runs[name] = path.name
        bases.add(base)
    runs = {name: run for name, run in runs.items() if name not in bases}
    listed = {} if table is None else _read_scans(Path(os.fspath(table)).expanduser())
    people, dates = set(exams["participant_id"]), _dates_of_visits(exams)
    rows: list[dict[str, object]] = []
    strange: list[str] = []
    undated: list[str] = []
    for name, run in runs.items():
        person, date = listed.get(name, (None, pd.NaT))
        found = _PERSON.search(name)
        if person is None and found is not None:
            person = f"{found['site']}_S_{found['rid']}"
        if person not in people:
            strange.append(run)
            continue
        if pd.isna(date):
            date = _date_of(name, str(person), dates)
        if pd.isna(date):
            undated.append(run)
            continue
        rows.append({"participant_id": person, "date": date, "fsid": run})
    steps: list[str] = []
    _note(steps, len(strange), "folders of nobody in the table", strange)
    _note(steps, len(undated), "folders without a date or visit in their name", undated)
    if not rows:
        raise CohortError(
            f"no folder of {folder} is a scan of a person in the table; folders are called after "
            "the PTID and the date or visit, such as 002_S_0413_2007-06-01, or a table of scans "
            f"tells (--scans). {' '.join(steps)}"
        )
    return pd.DataFrame(rows), steps


def _dates_of_visits(exams: pd.DataFrame) -> dict[tuple[str, str], Any]:
    known = exams.dropna(subset=["date"])
    return {
        (str(who), _plain_visit(str(visit))): date
        for who, visit, date in zip(
            known["participant_id"], known["visit"], known["date"], strict=True
        )
    }


def _plain_visit(code: str) -> str:
    """Name of a visit; months without leading zeros, screening and month 0 as the baseline."""
    months = re.fullmatch(r"m0*(\d+)", code.lower())
    plain = code.lower() if months is None else f"m{months[1]}"
    return "bl" if plain in ("sc", "m0", "scmri") else plain


def _date_of(name: str, person: str, dates: dict[tuple[str, str], Any]) -> Any:
    """Date in the name of a folder, or of the visit in it."""
    rest = _PERSON.sub("", name, count=1)
    written = _DATE.search(rest)
    if written is not None:
        text = f"{written['y']}-{written['m']}-{written['d']}"
        return pd.to_datetime(text, errors="coerce")
    visit = _VISIT.search(rest)
    return pd.NaT if visit is None else dates.get((person, _plain_visit(visit["code"])), pd.NaT)


def _read_scans(path: Path) -> dict[str, tuple[str, Any]]:
    """Person and date of each folder, from a table."""
    if not path.is_file():
        raise CohortError(f"there is no table {path}.")
    table = read_text_table(path)
    chosen = []
    for what, names in (
        ("folders", _FOLDER_COLUMNS),
        ("people", _OWNER_COLUMNS),
        ("dates", _DATE_COLUMNS),
    ):
        lower = {name.lower(): name for name in table.columns}
        name = next((lower[each.lower()] for each in names if each.lower() in lower), None)
        if name is None:
            raise CohortError(f"{path.name} has no column of {what}: {', '.join(names)}.")
        chosen.append(name)
    dates = pd.to_datetime(table[chosen[2]], errors="coerce", format="mixed")
    rows = zip(table[chosen[0]], table[chosen[1]], dates, strict=True)
    # The archive numbers images I12345, and its tables 12345.
    both: dict[str, tuple[str, Any]] = {}
    for folder, person, date in rows:
        both[str(folder)] = both[f"I{folder}"] = (str(person), date)
    return both


def _with_maps(
    scans: pd.DataFrame, folder: Path, measure: str, fwhm: int, target: str, steps: list[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Scans that have a map of each hemisphere."""
    scans = scans.copy()
    for column, prefix in (("left", "lh"), ("right", "rh")):
        scans[column] = [
            f"{run}/surf/{prefix}.{measure}.fwhm{fwhm}.{target}.mgh" for run in scans["fsid"]
        ]
    there = scans[["left", "right"]].map(lambda name: (folder / name).is_file()).all(axis=1)
    _note(steps, (~there).sum(), f"scans without maps of {measure}", scans["fsid"][~there])
    if not there.any():
        raise CohortError(
            f"no scan has its maps, such as {scans['left'].iloc[0]}; run recon-all with -qcache, "
            "or choose another measure, fwhm or target."
        )
    return scans[there], steps


def _one_a_day(scans: pd.DataFrame, steps: list[str]) -> pd.DataFrame:
    again = scans.duplicated(["participant_id", "date"])
    _note(steps, again.sum(), "further scans of the same day", scans["fsid"][again])
    return scans[~again]


def _describe(study: pd.DataFrame) -> pd.DataFrame:
    """Columns of the cohort's table, in its own words."""
    first = study.groupby("participant_id")["date"].transform("min")
    result = study[["participant_id"]].copy()
    result["years"] = (study["date"] - first).dt.days / _DAYS_PER_YEAR
    if "AGE" in study:
        # ADNIMERGE has the age at the first exam, in every row.
        since = (study["date"] - pd.to_datetime(study["first_exam"])).dt.days / _DAYS_PER_YEAR
        result["age"] = (study["AGE"].astype(float) + since).round(2)
    # An exam without a diagnosis leaves the person with that of the scan before.
    if "DX" in study:
        by_person = study.groupby("participant_id")["DX"]
        result["diagnosis"] = by_person.ffill().where(
            lambda known: known.notna(), by_person.bfill()
        )
    else:
        result["diagnosis"] = None
    if "APOE4" in study:
        alleles = study["APOE4"].astype(float)
        result["APOE4"] = alleles
        words = np.where(alleles > 0, "carrier", "non-carrier").astype(object)
        result["APOE4_carrier"] = pd.Series(words).where(alleles.notna(), None)
    for name in COGNITIVE_TESTS:
        if name in study:
            result[name] = study[name].astype(float)
    for name, own in (("PTGENDER", "sex"), ("PTEDUCAT", "education"), ("SITE", "site")):
        if name in study:
            result[own] = study[name]
    result["scan_date"] = study["date"].dt.strftime("%Y-%m-%d")
    result["days_apart"] = study["days_apart"].round(1)
    return result.join(study[["fsid", "left", "right"]])


def _note(steps: list[str], found: float, what: str, names: Sequence[str] | pd.Series) -> None:
    count = int(found)
    if count:
        shown = [str(name) for name in list(names)[:3]]
        more = f" and {count - 3} more" if count > 3 and shown else ""
        which = f": {', '.join(shown)}{more}" if shown else ""
        steps.append(f"Left out {count:,} {what}{which}.")
