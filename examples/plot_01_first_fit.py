"""
A first fit finds the areas, the curves and the stages
======================================================

Simulate the basic setting of the paper, fit it, and compare with the truth.
"""

import numpy as np

import braindive as bd

simulation = bd.simulate_cohort(n_subjects=150, random_state=0)
model = bd.DIVE(n_clusters=3, random_state=0).fit(simulation.cohort)

# %%
# Has it converged, and how close is it to the truth?

matching = bd.match_clusters(model, simulation.truth.labels)
correlation = np.corrcoef(model.scores_, simulation.truth.scores)[0, 1]
print(f"{model.stop_reason_} after {model.n_iter_} iterations")
print(f"agreement of clusters {matching.agreement:.3f}, correlation of scores {correlation:.3f}")

# %%
# The curves, with the mean of each cluster at each visit.

bd.plot_trajectories(model, simulation.cohort)
