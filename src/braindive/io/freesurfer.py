"""FreeSurfer's own layout: where a subjects folder keeps the maps of each visit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from braindive.errors import CohortError
from braindive.io.paths import OutsideError, PathLike, resolve_inside
from braindive.io.problems import Problems
from braindive.io.study_columns import read_visits
from braindive.space.fsaverage import BUILT_IN

_BASE_COLUMNS = ("fsid-base", "fsid_base", "base")


def read_freesurfer_table(
    subjects_dir: PathLike,
    table: PathLike | pd.DataFrame,
    measure: str = "thickness",
    fwhm: int = 0,
    target: str = "fsaverage",
) -> pd.DataFrame:
    """Find the maps that FreeSurfer made of the visits in a table.

    They are ``surf/?h.<measure>.fwhm<fwhm>.<target>.mgh`` in the folder of the visit, which is
    ``<visit>.long.<base>`` where the longitudinal stream was run, and ``<visit>`` where not. The
    visit is the column `fsid`, or else `<participant_id>_<session_id>`, or `participant_id`; the
    base is the column `fsid-base`, or whichever is there.

    Parameters
    ----------
    subjects_dir : path
        FreeSurfer's SUBJECTS_DIR.
    table : path or DataFrame
        One row per visit, with `participant_id`.
    measure : str
        For example "thickness", "area" or "volume".
    fwhm : int
        Smoothing of the maps in millimetres.
    target : str
        Subject on whose surface the maps were sampled.

    Returns
    -------
    DataFrame
        The table with the columns `left` and `right`, for `read_cohort` with the subjects folder
        as `root`.

    Raises
    ------
    CohortError
        Lists every visit that is not found at once.

    Examples
    --------
    >>> import tempfile, pandas as pd, braindive as bd
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     surf = Path(folder, "bert_1.long.bert", "surf")
    ...     surf.mkdir(parents=True)
    ...     for side in ("lh", "rh"):
    ...         (surf / f"{side}.thickness.fwhm0.fsaverage.mgh").touch()
    ...     visits = pd.DataFrame({"participant_id": ["bert"], "session_id": ["1"]})
    ...     bd.read_freesurfer_table(folder, visits)["left"].item()
    'bert_1.long.bert/surf/lh.thickness.fwhm0.fsaverage.mgh'
    """
    visits, source = read_visits(table)
    problems = Problems(source, visits["participant_id"].astype(str).tolist())
    maps = FreeSurferMaps(subjects_dir, measure, fwhm, target)
    found = maps.find(visits, problems)
    problems.raise_if_any()
    return visits.assign(**found)


@dataclass(frozen=True)
class FreeSurferMaps:
    """Which maps of a subjects folder are meant.

    Parameters
    ----------
    subjects_dir : path
        FreeSurfer's SUBJECTS_DIR.
    measure, fwhm, target : str, int, str
        As for `read_freesurfer_table`.
    """

    subjects_dir: PathLike
    measure: str = "thickness"
    fwhm: int = 0
    target: str = "fsaverage"

    @property
    def folder(self) -> Path:
        """The subjects folder."""
        folder = Path(self.subjects_dir).expanduser().resolve()
        if not folder.is_dir():
            raise CohortError(f"there is no subjects folder {self.subjects_dir}.")
        return folder

    def space(self) -> str:
        """Where the maps lie, as `load_space` takes it."""
        return template_space(self.subjects_dir, self.target)

    def find(self, visits: pd.DataFrame, problems: Problems) -> dict[str, list[str]]:
        """Find the maps of all visits, as columns `left` and `right`; what is missing is noted."""
        folder = self.folder
        found: dict[str, list[str]] = {"left": [], "right": []}
        for row, visit in enumerate(visits.to_dict("records")):
            run = _find_run(folder, {str(k): str(v) for k, v in visit.items()}, row, problems)
            for column, prefix in (("left", "lh"), ("right", "rh")):
                name = f"{run}/surf/{prefix}.{self.measure}.fwhm{self.fwhm}.{self.target}.mgh"
                found[column].append(name)
                if run is not None and not (folder / name).is_file():
                    problems.add(
                        row,
                        "the file does not exist; run recon-all with -qcache, or choose another "
                        "measure, fwhm or target.",
                        file=name,
                    )
        return found


def template_space(subjects_dir: PathLike, target: str) -> str:
    """Space of maps that were sampled on the surface of a subject, as `load_space` takes it.

    Parameters
    ----------
    subjects_dir : path
        FreeSurfer's SUBJECTS_DIR, which usually has the subject.
    target : str
        Name of the subject; fsaverage5 is known without its folder.

    Raises
    ------
    CohortError
        If there is no such subject.
    """
    folder = Path(subjects_dir).expanduser() / target
    if folder.is_dir():
        return str(folder)
    if target in BUILT_IN:
        return target
    raise CohortError(
        f"the subjects folder {subjects_dir} has no subject {target}, on whose surface the maps "
        "are; link it there (it comes with FreeSurfer), or give its folder with --space."
    )


def visit_names(visit: dict[str, str]) -> list[str]:
    """Names that FreeSurfer may know a visit by, the likeliest first, each once.

    Parameters
    ----------
    visit : dict
        Row of a table: `participant_id`, perhaps `session_id`, perhaps `fsid`.

    Examples
    --------
    >>> from braindive.io.freesurfer import visit_names
    >>> visit_names({"participant_id": "sub-1", "session_id": "2"})
    ['sub-1_2', 'sub-1_ses-2']
    """
    participant, session = visit["participant_id"], visit.get("session_id", "")
    if visit.get("fsid"):
        names = [visit["fsid"]]
    elif session:
        names = [f"{participant}_{session}", f"{participant}_ses-{session.removeprefix('ses-')}"]
    else:
        names = [participant]
    return list(dict.fromkeys(names))


def _find_run(folder: Path, visit: dict[str, str], row: int, problems: Problems) -> str | None:
    """Name of the folder of a visit, the longitudinal run first."""
    names = visit_names(visit)
    base = next((visit[name] for name in _BASE_COLUMNS if visit.get(name)), None)
    for name in names:
        try:
            path = resolve_inside(name, [folder])
        except (OutsideError, OSError, ValueError):
            problems.add(row, f"{name!r} leads out of the subjects folder.")
            return None
        runs = [run.name for run in path.parent.glob("*.long.*") if run.is_dir()]
        runs = sorted(run for run in runs if run.startswith(f"{path.name}.long."))
        if base is not None:
            runs = [run for run in runs if run == f"{path.name}.long.{base}"]
        if len(runs) > 1:
            problems.add(
                row, f"{name} has several longitudinal runs, {', '.join(runs)}; name the base in a "
                "column fsid-base."
            )  # fmt: skip
            return None
        if runs or (path.is_dir() and base is None):
            return runs[0] if runs else name
    wanted = " or ".join(names) + (f" with base {base}" if base else "")
    known = visit.get("session_id") or visit.get("fsid")
    cause = "" if known else "`session_id` is missing"
    problems.add(row, f"the subjects folder has no run {wanted}.", cause=cause)
    return None
