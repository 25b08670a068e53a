"""
A table of regions, and an atlas that is given
==============================================

Few columns with names, such as the volumes that a segmentation reports, are fitted the same way.
Where regions are given beforehand, only their curves and the stages are left to find.
"""

import numpy as np

import braindive as bd

names = ("hippocampus", "amygdala", "entorhinal", "fusiform", "precuneus", "cingulate", "insula")
names += ("parietal", "frontal", "precentral", "cuneus", "occipital")
drawn = bd.simulate_cohort(n_subjects=100, n_vertices=len(names), noise=0.5, random_state=0).cohort
cohort = bd.Cohort(
    np.asarray(drawn.values),
    subjects=drawn.subjects,
    times=drawn.times,
    space=bd.Regions("segmentation", names),
)
model = bd.DIVE(n_clusters=3, random_state=0).fit(cohort)
bd.plot_clusters(model)

# %%
# Lobes of one's own, instead of clusters found in the data.

lobes = ["temporal"] * 4 + ["cingulate"] * 3 + ["other"] * 5
fixed = bd.roi_model(lobes).fit(cohort)
for name, midpoint in zip(fixed.cluster_names_, fixed.trajectories_.midpoint, strict=True):
    print(f"{name}: half-way at score {midpoint:.1f}")
bd.plot_trajectories(fixed)
