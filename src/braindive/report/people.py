"""What the report says about each person: stage, speed, how sure both are, what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from braindive.arrays import Array, IntArray
from braindive.cohort import Cohort
from braindive.cohort.table_columns import find_column
from braindive.errors import ParameterError
from braindive.estimator import DIVE
from braindive.plotting.people import group_colours
from braindive.report.embedding import plain

DIAGNOSIS = "diagnosis"


def describe_people(
    model: DIVE,
    cohort: Cohort | None = None,
    columns: Sequence[str] = (),
    anonymous: bool = False,
) -> dict[str, Any]:
    """One row for each person: stage and speed with standard errors, diagnosis, chosen columns.

    Parameters
    ----------
    model : DIVE
        Fitted.
    cohort : Cohort, optional
        The training cohort, from which standard errors are found anew.
    columns : sequence of str
        Columns of the training cohort's table to show beside the diagnosis, at the first visit.
    anonymous : bool
        Whether people have numbers in place of their ids. They are numbered by their scores, so
        that not even their order tells who they are.

    Returns
    -------
    dict
        `columns` of the table, scores `at` all visits, standard `errors` of the first score and
        the speed, and the `group` of each person among `groups`, by diagnosis.
    """
    visits = model.visits_.reset_index(drop=True)
    scores, first = _by_person(model, visits)
    table = visits.loc[first]
    baseline = np.array([each[0] for each in scores])
    score_errors, speed_errors = _errors(model, cohort)
    names = [str(subject) for subject in model.subjects_.tolist()]
    order = np.arange(len(names))
    if anonymous:
        order = np.argsort(baseline, kind="stable")
        names = [str(number + 1) for number in range(len(names))]
    shown: dict[str, list[Any]] = {
        "Person": names,
        "Score": _picked(baseline, order),
        "Score ±": _picked(score_errors, order),
        "Speed": _picked(model.speeds_, order),
        "Speed ±": _picked(speed_errors, order),
        "Visits": _picked(np.array([len(each) for each in scores]), order),
    }
    for name in _asked_for(visits, columns, anonymous):
        heading = str(name)
        cells = table[name].astype(object).where(table[name].notna(), None)
        shown[f"{heading} (table)" if heading in shown else heading] = _picked(
            cells.to_numpy(), order
        )
    groups, group = _groups(table, order)
    return {
        "columns": [{"name": name, "cells": cells} for name, cells in shown.items()],
        "at": [scores[row] for row in order],
        "errors": {"score": shown["Score ±"], "speed": shown["Speed ±"]},
        "groups": groups,
        "group": group,
    }


def describe_diagnoses(model: DIVE) -> str:
    """How many people have which diagnosis at their first visit; nothing where it is not known."""
    visits = model.visits_
    if DIAGNOSIS not in visits:
        return ""
    rows = visits.sort_values("time", kind="stable").drop_duplicates("subject")[DIAGNOSIS]
    counts = rows.dropna().astype(str).value_counts()
    return ", ".join(f"{n} {name}" for name, n in counts.items())


def _by_person(model: DIVE, visits: pd.DataFrame) -> tuple[list[list[float]], list[int]]:
    """Scores of each person's visits in the order of time, and the row of the first of them."""
    rows = visits.assign(score=model.scores_).sort_values("time", kind="stable")
    position = {subject: row for row, subject in enumerate(model.subjects_.tolist())}
    scores: list[list[float]] = [[] for _ in position]
    first = [-1] * len(position)
    for subject, label, score in zip(
        rows["subject"].tolist(), rows.index, rows["score"].tolist(), strict=True
    ):
        row = position[subject]
        scores[row].append(score)
        first[row] = label if first[row] < 0 else first[row]
    return scores, first


def _errors(model: DIVE, cohort: Cohort | None) -> tuple[Array, Array] | Array:
    """Standard errors of first scores and speeds: those of the fit, or found anew.

    Where the score is time itself, nothing was estimated.
    """
    if not model.staging:
        return np.full((2, len(model.subjects_)), np.nan)
    if cohort is None:
        return model.baseline_scores_se_, model.speeds_se_
    stages = model.stage(cohort).reindex(model.subjects_)
    return stages["score_se"].to_numpy(), stages["speed_se"].to_numpy()


def _asked_for(visits: pd.DataFrame, columns: Sequence[str], anonymous: bool) -> list[Any]:
    """Columns to show: the diagnosis, and those that somebody has asked for."""
    known = {str(name): name for name in visits.columns}
    columns = [name if name in known else find_column(visits, name) for name in columns]
    ids = set(visits["subject"].astype(str))
    for name in columns if anonymous else ():
        if ids <= set(visits[known[name]].astype(str)):
            raise ParameterError(
                f"column {name!r} holds people's ids, which an anonymous report leaves out."
            )
    wanted = dict.fromkeys([DIAGNOSIS, *columns])
    return [known[name] for name in wanted if name in known]


def _groups(table: pd.DataFrame, order: IntArray) -> tuple[list[dict[str, str]], list[int | None]]:
    """Diagnoses with their colours, and which of them each person has."""
    if DIAGNOSIS not in table:
        return [], [None] * len(order)
    known = table[DIAGNOSIS].replace("n/a", np.nan)
    colours = group_colours(known.dropna())
    position = {name: index for index, name in enumerate(colours)}
    group = [position.get(name) for name in known.tolist()]
    groups = [{"name": str(name), "colour": colour} for name, colour in colours.items()]
    return groups, [group[row] for row in order]


def _picked(cells: Any, order: IntArray) -> list[Any]:
    found: list[Any] = plain([cells[row] for row in order])
    return found
