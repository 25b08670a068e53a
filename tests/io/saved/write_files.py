"""Write the files that every later version must be able to read.

Run once for every new number of the format, and never to replace a file that is already there::

    python tests/io/saved/write_files.py

Next to each file lies what it must give, as an ``.npz`` of plain arrays.
"""

from pathlib import Path

import numpy as np

import braindive as bd
from braindive.io.models import CHECKPOINT_FORMAT, MODEL_FORMAT, write_checkpoint
from braindive.space import Hemisphere

FOLDER = Path(__file__).parent
# Plain attributes of a fitted model; the first of them say where a fit stands.
ATTRIBUTES = (
    "responsibilities_",
    "labels_",
    "noise_",
    "subjects_",
    "speeds_",
    "shifts_",
    "scores_",
    "spatial_strength_",
    "objective_",
    "n_iter_",
    "converged_",
    "stop_reason_",
    "log_likelihood_",
    "aic_",
    "bic_",
    "cluster_names_",
    "warnings_",
)


def main():
    write_model("", *surface_model())
    write_model("-atlas", *atlas_model())
    write_model("-volume", *volume_model())
    write_model("-alike", *published_model())
    write_unfinished_fit()


def surface_model():
    """Two folded hemispheres, smoothed, adjusted for a number and a group, with own priors."""
    points = np.array([(x, y, 0.0) for y in range(6) for x in range(6)])
    corners = [6 * y + x for y in range(5) for x in range(5)]
    faces = [(a, a + 1, a + 6) for a in corners] + [(a + 1, a + 7, a + 6) for a in corners]
    wall = np.arange(36) != 17
    space = bd.Surface(
        "sheets",
        (Hemisphere("left", points, faces, wall), Hemisphere("right", points, faces)),
    )
    cohort = study(space)
    values = cohort.values.copy()
    values[:, 3] = 1.0  # never varies on the left; the fold has its twin on the right
    values[:, [8, 43]] = np.nan  # never measured on either side
    model = bd.DIVE(
        2,
        priors=bd.Priors(
            speed=bd.Gamma.from_mode(1.0, sd=0.3),
            trajectory=bd.Normal(np.zeros(4), np.full(4, 20.0)),
        ),
        preprocessing=bd.Preprocessing(
            covariates=("age", "site"), average_hemispheres=True, smooth=1
        ),
        random_state=0,
    )
    return model, with_values(cohort, values)


def atlas_model():
    """Named regions as fixed clusters, without staging."""
    names = [f"region {number}" for number in range(40)]
    space = bd.Regions("line", names, [[i, i + 1] for i in range(39)])
    labels = np.array(["north", "south"])[np.arange(40) // 20]
    return bd.roi_model(labels, staging=False, random_state=0), study(space)


def volume_model():
    """Voxels with missing values, from a generator that has no seed to keep."""
    mask = np.ones((4, 4, 3), dtype=bool)
    mask[0, 0, 0] = False
    space = bd.Volume("box", mask, np.diag([2.0, 2.0, 2.0, 1.0]), 18)
    cohort = study(space)
    values = cohort.values.copy()
    values[np.random.default_rng(0).random(values.shape) < 0.05] = np.nan
    model = bd.DIVE(
        2,
        preprocessing=bd.Preprocessing(standardise=False),
        random_state=np.random.RandomState(0),
    )
    return model, with_values(cohort, values)


def published_model():
    """The published estimates, in the published unit."""
    space = bd.Regions("line", [f"r{i}" for i in range(40)], [[i, i + 1] for i in range(39)])
    return bd.DIVE(2, people="alike", scale="controls", random_state=0), study(space)


def study(space):
    """24 subjects with three visits, and a table with numbers, text and holes."""
    cohort = bd.simulate_cohort(
        24,
        3,
        midpoints=(-5.0, 5.0),
        noise=0.3,
        space=space,
        n_patches=4,
        control_share=0.4,
        random_state=1,
    ).cohort
    table = cohort.table.assign(
        age=60.0 + 0.7 * cohort.subject_index + cohort.times,
        site=np.where(cohort.subject_index % 2, "Leiden", "London"),
        apoe=np.where(cohort.subject_index % 3, "e3", None),
    )
    return with_values(cohort, cohort.values, table)


def with_values(cohort, values, table=None):
    return bd.Cohort(
        values,
        subjects=cohort.subjects,
        times=cohort.times,
        controls=cohort.controls,
        space=cohort.space,
        table=cohort.table if table is None else table,
    )


def write_model(name, model, cohort):
    path = unused(f"format-{MODEL_FORMAT}{name}.dive")
    if path is None:
        return
    model.fit(cohort).save(path)
    new = cohort.select(subjects=cohort.subject_ids[::4])
    early, late = new.first_visits(2), new.later_visits(2)
    expected = {f"fitted.{name}": getattr(model, name) for name in ATTRIBUTES}
    expected |= curves("trajectories", model.trajectories_)
    expected |= {f"stage.{name}": column for name, column in model.stage(new).items()}
    expected["predicted"], expected["predicted_sd"] = model.predict(
        late, history=early, return_std=True
    )
    expected["published"] = model.predict(late, history=early, personal=False)
    expected["score"] = model.score(new)
    expected["neighbours"] = model.space_.edges()
    expected["visits.apoe"] = model.visits_["apoe"].fillna("nothing")
    keep(path.with_suffix(".npz"), new, expected)


def write_unfinished_fit():
    path = unused(f"format-{CHECKPOINT_FORMAT}.checkpoint")
    if path is None:
        return
    cohort = study(
        bd.Regions("line", [f"r{i}" for i in range(40)], [[i, i + 1] for i in range(39)])
    )
    checkpoints = []
    # One start and controls, so that the fit that goes on has one start too.
    model = bd.DIVE(2, n_init=1, max_iter=3, tol=1e-12, random_state=0)
    model.fit(cohort, callback=lambda progress: checkpoints.append(progress.checkpoint))
    write_checkpoint(path, "mark", checkpoints[-1])
    expected = {f"fitted.{name}": getattr(model, name) for name in ATTRIBUTES[:11]}
    expected |= curves("trajectories", model.trajectories_)
    keep(path.with_name(f"{path.name}.npz"), cohort, expected)


def unused(name):
    """Return the path of a new file, or None: what is there already is kept for ever."""
    path = FOLDER / name
    if path.exists():
        print(f"{name} is there already and is kept for ever.")
        return None
    return path


def curves(name, found):
    parts = ("amplitude", "steepness", "midpoint", "baseline")
    return {f"{name}.{part}": getattr(found, part) for part in parts}


def keep(path, cohort, expected):
    """Keep a cohort and what is expected of it, as arrays of numbers and text."""
    given = {
        "cohort.values": cohort.values,
        "cohort.subjects": cohort.subjects,
        "cohort.times": cohort.times,
        "cohort.controls": cohort.controls,
        "table.age": cohort.table["age"],
        "table.site": cohort.table["site"],
    }
    arrays = {name: np.asarray(value) for name, value in {**given, **expected}.items()}
    for name, array in arrays.items():
        if array.dtype == object:
            arrays[name] = array.astype(str)
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main()
