"""
Does staging help? Compare models on people they have not seen
==============================================================

The same folds for every model, split by person, so that differences are paired.
"""

import braindive as bd

cohort = bd.simulate_cohort(n_subjects=60, n_vertices=150, random_state=0).cohort
models = {
    "DIVE": bd.DIVE(n_clusters=3, random_state=0),
    "no staging": bd.no_staging_model(n_clusters=3, random_state=0),
}
comparison = bd.compare_models(cohort, models, n_folds=4, random_state=0)
print(bd.summarise_comparison(comparison).round(3))

# %%
bd.plot_comparison(comparison)
