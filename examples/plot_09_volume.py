"""
Voxels work like vertices
=========================

Maps of grey matter or of PET in a volume: a mask says which voxels are measured, and voxels that
touch are neighbours. `load_space("mask.nii.gz")` reads a mask of your own.
"""

import numpy as np

import braindive as bd

x, y, z = np.indices((16, 20, 16)) - np.array([8, 10, 8])[:, None, None, None]
mask = (x / 7) ** 2 + (y / 9) ** 2 + (z / 7) ** 2 < 1
space = bd.Volume("ellipsoid", mask, np.diag([10.0, 10.0, 10.0, 1.0]))
simulation = bd.simulate_cohort(n_subjects=60, space=space, random_state=0)
model = bd.DIVE(n_clusters=3, random_state=0).fit(simulation.cohort)
print(bd.match_clusters(model, simulation.truth.labels).agreement)

# %%
bd.plot_clusters(model)

# %%
bd.plot_pathology(model)
