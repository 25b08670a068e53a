"""
Neighbours help: areas on the cortex
====================================

With a surface, neighbouring vertices tend to belong together; how strongly is estimated.
"""

import braindive as bd

simulation = bd.simulate_cohort(
    n_subjects=40,
    midpoints=(-1.0, 0.0, 1.0),
    slope=-1.6,
    amplitude=-4.0,
    noise=3.0,
    shift_sd=1.0,
    mean_speed=0.2,
    midpoint_variation=0.1,
    space="fsaverage5",
    random_state=0,
    dtype="float32",
)
with_field = bd.DIVE(n_clusters=3, random_state=0).fit(simulation.cohort)
without = bd.DIVE(n_clusters=3, spatial=None, random_state=0).fit(simulation.cohort)
for name, model in (("with the field", with_field), ("without", without)):
    agreement = bd.match_clusters(model, simulation.truth.labels).agreement
    print(f"{name}: agreement {agreement:.3f}, strength {model.spatial_strength_:.1f}")

# %%
bd.plot_clusters(with_field)
