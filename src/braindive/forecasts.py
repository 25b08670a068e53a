"""Expected values of visits, by a fitted model and what is known of each person."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from braindive.arrays import Array, IntArray
from braindive.cohort.checks import some
from braindive.cohort.cohort import Cohort
from braindive.errors import CohortError
from braindive.fitted import Fitted, timeline_of
from braindive.prediction.course import Course
from braindive.values.walking import one_thread_per_product


def predict_values(
    model: Fitted,
    cohort: Cohort,
    at: pd.Series | None = None,
    history: Cohort | None = None,
    personal: bool = True,
    with_errors: bool = False,
    client: Any = None,
) -> tuple[Array, Array | None]:
    """Expected values of visits, and their standard deviations if asked for; see `DIVE.predict`.

    Parameters
    ----------
    model : Fitted
        A fitted model.
    cohort, at, history, personal, client
        As in `DIVE.predict`.
    with_errors : bool
        Whether standard deviations of measurements around their predictions are wanted.

    Returns
    -------
    values, errors : (n_visits, n_vertices)
    """
    model.check_new(cohort)
    known = model.prepare(cohort if history is None else history)
    subjects = cohort.subjects if at is None else at.index.to_numpy()
    years = cohort.times if at is None else at.to_numpy(dtype=float)
    rows = _rows_of(subjects, known)
    z, dtype = model.responsibilities_, known.stored.dtype
    timeline, curves = timeline_of(known, model.internal_.time_unit), model.stager().trajectories
    # One read for stages and components; with holes, components need one of their own.
    whole = () if known.has_missing or not personal else (model.personal_.components,)
    products = model.products(known, client)
    sums, weights = model.pool(products, *whole)
    n, sites = len(model.noise_), _sites_of(model, cohort, at, known)
    stages = model.place_pooled(known, timeline, sums[:, :n], weights[:, :n])
    if not personal:
        course = Course.of(curves, stages, rows, years)
        along = model.internal_.scale.values(course.curves())
        values: Array = along.astype(dtype) @ z.T.astype(dtype)
        values = _at_sites(model, values, sites)
        if not with_errors:
            return values, None
        return values, np.sqrt(_variances(model, len(values), sites), dtype=dtype)
    stages, visits = stages.for_prediction(), (timeline.subject_of_visit, timeline.years)
    past = Course.of(curves, stages, *visits)
    future = Course.of(curves, stages, rows, years)
    then, later = model.site_noise(model.sites_of_visits(known)), model.site_noise(sites)
    noise = None if then is None or later is None else (then, later)
    with one_thread_per_product():
        values, found = model.personal_.predict(
            products,
            z,
            timeline,
            past,
            future,
            with_errors,
            noise,
            sums[:, n:] if whole else None,
        )
    values = _at_sites(model, values, sites)
    return values, None if found is None else np.sqrt(found, dtype=dtype)


def _sites_of(
    model: Fitted, cohort: Cohort, at: pd.Series | None, known: Cohort
) -> IntArray | None:
    """Where visits will be measured: at their sites, or at where people were seen last."""
    codes = model.sites_of_visits(cohort if at is None else known)
    if codes is None:
        return None
    if at is None:
        rows = np.empty_like(codes)
        rows[cohort.canonical_order] = codes
        return rows
    timeline = timeline_of(known)
    last = timeline.starts + timeline.n_visits_of_subject - 1
    return np.asarray(codes[last][_rows_of(at.index.to_numpy(), known)])


def _at_sites(model: Fitted, values: Array, sites: IntArray | None) -> Array:
    """Values as they will be measured at their sites."""
    if sites is None:
        return values
    return np.asarray(values + model.sites_.offsets[sites].astype(values.dtype))


def _variances(model: Fitted, n_visits: int, sites: IntArray | None) -> Array:
    """Variances of measurements around the curves, (n_visits, n_vertices).

    They are of people and of visits, and a site multiplies those of its visits.
    """
    usual: Array = model.responsibilities_ @ model.noise_**2
    noise = model.site_noise(sites)
    if noise is None:
        return np.broadcast_to(usual, (n_visits, len(usual)))
    of_visits = model.internal_.scale.value_errors(np.sqrt(model.sites_.variances)) ** 2
    of_people = np.maximum(usual - of_visits, 0.0)
    return np.asarray(of_people + of_visits * noise.variances(slice(None)))


def _rows_of(subjects: np.ndarray[Any, Any], known: Cohort) -> IntArray:
    """Position of each visit's subject among the known subjects."""
    position = {subject: i for i, subject in enumerate(known.subject_ids)}
    unknown = [subject for subject in subjects if subject not in position]
    if unknown:
        # An id out of an index may be a number of numpy's, which would be printed with its type.
        plain = [each.item() if isinstance(each, np.generic) else each for each in unknown]
        names = [repr(each) for each in dict.fromkeys(plain)]
        raise CohortError(
            f"no history for subject {some(names)}; predict without these people, or give earlier "
            "visits of theirs."
        )
    return np.array([position[subject] for subject in subjects])
