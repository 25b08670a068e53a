"""What a fitted model can do for people and their values, in its internal units.

`DIVE` inherits it: staging, prediction, goodness of fit and comparisons all place people and open
their values here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.checks import check_memory
from braindive.cohort.cohort import Cohort, check_cohort
from braindive.cohort.preprocessing import Preprocessing
from braindive.cohort.sites import site_codes, site_names
from braindive.dive.site_offsets import Sites
from braindive.dive.timeline import Timeline
from braindive.effects import Covariates, design_of
from braindive.errors import CohortError, NotFittedError, ParameterError
from braindive.prediction.personal import PersonalModel
from braindive.prediction.site_noise import SiteNoise
from braindive.results import Internal
from braindive.scale import Scale
from braindive.staging.marginal_stager import MarginalStager
from braindive.staging.population import Design, groups_of
from braindive.staging.stagers import PublishedStager, Stager, Stages, TimeStager
from braindive.values.backends import open_products
from braindive.values.blocks import Unit
from braindive.values.protocol import Products
from braindive.values.walking import one_thread_per_product


class Fitted:
    """A fitted model: what was found, and how people and values are brought to it."""

    staging: bool
    n_jobs: int | None
    memory: str | int | None
    preprocessing_: Preprocessing | None
    responsibilities_: Array
    noise_: Array
    n_vertices_: int
    covariates_: Covariates
    sites_: Sites
    _internal: Internal
    _marginal: MarginalStager | None
    _personal: PersonalModel | None

    @property
    def is_fitted(self) -> bool:
        """Whether there is anything to ask."""
        return hasattr(self, "_internal")

    def check_fitted(self) -> None:
        """Refuse to answer before a fit."""
        if not self.is_fitted:
            raise NotFittedError("this DIVE is not fitted yet; call fit(cohort) first.")

    @property
    def internal_(self) -> Internal:
        """What the EM found, in internal units; for developers."""
        self.check_fitted()
        return self._internal

    @property
    def marginal_(self) -> MarginalStager:
        """What staging has learnt, in internal units; for developers."""
        if self._marginal is None:
            raise ParameterError(
                "this model takes people for alike, or has staging=False; fit it with "
                'people="differ".'
            )
        return self._marginal

    @property
    def personal_(self) -> PersonalModel:
        """What prediction has learnt of people's own deviations; for developers."""
        if self._personal is None:
            raise ParameterError(
                "this model was fitted with personal=False; fit it with personal=True, or ask for "
                "predict(..., personal=False)."
            )
        return self._personal

    def stager(self) -> Stager:
        """Who places subjects, in internal units: the marginal model, or as published."""
        found = self.internal_
        if not self.staging:
            return TimeStager(found.parameters.trajectories)
        if self._marginal is not None:
            return self._marginal
        parameters, timeline = found.parameters, found.training.timeline
        known = timeline.scores(parameters.speeds, parameters.shifts)
        return PublishedStager(parameters, found.priors, known)

    def stage_scale(self) -> Scale:
        """From the internal units of `stager` to the user's."""
        scale = self.internal_.scale
        if self._marginal is None:
            return scale
        # The same in every model but those of the first file format.
        return scale.with_scores(self._marginal.centre, self._marginal.spread)

    def groups(self, cohort: Cohort, timeline: Timeline) -> IntArray | None:
        """Group of each subject of a cohort in the population, where its controls are known."""
        if cohort.controls is None or self._marginal is None:
            return None
        if self._marginal.population.n_groups == 1:
            return np.zeros(timeline.n_subjects, dtype=int)
        return groups_of(timeline, cohort.controls[cohort.canonical_order], least=0)

    def design(self, cohort: Cohort, timeline: Timeline) -> Design | None:
        """Covariates of each subject of a cohort, where the model knows effects of some."""
        return design_of(cohort, getattr(self, "covariates_", None), timeline)

    def prepare(self, cohort: Cohort) -> Cohort:
        """Check a cohort against the model, and apply the preprocessing learnt in training."""
        self.check_new(cohort)
        return cohort if self.preprocessing_ is None else self.preprocessing_.transform(cohort)

    def products(self, cohort: Cohort, client: Any = None, *, adjusted: bool = True) -> Products:
        """Products of the values of a prepared cohort, in the unit of the fit.

        What sites add is taken off, unless they are asked for as they are.
        """
        products = self._open(cohort, client, self.internal_.unit)
        sites = self.sites_of_visits(cohort) if adjusted else None
        return products if sites is None else products.adjusted(self.sites_.adjustment(sites))

    def sites_of_visits(self, cohort: Cohort) -> IntArray | None:
        """Site of each visit in canonical order, where the model knows sites."""
        if not hasattr(self, "sites_"):
            return None
        return site_codes(cohort, self.sites_.column, self.sites_.names)

    def site_noise(self, sites: IntArray | None) -> SiteNoise | None:
        """How noisy visits at some sites are, where the model knows sites."""
        return None if sites is None else SiteNoise(self.sites_.scales.T, sites)

    def knows_sites(self, cohort: Cohort) -> BoolArray:
        """Which visits of a cohort are from sites that the model knows: all, if it knows none."""
        if not hasattr(self, "sites_"):
            return np.ones(cohort.n_visits, dtype=bool)
        return np.isin(site_names(cohort, self.sites_.column), self.sites_.names)

    def place(self, cohort: Cohort, client: Any = None) -> tuple[Stages, Array, Array]:
        """Stages of a cohort's subjects in internal units, and the sums and weights behind them."""
        cohort = self.prepare(cohort)
        timeline = timeline_of(cohort, self.internal_.time_unit)
        sums, weights = self.pool(self.products(cohort, client))
        with one_thread_per_product(self.n_jobs):
            return self.place_pooled(cohort, timeline, sums, weights), sums, weights

    def place_pooled(
        self, cohort: Cohort, timeline: Timeline, sums: Array, weights: Array
    ) -> Stages:
        """Stages of a prepared cohort's subjects whose values have been pooled over clusters."""
        groups, design = self.groups(cohort, timeline), self.design(cohort, timeline)
        sites = self.sites_of_visits(cohort)
        return self.stager().place(timeline, sums, weights, groups, design, sites)

    def pool(self, products: Products, *more: Array) -> tuple[Array, Array]:
        """Sums and weights of the clusters, and of more maps, at every visit."""
        columns = self.responsibilities_ * self.internal_.known[:, None]
        with one_thread_per_product():
            return products.pool(np.column_stack([columns, *more]))

    def _open(self, cohort: Cohort, client: Any, unit: Unit | None = None) -> Products:
        """Products of the values of a cohort, in their own unit if none is given."""
        return open_products(
            cohort.stored,
            order=cohort.canonical_rows,
            missing=cohort.has_missing,
            n_jobs=self.n_jobs,
            memory=check_memory(self.memory),
            unit=unit,
            client=client,
        )

    def check_new(self, cohort: Cohort) -> None:
        """Refuse a cohort that the model cannot have to do with."""
        check_cohort(cohort)
        self.check_fitted()
        prepared = self.preprocessing_
        n_vertices = self.n_vertices_ if prepared is None else prepared.n_vertices_in_
        if cohort.n_vertices != n_vertices:
            raise CohortError(
                f"the model was fitted on {n_vertices} vertices, but this cohort has "
                f"{cohort.n_vertices}; use maps of the same space."
            )


def timeline_of(cohort: Cohort, unit: float | None = None) -> Timeline:
    """Visits of a cohort in canonical order on the internal time axis."""
    order = cohort.canonical_order
    return Timeline.from_times(cohort.subject_index[order], cohort.times[order], unit)
