"""
One scan gives a stage, more scans give a speed
===============================================

A fitted model places people it has never seen on the disease's course, with a standard error.
"""

import braindive as bd

simulation = bd.simulate_cohort(n_subjects=120, random_state=1)
cohort = simulation.cohort
training = cohort.select(subjects=cohort.subject_ids[:100])
new = cohort.select(subjects=cohort.subject_ids[100:])
model = bd.DIVE(n_clusters=3, random_state=0).fit(training)

bd.plot_trajectories(model, training)

# %%
# One scan is enough for a score. More scans make it sharper and give a speed.

one = model.stage(new.first_visits(1))
all_visits = model.stage(new)
print(one[["score", "score_se", "speed_se"]].head().round(3))
print(all_visits[["score", "score_se", "speed_se"]].head().round(3))
