"""
Missing values need no imputation
=================================

A lobe outside the field of view, a region that could not be segmented: what was not measured is
NaN and left out of every sum. A third of the values are missing here.
"""

import numpy as np

import braindive as bd

for missing in (0.0, 0.33):
    simulation = bd.simulate_cohort(n_subjects=100, n_vertices=300, missing=missing, random_state=0)
    model = bd.DIVE(n_clusters=3, random_state=0).fit(simulation.cohort)
    agreement = bd.match_clusters(model, simulation.truth.labels).agreement
    correlation = np.corrcoef(model.scores_, simulation.truth.scores)[0, 1]
    print(f"{missing:.0%} missing: agreement {agreement:.3f}, scores r = {correlation:.3f}")

# %%
# Scores of people with fewer measurements have larger standard errors, and say so.

bd.plot_trajectories(model, simulation.cohort)
