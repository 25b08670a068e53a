"""
A table of scans is all a fit needs
===================================

One row per scan says who, when and where the map is. Here the table and its FreeSurfer maps are
written first, so that the example runs anywhere; with your own study, begin at `read_cohort`.
"""

import tempfile
from pathlib import Path

import braindive as bd

folder = Path(tempfile.mkdtemp())
simulation = bd.simulate_cohort(
    n_subjects=20, n_visits=3, space="fsaverage5-left", control_share=0.3, random_state=0
)
table = bd.write_cohort(simulation.cohort, folder)
print(table.read_text().splitlines()[0])

# %%
cohort = bd.read_cohort(table, space="fsaverage5-left")
print(cohort)

# %%
# What is odd about the data is said before anything is fitted.

for finding in bd.inspect_cohort(cohort):
    print(finding.what, finding.remedy)

# %%
model = bd.DIVE(n_clusters=3, random_state=0).fit(cohort)
bd.plot_clusters(model)

# %%
# One page to open in a browser, and the model itself as one file.

report = bd.build_report(model).save(folder / "report.html")
model.save(folder / "fit.dive")
print(f"{report.name}: {report.stat().st_size / 1e6:.1f} MB")
