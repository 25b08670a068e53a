"""What the sizes of a study's files tell: the mesh they are of, and the space of the study."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from braindive.errors import CohortError
from braindive.io.formats.contents import MapFile
from braindive.space.fsaverage import FAMILY, N_FSAVERAGE5, fsaverage5
from braindive.space.surface import Surface

# Sizes by which people know a mesh: one hemisphere of fsaverage's family, or fsLR-32k.
_MESHES = {
    **FAMILY,
    32492: "one hemisphere of fsLR-32k",
    64984: "both hemispheres of fsLR-32k",
}
_log = logging.getLogger("braindive")


def describe_size(n_values: int) -> str:
    """Number of values of a file, with the mesh that it tells.

    Examples
    --------
    >>> describe_size(40962)
    '40962 values (fsaverage6)'
    """
    known = _MESHES.get(n_values)
    return f"{n_values} values" + (f" ({known})" if known else "")


def usual_file(files: Iterable[MapFile]) -> MapFile | None:
    """Return the first file of the size that most of them have, or None where there is none."""
    listed = list(files)
    if not listed:
        return None
    # The first of those that are equally common, as they were counted in order.
    (size, _), *_ = Counter(found.n_values for found in listed).most_common(1)
    return next(found for found in listed if found.n_values == size)


def infer_space(
    columns: Sequence[str], files: Mapping[str, Sequence[MapFile]], source: str
) -> Surface | None:
    """Return the space of a study with a file for each hemisphere, where nobody named it.

    Without a space the two files of a scan could not be put side by side.

    Parameters
    ----------
    columns : sequence of str
        Columns of the table with file names.
    files : mapping of column to list of MapFile
        Files that could be opened.
    source : str
        Name of the table, for people.

    Returns
    -------
    Surface or None
        None where there is one file for each scan, whose numbers are taken as they are, and where
        no file could be opened.
    """
    if set(columns) != {"left", "right"}:
        _note_images(usual_file(found for listed in files.values() for found in listed))
        return None
    usual = {column: usual_file(files[column]) for column in columns}
    sizes = {column: found.n_values for column, found in usual.items() if found is not None}
    if not sizes:
        return None
    if set(sizes.values()) == {N_FSAVERAGE5}:
        _log.info(
            "No space was given: taken to be fsaverage5, since each hemisphere has %s vertices.",
            f"{N_FSAVERAGE5:,}",
        )
        return fsaverage5("fsaverage5")
    found = ", ".join(f"{column} files have {describe_size(n)}" for column, n in sizes.items())
    raise CohortError(
        f"{source} names a file for each hemisphere, but not the mesh that they are of ({found}); "
        "give it as space (--space on the command line), for example the folder of the FreeSurfer "
        "subject $SUBJECTS_DIR/fsaverage6, or two surface files."
    )


def _note_images(usual: MapFile | None) -> None:
    """Say that images without a mask count every voxel."""
    if usual is not None and len(usual.shape) == 3 and min(usual.shape) > 1:
        _log.info(
            "The files are images of %s voxels and no mask was given, so that voxels outside the "
            "brain count too; give the mask as the space (--space mask.nii.gz).",
            " x ".join(map(str, usual.shape)),
        )
