"""Fixed cohorts, and everything a user computes from them as named arrays.

`python tests/golden/cases.py` writes what the present code finds. That is done on purpose only:
when an estimate is meant to change, with a line in the changelog that says so.
"""

import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

import braindive as bd

RECORDED = Path(__file__).parent / "recorded"

# The published estimates in the published unit.
PUBLISHED = {"people": "alike", "scale": "controls"}


def simulated(n_vertices=120, **more):
    return bd.simulate_cohort(
        **{
            "n_subjects": 36,
            "n_vertices": n_vertices,
            "noise": 0.6,
            "control_share": 0.3,
            "personal_offset": 0.3,
            "random_state": 3,
        }
        | more
    )


def dense():
    return simulated().cohort, bd.DIVE(3, random_state=0, **PUBLISHED)


def without_controls():
    """Subjects without controls, seen at unequal ages: the direction comes from time."""
    cohort = simulated(control_share=0.0, n_subjects=24).cohort
    visits = np.flatnonzero((np.arange(cohort.n_visits) % 7) != 3)
    part = cohort.select(visits=visits)
    times = part.times + 60.0 + 0.3 * part.subject_index
    return (
        bd.Cohort(part.values, subjects=part.subjects, times=times),
        bd.DIVE(2, random_state=1, **PUBLISHED),
    )


def with_holes():
    return simulated(missing=0.15).cohort, bd.DIVE(3, random_state=0, **PUBLISHED)


def cube(n):
    return bd.Volume("cube", np.ones((n, n, n), dtype=bool), np.eye(4))


def with_field():
    return simulated(space=cube(8), n_patches=6, noise=1.5).cohort, bd.DIVE(
        3, random_state=0, **PUBLISHED
    )


def with_field_and_holes():
    """Few enough vertices for one block, so that workers add in the same order."""
    simulation = simulated(space=cube(6), n_patches=6, noise=1.5, missing=0.1)
    return simulation.cohort, bd.DIVE(3, random_state=0, **PUBLISHED)


def single_precision():
    cohort = simulated(n_vertices=700, dtype="float32").cohort
    preprocessing = bd.Preprocessing(standardise=True)
    return cohort, bd.DIVE(3, random_state=0, preprocessing=preprocessing, **PUBLISHED)


def fixed_atlas():
    simulation = simulated()
    return simulation.cohort, bd.roi_model(simulation.truth.labels, **PUBLISHED)


def no_staging():
    return simulated().cohort, bd.no_staging_model(n_clusters=2, random_state=0)


def exact_sums():
    cohort = simulated(n_vertices=40, n_subjects=12, missing=0.1).cohort
    return cohort, bd.DIVE(2, method="exact", random_state=0, max_iter=6, **PUBLISHED)


def curve_prior():
    prior = bd.Normal(np.array([0.0, 1.0, 0.0, 0.0]), np.array([3.0, 3.0, 5.0, 3.0]))
    model = bd.DIVE(3, random_state=0, priors=bd.Priors(trajectory=prior), **PUBLISHED)
    return simulated().cohort, model


def differing():
    return simulated().cohort, bd.DIVE(3, random_state=0)


def differing_on_the_published_scale():
    return simulated(missing=0.15).cohort, bd.DIVE(3, random_state=0, scale="controls")


def differing_without_controls():
    cohort, _ = without_controls()
    return cohort, bd.DIVE(2, random_state=1)


def differing_with_field():
    return simulated(space=cube(6), n_patches=6, noise=1.5).cohort, bd.DIVE(3, random_state=0)


def alike_in_years():
    return simulated().cohort, bd.DIVE(3, random_state=0, people="alike")


CASES = {
    case.__name__: case
    for case in (
        dense,
        without_controls,
        with_holes,
        with_field,
        with_field_and_holes,
        single_precision,
        fixed_atlas,
        no_staging,
        exact_sums,
        curve_prior,
        differing,
        differing_on_the_published_scale,
        differing_without_controls,
        differing_with_field,
        alike_in_years,
    )
}


def compute(case, client=None):
    """Everything a user computes from a case, as named arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.BraindiveWarning)
        cohort, model = CASES[case]()
        model.fit(cohort, client=client)
        found = fitted(model)
        part = cohort.select(subjects=cohort.subject_ids[::3].tolist())
        for name, column in model.stage(part.first_visits(3)).items():
            found[f"stage_{name}"] = column.to_numpy(dtype=float)
        history, later = part.first_visits(2), part.later_visits(2)
        known = np.isin(later.subjects, history.subject_ids)
        later = later.select(visits=known)
        found["predicted"], found["predicted_sd"] = model.predict(
            later, history=history, return_std=True
        )
        found["published"] = model.predict(later, history=history, personal=False)
        found["score"] = np.array(model.score(part))
        if model.staging:
            judged = bd.goodness_of_fit(model, cohort)
            found["explained"] = judged.vertices
            numbers = judged.clusters.select_dtypes("number").drop(columns="n_vertices")
            for table, frame in (
                ("clusters", numbers),
                ("subjects", judged.subjects[["misfit", "p"]]),
                ("visits", judged.visits[["misfit", "p", "noise"]]),
            ):
                for name, column in frame.items():
                    found[f"{table}_{name}"] = column.to_numpy(dtype=float)
    return found


def fitted(model):
    names = (
        "responsibilities_",
        "labels_",
        "noise_",
        "speeds_",
        "shifts_",
        "scores_",
        "spatial_strength_",
        "objective_",
        "log_likelihood_",
        "aic_",
        "bic_",
    )
    found = {name: np.asarray(getattr(model, name)) for name in names}
    curves = model.trajectories_
    for name in ("amplitude", "steepness", "midpoint", "baseline"):
        found[name] = getattr(curves, name)
    return found


def arithmetic():
    """What decides the last digits: versions, the kernels of BLAS and those of numpy."""
    blas = sorted(
        f"{info.get('internal_api')} {info.get('version')} {info.get('architecture')}"
        for info in threadpool_info()
        if info.get("user_api") == "blas"
    )
    # exp and log of numpy differ in their last digit from one set of instructions to another.
    instructions = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    return " / ".join([f"numpy {np.__version__} {' '.join(instructions)}", *blas])


def record():
    RECORDED.mkdir(exist_ok=True)
    for case in CASES:
        found = compute(case)
        np.savez_compressed(RECORDED / f"{case}.npz", arithmetic=np.array(arithmetic()), **found)
        print(case, sum(array.nbytes for array in found.values()) // 1000, "kB")


if __name__ == "__main__":
    record()
