"""Maps of a fitted model, in the formats that viewers open."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import nibabel as nib
import numpy as np
import pandas as pd
from nibabel import cifti2, freesurfer, gifti

from braindive.arrays import Array, IntArray
from braindive.cluster_names import NamedClusters, display_names
from braindive.dive.curves import Curves
from braindive.errors import NotFittedError, ParameterError
from braindive.palette import channels_of, cluster_colours
from braindive.space import Regions, Space, Surface, Volume

# nibabel has no types for what makes images.
_nib: Any = nib
_cifti: Any = cifti2
_gifti: Any = gifti
_freesurfer: Any = freesurfer

_STRUCTURES = {"left": "CortexLeft", "right": "CortexRight"}
_BIDS = {"left": "hemi-L", "right": "hemi-R"}
_FREESURFER = {"left": "lh", "right": "rh"}
_FORMATS: dict[str, tuple[str, ...]] = {
    "surface": ("gifti", "freesurfer", "cifti"),
    "volume": ("nifti",),
    "regions": ("table",),
}
# Vertices of one fsLR hemisphere at the densities in which CIFTI files come.
_FSLR = {4002, 7842, 32492, 59292}
_OUTSIDE = "outside"


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
    folder: str | os.PathLike[str],
    *,
    scores: Sequence[float] | None = None,
    formats: Sequence[str] | None = None,
) -> list[Path]:
    """Write cluster labels, probabilities and expected values as maps, and tables beside them.

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

    Returns
    -------
    list of Path
        Files that were written. Outside the mask GIFTI maps are NaN, MGH and NIfTI maps 0, and
        labels 0; clusters count from 1.

    Examples
    --------
    >>> import tempfile
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(n_subjects=60, n_vertices=90, random_state=0).cohort
    >>> model = bd.DIVE(n_clusters=2, random_state=0).fit(cohort)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in bd.write_maps(model, folder)]
    ['maps.tsv', 'subjects.tsv', 'trajectories.tsv']
    """
    if not hasattr(model, "responsibilities_"):
        raise NotFittedError("this model is not fitted yet; call fit(cohort) first.")
    if scores is None:
        scores = np.quantile(model.scores_, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
    chosen = _check_formats(formats, model.space_)
    maps = _maps(model, np.asarray(scores, dtype=float))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Nothing appears under its own name before everything has been written.
    temporary = folder / ".maps.part"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        for name in chosen:
            _WRITERS[name](maps, model.space_, temporary)
        _write_tables(model, temporary)
        names = sorted(path.name for path in temporary.iterdir())
        for name in names:
            (temporary / name).replace(folder / name)
    finally:
        shutil.rmtree(temporary)
    return [folder / name for name in names]


def _channels(n_clusters: int) -> IntArray:
    """Red, green and blue of each cluster's colour, (n_clusters, 3), from 0 to 255."""
    return np.array([channels_of(colour) for colour in cluster_colours(n_clusters)])


def _check_formats(formats: Sequence[str] | None, space: Space | None) -> list[str]:
    kind = "regions" if space is None else space.kind
    if formats is None:
        chosen = list(_FORMATS[kind])
        if isinstance(space, Surface) and any(h.n_mesh not in _FSLR for h in space.hemispheres):
            chosen.remove("cifti")
        return chosen
    chosen = [formats] if isinstance(formats, str) else list(formats)
    allowed = (*_FORMATS[kind], "table")
    wrong = [name for name in chosen if name not in allowed]
    if wrong:
        where = "a cohort without a space" if space is None else f"a {kind}"
        raise ParameterError(
            f"maps of {where} cannot be written as {wrong[0]!r}; choose from "
            f"{', '.join(dict.fromkeys(allowed))}."
        )
    return chosen


def _maps(model: FittedModel, scores: Array) -> Maps:
    names = display_names(model)
    expected = model.trajectories_.evaluate(scores) @ model.responsibilities_.T
    return Maps(
        model.labels_.astype(np.int32) + 1,
        names,
        {
            "probabilities": (names, model.responsibilities_.T.astype(np.float32)),
            "expected": ([f"score {score:.3g}" for score in scores], expected.astype(np.float32)),
        },
    )


def _write_gifti(maps: Maps, space: Space | None, folder: Path) -> None:
    assert isinstance(space, Surface)
    table = _gifti.GiftiLabelTable()
    rgb = np.vstack([np.zeros(3), _channels(len(maps.label_names)) / 255])
    for key, name in enumerate([_OUTSIDE, *maps.label_names]):
        label = _gifti.GiftiLabel(key, *rgb[key].tolist(), float(key > 0))
        label.label = name
        table.labels.append(label)
    for side, labels in space.split(maps.labels, fill=0).items():
        image = _gifti_image(side)
        image.labeltable = table
        image.add_gifti_data_array(
            _gifti_array(labels.astype(np.int32), "NIFTI_INTENT_LABEL", "clusters")
        )
        _nib.save(image, folder / f"{_BIDS[side]}_clusters.label.gii")
    for group, (names, values) in maps.scalars.items():
        for side, full in space.split(values).items():
            image = _gifti_image(side)
            for name, one in zip(names, full, strict=True):
                image.add_gifti_data_array(
                    _gifti_array(one.astype(np.float32), "NIFTI_INTENT_SHAPE", name)
                )
            _nib.save(image, folder / f"{_BIDS[side]}_{group}.shape.gii")


