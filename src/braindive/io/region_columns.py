"""Which columns of a wide table are regions of the brain, and which only summarise it."""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from braindive.arrays import Array
from braindive.errors import CohortError
from braindive.io.atlas_names import ATLASES, read_region_name, simple_name
from braindive.space import Regions

_log = logging.getLogger("braindive")
# Fewer named columns than this may be a covariate or two beside measurements of another kind.
_FEWEST = 2
# What FreeSurfer's tables, ENIGMA's and ADNI's have beside the regions, without punctuation:
# summaries of a hemisphere or of the whole brain, the head, and counts of defects.
_SUMMARIES = frozenset(
    {
        "bankvol", "brainsegvol", "brainsegvolnotvent", "brainsegvolnotventsurf",
        "brainsegvoltoetiv", "cerebralwhitemattervol", "corticalwhitemattervol", "cortexvol",
        "cortexvolnonwm", "estimatedtotalintracranialvol", "etiv", "icv", "tiv",
        "intracranialvol", "intracranialvolume", "maskvol", "maskvoltoetiv", "meanthickness",
        "mean", "meancortex", "numvert", "subcortgrayvol", "supratentorialvol",
        "supratentorialvolnotvent", "supratentorialvolnotventvox", "surfaceholes", "surfarea",
        "thickness", "totalgrayvol", "totalsurfarea", "totalvolume", "ventriclechoroidvol",
        "whitesurfarea", "wholebrain", "wholebrainvol",
    }
)  # fmt: skip
# No tissue of one place: lesions all over the brain, vessels, fluid around it, and the label of
# everything that has none.
_NO_PLACE = re.compile(r"hypointensities$|^(left|right)?vessel$|^csf$|^(ctx)?(lh|rh)?unknown$")


@dataclass(frozen=True)
class RegionColumns:
    """Columns of a wide table.

    Parameters
    ----------
    regions : tuple of str
        Those that are regions, in their order.
    left_out : tuple of str
        Those that summarise the brain, or are of no place.
    measures : tuple of str
        What the regions' names say was measured, each once.

    Examples
    --------
    See `find_region_columns`.
    """

    regions: tuple[str, ...]
    left_out: tuple[str, ...]
    measures: tuple[str, ...]


def find_region_columns(names: Sequence[str], source: str) -> RegionColumns | None:
    """Tell regions by their FreeSurfer names: Desikan-Killiany, Destrieux and the segmentation.

    Parameters
    ----------
    names : sequence of str
        Columns of a table.
    source : str
        Name of the table, for people.

    Returns
    -------
    RegionColumns or None
        None where too few columns are regions to be what was measured.

    Raises
    ------
    CohortError
        Where several measures of the same regions are there, which no fit can mix.

    Examples
    --------
    >>> from braindive.io.region_columns import find_region_columns
    >>> names = ["age", "lh_insula_thickness", "rh_insula_thickness", "lh_MeanThickness_thickness"]
    >>> found = find_region_columns(names, "study.csv")
    >>> found.regions, found.left_out
    (('lh_insula_thickness', 'rh_insula_thickness'), ('lh_MeanThickness_thickness',))
    """
    regions: list[str] = []
    measures: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for name in names:
        if is_summary(name):
            continue
        found = read_region_name(name)
        if found.atlas:
            regions.append(name)
            measures[found.atlas, found.side, found.key].append(name)
    if len(regions) < _FEWEST:
        return None
    _refuse_several(measures, source)
    said = dict.fromkeys(read_region_name(name).measure for name in regions)
    left_out = tuple(name for name in names if is_summary(name))
    return RegionColumns(tuple(regions), left_out, tuple(measure for measure in said if measure))


def is_summary(name: str) -> bool:
    """Whether a column is of the whole brain, a hemisphere or the head, or of no place.

    Examples
    --------
    >>> from braindive.io.region_columns import is_summary
    >>> [is_summary(name) for name in ("rh_MeanThickness_thickness", "eTIV", "lh_insula_area")]
    [True, True, False]
    """
    bare = simple_name(name)
    kinds = [bare, *(bare.removesuffix(end) for end in ("thickness", "area", "volume"))]
    if any(_NO_PLACE.search(kind) for kind in kinds):
        return True
    sides = ("", "lh", "rh", "left", "right", "l", "r")
    return any(kind.removeprefix(side) in _SUMMARIES for kind in kinds for side in sides)


def name_regions(
    wide: Sequence[str], numbers: Array, names: Sequence[str] | None
) -> tuple[Regions, Array]:
    """Make regions of the columns of a wide table, and say which columns are none.

    Parameters
    ----------
    wide : sequence of str
        Columns that were measured.
    numbers : (n_visits, n_wide)
        Measurements.
    names : sequence of str or None
        All columns of the table where the regions among them were found by their names; those
        that are the same at every visit, such as a fifth ventricle that nobody has, are left out
        then. None where the user chose the columns.

    Returns
    -------
    Regions, (n_visits, n_regions)
    """
    if names is not None:
        with np.errstate(invalid="ignore"):
            varies = np.fmax.reduce(numbers, axis=0) > np.fmin.reduce(numbers, axis=0)
        if len(numbers) > 1 and varies.any():
            still = [name for name, moves in zip(wide, varies, strict=True) if not moves]
            wide = [name for name, moves in zip(wide, varies, strict=True) if moves]
            numbers = numbers[:, varies]
        else:
            still = []
        _log.info("%d columns are regions by their names: %s.", len(wide), _list(wide, 3))
        sentence = describe_left_out([name for name in names if is_summary(name)], still)
        if sentence:
            _log.info(sentence)
        _note_units(wide)
    counts = Counter(read_region_name(name).atlas for name in wide)
    atlas = next((each for each in ATLASES if counts[each] > len(wide) / 2), None)
    title = "regions" if atlas is None else ATLASES[atlas]
    return Regions(title, tuple(wide)), numbers


def _note_units(wide: Sequence[str]) -> None:
    """Say that measures of several units should be standardised."""
    # FreeSurfer's table of the segmentation is of volumes, and does not say so in its names.
    usual = {"segmentation": "volume"}
    measures = {
        name.measure or usual.get(name.atlas, "unnamed") for name in map(read_region_name, wide)
    }
    if len(measures) > 1:
        _log.info(
            "The regions have different measures (%s); standardise them, with --standardise or "
            "bd.Preprocessing(), so that one unit fits all.",
            ", ".join(sorted(measures)),
        )


def describe_left_out(left_out: Sequence[str], still: Sequence[str] = ()) -> str:
    """Say in one sentence which columns are not fitted; nothing where all are.

    Parameters
    ----------
    left_out : sequence of str
        Summaries.
    still : sequence of str
        Regions that never vary.
    """
    parts = []
    if left_out:
        parts.append(f"{_list(left_out)} (no region by itself; kept in the table, for covariates)")
    if still:
        parts.append(f"{_list(still)} (the same at every visit)")
    return f"Not among the regions: {'; '.join(parts)}." if parts else ""


def _refuse_several(measures: dict[tuple[str, str, str], list[str]], source: str) -> None:
    twice = next((names for names in measures.values() if len(names) > 1), None)
    if twice is not None:
        endings = sorted({read_region_name(name).measure for name in twice} - {""})
        how = f"such as values='*_{endings[0]}'" if endings else "one column for each region"
        raise CohortError(
            f"{source} has the same region more than once, as {' and '.join(twice[:3])}; choose "
            f"one measure with values= (--values on the command line), {how}."
        )


def _list(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
