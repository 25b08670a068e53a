"""Simulated studies in the files that other software leaves: FreeSurfer's and ADNI's."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd

from braindive.arrays import Array
from braindive.cohort import Cohort
from braindive.errors import ParameterError
from braindive.io.anatomy import find_anatomy
from braindive.io.atlas_names import DESIKAN_KILLIANY
from braindive.io.outputs import fill_folder
from braindive.space import Side, Surface

# Each with the table that names the rest.
LAYOUTS = {
    "maps": "cohort.tsv",
    "freesurfer": "visits.tsv",
    "regions": "visits.tsv",
    "adni": "ADNIMERGE.csv",
}
_PREFIXES: dict[Side, str] = {"left": "lh", "right": "rh"}
# From values in units of the controls' spread to millimetres: cortex is about 2.5 mm thick, and
# healthy people differ by about 0.2 mm.
_MEAN, _SPREAD = 2.5, 0.2
_DAYS_PER_YEAR = 365.25
# Sum of boxes of the CDR above which ADNI's people are demented rather than mildly impaired.
_DEMENTED = 4.0


def write_region_tables(cohort: Cohort, folder: Path) -> list[Path]:
    """Write a study as `aparcstats2table` does: regions of each hemisphere, and a table of visits.

    Parameters
    ----------
    cohort : Cohort
        On fsaverage5, both hemispheres.
    folder : Path
        Gets ``visits.tsv``, ``lh.thickness.tsv`` and ``rh.thickness.tsv``.

    Returns
    -------
    list of Path
        The visits, then the tables of regions.
    """
    space = _both_hemispheres(cohort)
    anatomy = find_anatomy(space)
    if anatomy is None:
        raise ParameterError("regions need an atlas; get it with: pip install 'braindive[anatomy]'")
    thickness = _thickness(cohort)
    visits, names = _visits(cohort)
    written = {"visits.tsv": visits}
    head = 1.5e6 + 1e5 * np.asarray(pd.factorize(visits["participant_id"])[0] % 7 - 3)
    for side, prefix in _PREFIXES.items():
        columns: dict[str, object] = {f"{prefix}.aparc.thickness": names}
        for key, words in DESIKAN_KILLIANY.items():
            inside = anatomy.labels == anatomy.names.index(f"{side} {words}")
            columns[f"{prefix}_{key}_thickness"] = thickness[:, inside].mean(axis=1).round(3)
        own = np.array([name.startswith(side) for name in (*anatomy.names, "")])[anatomy.labels]
        columns[f"{prefix}_MeanThickness_thickness"] = thickness[:, own].mean(axis=1).round(5)
        columns["BrainSegVolNotVent"], columns["eTIV"] = (0.7 * head).round(), head.round()
        written[f"{prefix}.thickness.tsv"] = pd.DataFrame(columns)
    with fill_folder(folder, "study", last="visits.tsv") as temporary:
        for name, frame in written.items():
            frame.to_csv(temporary / name, sep="\t", index=False)
    return [folder / name for name in written]


def write_subjects(cohort: Cohort, folder: Path) -> list[Path]:
    """Write a study as FreeSurfer's longitudinal stream leaves it, with a table of visits.

    Parameters
    ----------
    cohort : Cohort
        On fsaverage5, both hemispheres.
    folder : Path
        Gets ``visits.tsv`` and ``subjects``, whose maps are 0 on the medial wall.

    Returns
    -------
    list of Path
        The table and the folder.
    """
    space = _both_hemispheres(cohort)
    thickness = _without_wall(_thickness(cohort), space)
    visits, names = _visits(cohort)
    with fill_folder(folder, "study", last="visits.tsv") as temporary:
        for row, (name, who) in enumerate(zip(names, visits["participant_id"], strict=True)):
            surf = temporary / "subjects" / f"{name}.long.{who}" / "surf"
            _write_maps(space.split(thickness[row]), surf)
        visits.to_csv(temporary / "visits.tsv", sep="\t", index=False)
    return [folder / "visits.tsv", folder / "subjects"]


def write_adni(cohort: Cohort, folder: Path, seed: int = 0) -> list[Path]:
    """Write a study in the layout of ADNI's files; nothing in it is of ADNI.

    Every other person has runs of the longitudinal stream, the first one only two scans, one
    diagnosis is missing, and the medial wall is 0, as in FreeSurfer's maps.

    Parameters
    ----------
    cohort : Cohort
        On fsaverage5, both hemispheres; with cognitive scores, age, sex and `apoe4` in its table.
    folder : Path
        Gets ``ADNIMERGE.csv`` and ``subjects``.
    seed : int
        Of the days on which people were scanned.

    Returns
    -------
    list of Path
        The table and the folder.
    """
    space = _both_hemispheres(cohort)
    random = np.random.default_rng(seed)
    thickness = _without_wall(_thickness(cohort), space)
    with fill_folder(folder, "study", last="ADNIMERGE.csv") as temporary:
        _write_people(cohort, space, thickness, temporary, random)
    return [folder / "ADNIMERGE.csv", folder / "subjects"]


def _write_people(
    cohort: Cohort,
    space: Surface,
    thickness: Array,
    folder: Path,
    random: np.random.Generator,
) -> None:
    """Write everybody's exams and maps."""
    subjects = folder / "subjects"
    exams: list[dict[str, object]] = []
    for person, who in enumerate(cohort.subject_ids):
        ptid = f"{person % 50 + 1:03d}_S_{person + 100:04d}"
        rows = np.flatnonzero(cohort.subjects == who)
        first = cohort.table.iloc[rows[cohort.times[rows].argmin()]]
        age = float(first.get("age", 70.0))
        start = pd.Timestamp("2006-03-01") + pd.Timedelta(days=37 * person)
        for number, row in enumerate(rows[np.argsort(cohort.times[rows], kind="stable")]):
            years = float(cohort.times[row] - cohort.times[rows].min())
            day = start + pd.Timedelta(days=_DAYS_PER_YEAR * years)
            exam = _exam(cohort, int(row), person, years, age)
            exams.append({"RID": person + 100, "PTID": ptid, "EXAMDATE": f"{day:%Y-%m-%d}"} | exam)
            scanned = day + pd.Timedelta(days=int(random.integers(0, 30)))
            if person == 0 and number > 1:
                continue
            run = f"{ptid}_{scanned:%Y-%m-%d}" + (f".long.{ptid}" if person % 2 else "")
            _write_maps(space.split(thickness[row]), subjects / run / "surf")
        if person % 2:
            (subjects / ptid).mkdir(exist_ok=True)  # the base of the longitudinal runs
    table = pd.DataFrame(exams)
    table.loc[table["PTID"].duplicated().to_numpy().argmax(), "DX"] = None
    table.to_csv(folder / "ADNIMERGE.csv", index=False)


