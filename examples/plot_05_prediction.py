"""
Two visits predict the next better than the last map does
=========================================================

A prediction joins the course of the disease with the person's own deviations from it.
"""

import numpy as np

import braindive as bd

simulation = bd.simulate_cohort(n_subjects=120, n_vertices=400, personal_offset=0.5, random_state=0)
cohort = simulation.cohort
training = cohort.select(subjects=cohort.subject_ids[:90])
new = cohort.select(subjects=cohort.subject_ids[90:])
model = bd.DIVE(n_clusters=3, random_state=0).fit(training)

# %%
# What is predicted rests on the first two visits alone.

history, later = new.first_visits(2), new.later_visits(2)
predicted, spread = model.predict(later, history=history, return_std=True)
measured = np.asarray(later.values)
last = {subject: row for row, subject in enumerate(history.subjects)}
carried = np.asarray(history.values)[[last[subject] for subject in later.subjects]]
for name, guess in (("DIVE", predicted), ("last map carried forward", carried)):
    print(f"{name}: error {np.sqrt(np.mean((measured - guess) ** 2)):.2f}")

# %%
# The standard deviations hold: 95 % of the measurements lie within two of them.

print(f"{np.mean(np.abs(measured - predicted) < 1.96 * spread):.1%} within the interval")

# %%
bd.plot_subjects(model, new)
