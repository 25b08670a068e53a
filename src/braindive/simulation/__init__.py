"""Cohorts with a known truth."""

from braindive.simulation.cohorts import (
    Simulation,
    Truth,
    contiguous_patches,
    simulate_cohort,
)

__all__ = ["Simulation", "Truth", "contiguous_patches", "simulate_cohort"]
