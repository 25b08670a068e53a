"""Cohorts with a known truth."""

from braindive.simulation.cohorts import Simulation, Truth, simulate_cohort

__all__ = ["Simulation", "Truth", "simulate_cohort"]
