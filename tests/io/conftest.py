"""Small studies on disk."""

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

import braindive as bd
from braindive.space import Hemisphere


def make_sheet(n_rows, n_columns):
    """Coordinates and triangles of a flat sheet."""
    coordinates = np.array([(x, y, 0.0) for y in range(n_rows) for x in range(n_columns)])
    faces = []
    for y in range(n_rows - 1):
        for x in range(n_columns - 1):
            here = y * n_columns + x
            below = here + n_columns
            faces += [(here, here + 1, below), (here + 1, below + 1, below)]
    return coordinates, np.array(faces)


@pytest.fixture(scope="session")
def surface():
    """Two hemispheres of 30 and 36 vertices; the left has a medial wall of three."""
    left = np.ones(30, dtype=bool)
    left[[4, 5, 11]] = False
    return bd.Surface(
        "sheets",
        (Hemisphere("left", *make_sheet(5, 6), left), Hemisphere("right", *make_sheet(6, 6))),
    )


@pytest.fixture(scope="session")
def study(surface):
    """24 subjects x 3 visits on the surface, float32, with controls."""
    return bd.simulate_cohort(
        24, 3, space=surface, n_patches=6, noise=0.1, control_share=0.4, dtype="float32",
        random_state=3,
    ).cohort  # fmt: skip


@pytest.fixture
def spoil(tmp_path, surface, study):
    """A good study of six scans on disk; call with changes to its table to get its path."""
    part = study.select(visits=np.arange(6))
    path = bd.write_cohort(part, tmp_path / "study", "mgh")

    def change(**columns):
        table = pd.read_csv(path, sep="\t", dtype=str)
        for name, entries in columns.items():
            if isinstance(entries, dict):
                for row, entry in entries.items():
                    table.loc[row, name] = entry
            else:
                table[name] = entries
        table.to_csv(path, sep="\t", index=False)
        return path

    return change


@pytest.fixture(scope="session")
def sheet():
    return make_sheet


@pytest.fixture(scope="session")
def save_mgh():
    """Write numbers as a FreeSurfer map."""

    def save(path, values):
        nib.save(
            nib.MGHImage(np.asarray(values, dtype=np.float32).reshape(-1, 1, 1), np.eye(4)), path
        )

    return save
