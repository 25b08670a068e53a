"""What is done to the values before a fit, learnt from the training cohort and kept with the model.

Whatever is estimated is estimated from the visits of the training cohort's controls, so a new
subject gets the same numbers alone as among others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from braindive.arrays import Array, BoolArray
from braindive.cohort import Cohort
from braindive.cohort.checks import quoted, visits_of
from braindive.cohort.holes import mean_observed, regress, smooth_observed, varies
from braindive.cohort.reference import REFERENCES, never_zero, reference_visits
from braindive.cohort.table_columns import find_column, simple
from braindive.errors import CohortError, NotFittedError, ParameterError
from braindive.space.folding import fold_hemispheres
from braindive.values.walking import vertex_blocks, visit_blocks

# A vertex that varies by less than this share of its level does not vary.
_CONSTANT = 1e-6


@dataclass(frozen=True)
class Covariate:
    """One column of the table, as seen in the controls.

    Parameters
    ----------
    name : str
        Column of the cohort's table.
    centre, scale : float
        Mean and spread of a number; 0 and 1 for a group.
    groups : tuple of str or None
        Groups in order, the first of which is the reference; None for a number.
    """

    name: str
    centre: float
    scale: float
    groups: tuple[str, ...] | None


class Preprocessing(BaseEstimator):  # type: ignore[misc]
    """Smooth, average hemispheres, regress covariates out and standardise, in this order.

    Given to `DIVE(preprocessing=...)` it is fitted with the model, saved with it and applied to
    every cohort the model sees; `predict` then answers in the same, standardised unit, and
    `inverse_transform` brings that back to the unit of the measure.

    Parameters
    ----------
    standardise : bool, default True
        Whether to z-score each vertex to the controls.
    covariates : sequence of str, default ()
        Columns of the cohort's table whose effect in controls is removed from everybody. Text is
        taken as groups, numbers as they are.
    categorical : sequence of str, default ("site", "scanner")
        Covariates that are groups even if they are written as numbers.
    average_hemispheres : bool, default False
        Whether to average mirrored vertices of two hemispheres with the same mesh.
    smooth : int, default 0
        Rounds of averaging every vertex with its neighbours.
    min_observed : float, default 0.5
        Vertices measured at a smaller share of the visits are dropped, and so are vertices that
        never vary; maps hold NaN there.
    reference : {"controls", "baseline"}, default "controls"
        Visits of the controls that count: all, or the first of each, so that nobody's ageing and
        nobody's number of visits does.
    drop_zeros : bool, default False
        Whether 0 means not measured, as in FreeSurfer's thickness where there is no cortex:
        vertices that are 0 at any visit of the training cohort are dropped, and a 0 of a new
        cohort is taken as missing.

    Attributes
    ----------
    keep_ : (n_vertices,) bool
        Vertices that were not dropped, counted after the hemispheres were averaged.
    means_, spreads_ : (n_kept,)
        Of each vertex in the controls, at their average covariates.
    effects_ : (n_columns, n_kept)
        What one unit of each covariate changes.
    covariates_ : list of Covariate
        How the covariates were coded.
    space_in_ : Space or None
        Where the vertices of the training cohort lie.

    Examples
    --------
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(
    ...     n_subjects=40, n_vertices=20, control_share=0.5, random_state=0
    ... ).cohort
    >>> standard = bd.Preprocessing().fit(cohort).transform(cohort)
    >>> bool(abs(standard.values[cohort.controls].mean()) < 1e-9)
    True
    """

    def __init__(
        self,
        *,
        standardise: bool = True,
        covariates: Sequence[str] = (),
        categorical: Sequence[str] = ("site", "scanner"),
        average_hemispheres: bool = False,
        smooth: int = 0,
        min_observed: float = 0.5,
        reference: str = "controls",
        drop_zeros: bool = False,
    ) -> None:
        self.standardise = standardise
        self.covariates = covariates
        self.categorical = categorical
        self.average_hemispheres = average_hemispheres
        self.smooth = smooth
        self.min_observed = min_observed
        self.reference = reference
        self.drop_zeros = drop_zeros

    def fit(self, cohort: Cohort, y: None = None) -> Preprocessing:
        """Learn from a training cohort.

        Parameters
        ----------
        cohort : Cohort
            Its controls are the reference; without controls everybody is.
        y : None
            Not used; here for scikit-learn.

        Returns
        -------
        Preprocessing
            Itself.
        """
        self._check_parameters()
        self._learn(self._over_space(cohort), self._never_zero(cohort))
        self.n_vertices_in_, self.space_in_ = cohort.n_vertices, cohort.space
        return self

    def transform(self, cohort: Cohort) -> Cohort:
        """Apply what was learnt, to the training cohort or a new one.

        Parameters
        ----------
        cohort : Cohort
            With the vertices of the training cohort and the same covariates in its table.

        Returns
        -------
        Cohort
        """
        if not hasattr(self, "keep_"):
            raise NotFittedError("this Preprocessing is not fitted yet; call fit(cohort) first.")
        if cohort.n_vertices != self.n_vertices_in_:
            raise CohortError(
                f"the preprocessing was fitted on {self.n_vertices_in_} vertices, but this cohort "
                f"has {cohort.n_vertices}; use maps of the same space."
            )
        return self._apply(self._over_space(cohort))

    def fit_transform(self, cohort: Cohort, y: None = None) -> Cohort:
        """Learn from a cohort and apply it to the same, in one go."""
        self._check_parameters()
        averaged = self._over_space(cohort)
        self._learn(averaged, self._never_zero(cohort))
        self.n_vertices_in_, self.space_in_ = cohort.n_vertices, cohort.space
        return self._apply(averaged)

    def inverse_transform(self, cohort: Cohort) -> Cohort:
        """Bring standardised values back to the unit of the measure, with covariates as they are.

        Parameters
        ----------
        cohort : Cohort
            Values as `transform` or `DIVE.predict` give them, with the covariates in its table.

        Returns
        -------
        Cohort
            On the same vertices: those that were dropped, and what smoothing and averaging of
            hemispheres took away, do not come back.
        """
        if not hasattr(self, "keep_"):
            raise NotFittedError("this Preprocessing is not fitted yet; call fit(cohort) first.")
        if cohort.n_vertices != len(self.means_):
            raise CohortError(
                f"the preprocessing kept {len(self.means_)} vertices, but these values are of "
                f"{cohort.n_vertices}; give values as transform or predict return them."
            )
        design = self._design(cohort)
        values = np.empty((cohort.n_visits, cohort.n_vertices), dtype=cohort.stored.dtype)
        for where, block in vertex_blocks(cohort.stored, cohort.rows):
            piece = block.astype(float)
            if self.standardise:
                piece = piece * self.spreads_[where] + self.means_[where]
            values[:, where] = piece + design @ self.effects_[:, where]
        return _with_values(cohort, values, cohort.space, cohort.graph)

    def _check_parameters(self) -> None:
        if isinstance(self.covariates, str) or isinstance(self.categorical, str):
            raise ParameterError("covariates must be a list of column names, not one string.")
        if not isinstance(self.smooth, (int, np.integer)) or self.smooth < 0:
            raise ParameterError(
                f"smooth must be a whole number of rounds, 0 or more; got {self.smooth!r}."
            )
        if self.reference not in REFERENCES:
            raise ParameterError(
                f"reference must be {' or '.join(REFERENCES)}; got {self.reference!r}."
            )
        if not 0 <= self.min_observed <= 1:
            raise ParameterError(f"min_observed must be from 0 to 1; got {self.min_observed!r}.")

    def _over_space(self, cohort: Cohort) -> Cohort:
        """Smooth and average the hemispheres of each visit by itself."""
        if not (self.smooth or self.average_hemispheres or self.drop_zeros):
            return cohort
        space, graph, pairs = cohort.space, cohort.graph, None
        if self.average_hemispheres:
            space, pairs = fold_hemispheres(space)
        if self.smooth and graph is None:
            raise ParameterError("smooth needs neighbours, but the cohort has no space or graph.")
        n_out = cohort.n_vertices if pairs is None else len(pairs)
        values = np.empty((cohort.n_visits, n_out), dtype=cohort.stored.dtype)
        for visits, block in visit_blocks(cohort.stored, cohort.rows):
            block = np.where(block == 0, np.nan, block) if self.drop_zeros else block
            smooth = smooth_observed(block, graph, self.smooth) if self.smooth else block
            if pairs is None:
                values[visits] = smooth
            else:
                values[visits] = mean_observed(smooth[:, pairs[:, 0]], smooth[:, pairs[:, 1]])
        if pairs is not None:
            graph = None  # the averaged surface has its own
        return _with_values(cohort, values, space, graph)

    def _never_zero(self, cohort: Cohort) -> BoolArray | None:
        """Vertices, counted after averaging, that are never 0; None where 0 is a number."""
        if not self.drop_zeros:
            return None
        measured = never_zero(cohort)
        if self.average_hemispheres:
            pairs = fold_hemispheres(cohort.space)[1]
            return measured[pairs[:, 0]] & measured[pairs[:, 1]]
        return measured

    def _learn(self, cohort: Cohort, measured: BoolArray | None) -> None:
        """Means, spreads and covariate effects in the controls, and which vertices to keep."""
        reference = reference_visits(cohort, self.reference)
        design = self._learn_design(cohort, reference)
        n_vertices, n_columns = cohort.n_vertices, design.shape[1]
        means, spreads = np.empty(n_vertices), np.empty(n_vertices)
        effects = np.empty((n_columns, n_vertices))
        keep = np.empty(n_vertices, dtype=bool)
        least = max(self.min_observed * cohort.n_visits, 1)
        for where, block in vertex_blocks(cohort.stored, cohort.rows):
            values = block.astype(float)
            observed = ~np.isnan(values)
            means[where], effects[:, where], spreads[where] = regress(values[reference], design)
            keep[where] = (observed.sum(axis=0) >= least) & varies(values, observed)
        if measured is not None:
            keep &= measured
        if self.standardise or n_columns:
            keep &= np.isfinite(means) & (spreads > _CONSTANT * np.abs(means))
        if not keep.any():
            raise CohortError(
                "no vertex is left: all have too few measurements or never vary in the controls; "
                "look the cohort over with `braindive check`, or lower min_observed."
            )
        self.keep_, self.means_, self.spreads_ = keep, means[keep], spreads[keep]
        self.effects_ = effects[:, keep]

    def _apply(self, cohort: Cohort) -> Cohort:
        """Remove covariates, standardise, and drop vertices."""
        design = self._design(cohort)
        values = np.empty((cohort.n_visits, int(self.keep_.sum())), dtype=cohort.stored.dtype)
        done = 0
        for where, block in vertex_blocks(cohort.stored, cohort.rows):
            piece = block[:, self.keep_[where]].astype(float)
            kept = slice(done, done + piece.shape[1])
            piece -= design @ self.effects_[:, kept]
            if self.standardise:
                piece -= self.means_[kept]
                piece /= self.spreads_[kept]
            values[:, kept] = piece
            done = kept.stop
        space, graph = cohort.space, cohort.graph
        if not self.keep_.all():
            space = None if space is None else space.restrict(self.keep_)
            graph = None if graph is None else graph[self.keep_][:, self.keep_]
        return _with_values(cohort, values, space, graph)

    def _learn_design(self, cohort: Cohort, reference: BoolArray) -> Array:
        """Code the covariates from the controls, and return the controls' design."""
        table = cohort.table
        self.covariates_ = []
        groups = {simple(name) for name in self.categorical}
        for written in self.covariates:
            name = find_column(table, written, "covariates", CohortError)
            column = _column(table, cohort, name)
            if simple(name) in groups or column.dtype.kind != "f":
                inside, all_groups = column[reference].astype(str), column.astype(str)
                alone = sorted(set(all_groups) - set(inside))
                if alone:
                    raise CohortError(
                        f"covariate {name!r} has groups without any control: {', '.join(alone)}; "
                        "their effect cannot be told from the disease. Leave them or the covariate "
                        "out."
                    )
                self.covariates_.append(Covariate(name, 0.0, 1.0, tuple(sorted(set(inside)))))
            else:
                numbers = column[reference]
                spread = float(numbers.std())
                if spread == 0:
                    raise CohortError(
                        f"covariate {name!r} is the same for all controls, so its effect cannot be "
                        "estimated; leave it out."
                    )
                self.covariates_.append(Covariate(name, float(numbers.mean()), spread, None))
        self.centre_ = np.zeros(sum(_n_columns(each) for each in self.covariates_))
        design = self._design(cohort)[reference]
        self.centre_ = design.mean(axis=0)
        if len(design) <= design.shape[1] + 1:
            raise CohortError(
                f"{len(design)} control visits are too few to estimate {design.shape[1]} "
                "effects; use fewer covariates."
            )
        return design - self.centre_

    def _design(self, cohort: Cohort) -> Array:
        """One row per visit, one column per number and per group other than the reference."""
        table = cohort.table
        columns: list[Array] = []
        for covariate in self.covariates_:
            column = _column(table, cohort, covariate.name)
            if covariate.groups is None:
                if column.dtype.kind != "f":
                    raise CohortError(
                        f"covariate {covariate.name!r} was numbers in training, but is text here."
                    )
                columns.append((column - covariate.centre) / covariate.scale)
                continue
            groups = column.astype(str)
            unknown = sorted(set(groups) - set(covariate.groups))
            if unknown:
                who = cohort.subjects[np.isin(groups, unknown)][0]
                raise CohortError(
                    f"{covariate.name} {', '.join(unknown)} was not in the training cohort (it had "
                    f"{', '.join(covariate.groups)}); first at subject {quoted(who)}. Leave these "
                    "visits out, or fit again with controls of that group."
                )
            columns += [(groups == group).astype(float) for group in covariate.groups[1:]]
        stacked = np.stack(columns, axis=1) if columns else np.empty((cohort.n_visits, 0))
        return stacked - self.centre_