def _exam(cohort: Cohort, row: int, person: int, years: float, age: float) -> dict[str, object]:
    """What ADNIMERGE has of one exam, beside who and when."""
    entry = cohort.table.iloc[row].to_dict()
    is_control = cohort.controls is not None and bool(cohort.controls[row])
    ill = "Dementia" if float(entry.get("CDRSOB", 0)) >= _DEMENTED else "MCI"
    return {
        "VISCODE": "bl" if years == 0 else f"m{round(12 * years):02d}",
        "SITE": person % 50 + 1,
        "DX": "CN" if is_control else ill,
        # As ADNI has it: the age at the first exam, in every row.
        "AGE": round(age, 1),
        "PTGENDER": {"F": "Female", "M": "Male"}.get(str(entry.get("sex")), "Female"),
        "PTEDUCAT": 12 + person % 8,
        "APOE4": entry.get("apoe4"),
        "CDRSB": entry.get("CDRSOB"),
        "ADAS13": entry.get("ADAS13"),
        "MMSE": entry.get("MMSE"),
        "RAVLT_immediate": entry.get("RAVLT"),
    }


def _both_hemispheres(cohort: Cohort) -> Surface:
    space = cohort.space
    if not isinstance(space, Surface) or space.name != "fsaverage5":
        raise ParameterError("this layout is of maps on fsaverage5; simulate them there.")
    return space


def _visits(cohort: Cohort) -> tuple[pd.DataFrame, list[str]]:
    """Table of the visits, and what FreeSurfer calls them."""
    table = cohort.table
    sessions = [f"v{number}" for number in table.groupby("participant_id").cumcount() + 1]
    people = table["participant_id"]
    names = [f"{who}_{session}" for who, session in zip(people, sessions, strict=True)]
    return table.assign(session_id=sessions), names


def _without_wall(thickness: Array, space: Surface) -> Array:
    """Zeros where there is no cortex, as far as an installed atlas tells."""
    anatomy = find_anatomy(space)
    return thickness if anatomy is None else np.where(anatomy.labels < 0, 0.0, thickness)


def _thickness(cohort: Cohort) -> Array:
    values = np.asarray(cohort.values, dtype=np.float64)
    # A thickness is above 0, however noisy.
    return np.maximum(_MEAN + _SPREAD * values, 0.1)


def _write_maps(parts: dict[Side, Array], surf: Path) -> None:
    surf.mkdir(parents=True, exist_ok=True)
    for side, values in parts.items():
        data = values.astype(np.float32)[:, None, None]
        image = nib.MGHImage(data, np.eye(4))  # type: ignore[no-untyped-call]
        path = surf / f"{_PREFIXES[side]}.thickness.fwhm0.fsaverage5.mgh"
        nib.save(image, path)
