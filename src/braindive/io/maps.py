"""Maps of a fitted model, in the formats that viewers open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd

from braindive.arrays import Array, IntArray
from braindive.cluster_names import NamedClusters, display_names
from braindive.dive.curves import Curves
from braindive.errors import NotFittedError, ParameterError
from braindive.io.formats.base import Writer
from braindive.io.formats.contents import LabelMap, ScalarMaps, divide
from braindive.io.formats.registry import FORMATS, find_writer
from braindive.io.outputs import fill_folder
from braindive.io.paths import PathLike
from braindive.io.written_tables import MORE_DIGITS, rounded
from braindive.palette import channels_of, cluster_colours
from braindive.space import Side, Space


class FittedModel(NamedClusters, Protocol):
    """What maps are made from."""

    responsibilities_: Array
    labels_: IntArray
    trajectories_: Curves
    noise_: Array
    subjects_: np.ndarray
    speeds_: Array
    shifts_: Array
    scores_: Array
    space_: Space | None
    visits_: pd.DataFrame

    def summary(self) -> pd.DataFrame:
        """One row for each cluster."""


@dataclass(frozen=True)
class Maps:
    """What is written, in whatever format.

    Parameters
    ----------
    labels : (n_vertices,) int
        Cluster of each vertex, from 1.
    label_names : list of str
        Name of each cluster.
    scalars : dict of str to (names, (n_maps, n_vertices))
        Groups of maps, each map with its name.
    """

    labels: IntArray
    label_names: list[str]
    scalars: dict[str, tuple[list[str], Array]]


def write_maps(
    model: FittedModel,
    folder: PathLike,
    *,
    scores: Sequence[float] | None = None,
    formats: Sequence[str] | None = None,
) -> list[Path]:
    """Write labels, probabilities, expected values and midpoints as maps, and tables beside them.

    Midpoints are the scores at which every vertex is half-way, with their standard errors; a model
    with `vertices="alike"` has none.

    Parameters
    ----------
    model : DIVE
        A fitted model.
    folder : path
        Where to write; made if it is not there.
    scores : sequence of float, optional
        Scores at which to write the expected values; by default five quantiles of the training
        visits' scores, from 5% to 95%.
    formats : sequence of {"gifti", "freesurfer", "cifti", "nifti", "table"}, optional
        By default those of the space. A surface gets GIFTI and FreeSurfer files (and CIFTI where
        its meshes are fsLR), a volume NIfTI, and regions or vertices without a space a table.
        "mgh" is the same as "freesurfer".

    Returns
    -------
    list of Path
        Files that were written. Where nothing was measured, as on the medial wall, maps are NaN and
        labels 0; clusters count from 1.

    Examples
    --------
    >>> import tempfile
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(60, n_vertices=90, noise=0.3, random_state=0).cohort
    >>> model = bd.DIVE(n_clusters=2, personal=False, random_state=0).fit(cohort)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in bd.write_maps(model, folder)]
    ['maps.tsv', 'subjects.tsv', 'trajectories.tsv']
    """
    if not hasattr(model, "responsibilities_"):
        raise NotFittedError("this model is not fitted yet; call fit(cohort) first.")
    if scores is None:
        scores = np.quantile(model.scores_, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
    writers = _writers(model.space_)
    chosen = _check_formats(formats, model.space_, writers)
    maps = _maps(model, np.asarray(scores, dtype=float))
    folder = Path(folder)
    # Nothing appears under its own name before everything has been written.
    with fill_folder(folder, "maps") as temporary:
        for name in chosen:
            _write(maps, model.space_, writers[name], temporary)
        _write_tables(model, temporary)
        names = sorted(path.name for path in temporary.iterdir())
    return [folder / name for name in names]


def _writers(space: Space | None) -> dict[str, Writer]:
    """Writers of the formats in which maps of this kind of space can be written, by name."""
    kind = "regions" if space is None else space.kind
    writers = {name: known.writer for name, known in FORMATS.items()}
    return {name: writer for name, writer in writers.items() if writer and kind in writer.maps}


def _check_formats(
    formats: Sequence[str] | None, space: Space | None, writers: dict[str, Writer]
) -> list[str]:
    if formats is None:
        return [name for name, writer in writers.items() if writer.is_default(space)]
    asked = [formats] if isinstance(formats, str) else list(formats)
    chosen = [known for name in asked if (known := find_writer(name, writers)) is not None]
    wrong = [name for name in asked if find_writer(name, writers) is None]
    if wrong:
        where = "a cohort without a space" if space is None else f"a {space.kind}"
        raise ParameterError(
            f"maps of {where} cannot be written as {wrong[0]!r}; choose from {', '.join(writers)}."
        )
    return chosen


def _maps(model: FittedModel, scores: Array) -> Maps:
    names = display_names(model)
    expected = model.trajectories_.evaluate(scores) @ model.responsibilities_.T
    scalars = {
        "probabilities": (names, model.responsibilities_.T.astype(np.float32)),
        "expected": ([f"score {score:.3g}" for score in scores], expected.astype(np.float32)),
    }
    midpoint, error = (
        getattr(model, name, None) for name in ("vertex_midpoints_", "vertex_midpoints_se_")
    )
    if midpoint is not None and error is not None:
        when = np.stack([midpoint, error])
        scalars["midpoints"] = (["midpoint", "standard error"], when.astype(np.float32))
    return Maps(model.labels_.astype(np.int32) + 1, names, scalars)


def _write(maps: Maps, space: Space | None, writer: Writer, folder: Path) -> None:
    """Write all maps in one format."""
    names = maps.label_names
    colours = np.array([channels_of(colour) for colour in cluster_colours(len(names))])
    if writer.write_together is not None:
        labels = LabelMap(maps.labels, None, space, names, colours)
        groups = {
            group: ScalarMaps(values, None, space, words)
            for group, (words, values) in maps.scalars.items()
        }
        writer.write_together(folder / f"maps{writer.ending}", labels, groups)
    if writer.write_labels is not None:
        for side, part in divide(maps.labels, space, 0, writer.splits):
            path = folder / f"{_prefix(writer, side)}clusters{writer.label_ending}"
            writer.write_labels(path, LabelMap(part, side, space, names, colours))
    if writer.write_scalars is not None:
        for group, (words, values) in maps.scalars.items():
            for side, part in divide(values, space, writer.fill, writer.splits):
                path = folder / f"{_prefix(writer, side)}{group}{writer.ending}"
                writer.write_scalars(path, ScalarMaps(part, side, space, words))


def _prefix(writer: Writer, side: Side | None) -> str:
    return "" if side is None else writer.prefixes[side]


def _write_tables(model: FittedModel, folder: Path) -> None:
    """One row for each subject, and one for each cluster."""
    visits = model.visits_
    n_visits = visits["subject"].value_counts()
    first = pd.DataFrame(
        {"subject": visits["subject"], "time": visits["time"], "score": model.scores_}
    ).sort_values("time", kind="stable")
    scores = first.groupby("subject", sort=False)["score"].first()
    subjects = pd.DataFrame(
        {
            "participant_id": model.subjects_,
            "speed": model.speeds_,
            "shift": model.shifts_,
            "score": scores.loc[model.subjects_].to_numpy(),
            "n_visits": n_visits.loc[model.subjects_].to_numpy(),
        }
    )
    if "diagnosis" in visits:
        earliest = visits.sort_values("time", kind="stable").groupby("subject", sort=False)
        subjects["diagnosis"] = earliest["diagnosis"].first().loc[model.subjects_].to_numpy()
    rounded(subjects).to_csv(folder / "subjects.tsv", sep="\t", index=False)
    curves = rounded(model.summary(), MORE_DIGITS)
    curves.to_csv(folder / "trajectories.tsv", sep="\t")