def _column(table: pd.DataFrame, cohort: Cohort, name: str) -> np.ndarray[Any, Any]:
    """A covariate without holes: float64, or strings for anything but numbers."""
    column = table[find_column(table, name, "covariates", CohortError)]
    holes = np.flatnonzero(column.isna().to_numpy())
    if len(holes):
        raise CohortError(
            f"covariate {name!r} is missing at {len(holes)} "
            f"{'visit' if len(holes) == 1 else 'visits'}: "
            f"{visits_of(cohort.subjects, cohort.times, holes.tolist())}; fill it in or drop these "
            "visits."
        )
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        numbers = column.to_numpy(dtype=float)
        # Site 3 is the same group whether the column was read as 3 or, beside holes, as 3.0.
        return numbers if not np.isinf(numbers).any() else _refuse_infinite(name)
    return column.astype(str).to_numpy(dtype=str)


def _refuse_infinite(name: str) -> np.ndarray[Any, Any]:
    raise CohortError(f"covariate {name!r} has infinite values; correct them in the table.")


def _n_columns(covariate: Covariate) -> int:
    return 1 if covariate.groups is None else len(covariate.groups) - 1


def _with_values(cohort: Cohort, values: Array, space: Any, graph: Any) -> Cohort:
    return Cohort(
        values,
        subjects=cohort.subjects,
        times=cohort.times,
        controls=cohort.controls,
        graph=graph,
        space=space,
        table=cohort.table,
    )
