"""
A table of regions, and an atlas that is given
==============================================

Few columns with names, such as the thickness of regions that FreeSurfer reports, are fitted the
same way. By their Desikan-Killiany names they are painted on the cortex.
"""

import numpy as np
import pandas as pd

import braindive as bd

parts = ("entorhinal", "parahippocampal", "fusiform", "inferiortemporal", "middletemporal")
parts += ("temporalpole", "insula", "posteriorcingulate", "precuneus", "inferiorparietal")
parts += ("superiorparietal", "rostralmiddlefrontal", "superiorfrontal", "precentral", "cuneus")
names = [f"{side}_{part}_thickness" for side in ("lh", "rh") for part in parts]
drawn = bd.simulate_cohort(n_subjects=100, n_vertices=len(names), noise=0.5, random_state=0).cohort
table = drawn.table.join(pd.DataFrame(np.asarray(drawn.values), columns=names))
table["eTIV"] = 1.5e6  # a summary, which is no region and is left out

# %%
# A spreadsheet goes in as it is: one row for each visit, one column for each region.

cohort = bd.read_cohort(table)
model = bd.DIVE(n_clusters=3, random_state=0).fit(cohort)
bd.plot_clusters(model)

# %%
# Lobes of one's own, instead of clusters found in the data.

lobes = (["temporal"] * 6 + ["insula and cingulate"] * 2 + ["parietal"] * 3 + ["other"] * 4) * 2
fixed = bd.roi_model(lobes).fit(cohort)
for name, midpoint in zip(fixed.cluster_names_, fixed.trajectories_.midpoint, strict=True):
    print(f"{name}: half-way at score {midpoint:.1f}")
bd.plot_trajectories(fixed)