def _gifti_image(side: str) -> Any:
    return _gifti.GiftiImage(
        meta=_gifti.GiftiMetaData({"AnatomicalStructurePrimary": _STRUCTURES[side]})
    )


def _gifti_array(values: np.ndarray, intent: str, name: str) -> Any:
    kind = "NIFTI_TYPE_INT32" if values.dtype.kind == "i" else "NIFTI_TYPE_FLOAT32"
    return _gifti.GiftiDataArray(
        values, intent=intent, datatype=kind, meta=_gifti.GiftiMetaData({"Name": name})
    )


def _write_freesurfer(maps: Maps, space: Space | None, folder: Path) -> None:
    assert isinstance(space, Surface)
    colours = np.vstack([[25, 25, 25], _channels(len(maps.label_names))])
    table = np.column_stack([colours, np.zeros(len(colours), dtype=int)])
    names = [name.replace(" ", "-") for name in (_OUTSIDE, *maps.label_names)]
    for side, labels in space.split(maps.labels, fill=0).items():
        path = folder / f"{_FREESURFER[side]}.clusters.annot"
        _freesurfer.write_annot(path, labels.astype(int), table, names, fill_ctab=True)
    for group, (_, values) in maps.scalars.items():
        for side, full in space.split(values, fill=0).items():
            stacked = np.asfortranarray(full.T.astype(np.float32)[:, None, None, :])
            _nib.save(
                _nib.MGHImage(stacked, np.eye(4)), folder / f"{_FREESURFER[side]}.{group}.mgh"
            )


def _write_cifti(maps: Maps, space: Space | None, folder: Path) -> None:
    assert isinstance(space, Surface)
    parts = [
        _cifti.BrainModelAxis.from_surface(
            np.flatnonzero(part.mask), part.n_mesh, name=f"cortex_{part.side}"
        )
        for part in space.hemispheres
    ]
    brain = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    rgb = _channels(len(maps.label_names)) / 255
    table: dict[int, tuple[str, tuple[float, ...]]] = {0: (_OUTSIDE, (0.0, 0.0, 0.0, 0.0))}
    for key, name in enumerate(maps.label_names, start=1):
        table[key] = (name, (*rgb[key - 1].tolist(), 1.0))
    axis = _cifti.LabelAxis(["clusters"], [table])
    labels = _cifti.Cifti2Image(maps.labels[None].astype(np.float32), (axis, brain))
    labels.nifti_header.set_intent("ConnDenseLabel")
    _nib.save(labels, folder / "clusters.dlabel.nii")
    for group, (names, values) in maps.scalars.items():
        image = _cifti.Cifti2Image(values.astype(np.float32), (_cifti.ScalarAxis(names), brain))
        image.nifti_header.set_intent("ConnDenseScalar")
        _nib.save(image, folder / f"{group}.dscalar.nii")


def _write_nifti(maps: Maps, space: Space | None, folder: Path) -> None:
    assert isinstance(space, Volume)
    labels = space.unmask(maps.labels, fill=0).astype(np.int16)
    _nib.save(_nib.Nifti1Image(labels, space.affine), folder / "clusters.nii.gz")
    for group, (_, values) in maps.scalars.items():
        volume = space.unmask(values, fill=0).astype(np.float32)
        _nib.save(_nib.Nifti1Image(volume, space.affine), folder / f"{group}.nii.gz")


def _write_table(maps: Maps, space: Space | None, folder: Path) -> None:
    columns: dict[str, Any] = {}
    if isinstance(space, Regions):
        columns["region"] = list(space.names)
    else:
        columns["vertex"] = np.arange(len(maps.labels))
    columns["cluster"] = maps.labels
    for group, (names, values) in maps.scalars.items():
        for name, one in zip(names, values, strict=True):
            columns[f"{group}: {name}"] = one
    pd.DataFrame(columns).to_csv(folder / "maps.tsv", sep="\t", index=False)


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
    subjects.to_csv(folder / "subjects.tsv", sep="\t", index=False)
    curves = model.trajectories_
    pd.DataFrame(
        {
            "cluster": np.arange(1, len(curves) + 1),
            "name": display_names(model),
            **{name: getattr(curves, name) for name in curves.names()},
            "noise": model.noise_,
            "vertices": np.bincount(model.labels_, minlength=len(curves)),
        }
    ).to_csv(folder / "trajectories.tsv", sep="\t", index=False)


_WRITERS: dict[str, Callable[[Maps, Space | None, Path], None]] = {
    "gifti": _write_gifti,
    "freesurfer": _write_freesurfer,
    "cifti": _write_cifti,
    "nifti": _write_nifti,
    "table": _write_table,
}
