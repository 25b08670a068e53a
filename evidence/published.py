"""What the DIVE paper reports, read off its figures and tables, to stand beside our numbers."""

from __future__ import annotations

AGREEMENT = {
    "closer trajectories": {
        0.33: 0.97, 0.30: 0.96, 0.23: 0.92, 0.17: 0.845,
        0.10: 0.69, 0.07: 0.60, 0.03: 0.445, 0.02: 0.385,
    },
    "fewer subjects": {
        300: 0.97, 200: 0.97, 100: 0.96, 50: 0.947, 35: 0.945, 20: 0.938, 10: 0.867, 5: 0.762,
    },
}  # fmt: skip
"""Agreement of clusters with the truth, by experiment and step; read off plots, +/- 0.01."""

CHOSEN_CLUSTERS = {
    2: (2, 2), 3: (4, 3), 5: (5, 5), 10: (11, 7), 15: (12, 9), 20: (18, 14), 30: (34, 24),
    40: (44, 34),
}  # fmt: skip
"""Numbers of clusters chosen by AIC and by BIC, by the true number."""

COMPARISON = {
    "DIVE": ("0.37 ± 0.09", "0.37 ± 0.10", "0.36 ± 0.11", "0.32 ± 0.12", "1.021 ± 0.008"),
    "ROI-based": ("0.36 ± 0.10", "0.35 ± 0.11", "0.34 ± 0.13", "0.30 ± 0.13", "1.019 ± 0.010"),
    "no staging": (
        "0.09 ± 0.06*", "0.03 ± 0.09*", "0.05 ± 0.06*", "0.02 ± 0.06*", "1.062 ± 0.024*",
    ),
}  # fmt: skip
"""Correlation with CDRSOB, ADAS13, MMSE and RAVLT, and RMSE, in ADNI, by model."""

FOLD_DICE = (0.77, 0.76, 0.90)
"""Dice overlap of the clusters across folds in ADNI."""
