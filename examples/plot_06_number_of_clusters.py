"""
How many clusters? Ask several criteria
=======================================

Held-out subjects, information criteria and stability rarely agree on their own; read together they
tell a supported number from a convenient one.
"""

import braindive as bd

cohort = bd.simulate_cohort(n_subjects=40, n_vertices=100, random_state=0).cohort
model = bd.DIVE(n_init=1, spatial=None, tol=1e-3, random_state=0)
table = bd.select_n_clusters(
    cohort, (2, 3, 4), model=model, n_splits=2, n_resamples=1, n_jobs=1, random_state=0
)
print(table[["bic", "held_out", "rand"]].round(2))

# %%
print(bd.recommend_n_clusters(table))

# %%
bd.plot_selection(table)
