"""Cognitive scores and a risk gene for simulated cohorts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from braindive.arrays import Array, BoolArray


@dataclass(frozen=True)
class CognitiveTest:
    """A bounded test whose expected result runs monotonically along the disease.

    Parameters
    ----------
    healthy, ill : float
        Expected result long before and long after the disease.
    noise : float
        Standard deviation of one result around its expectation.
    lowest, highest : float
        Possible results.
    step : float
        Results are multiples of this.
    """

    healthy: float
    ill: float
    noise: float
    lowest: float
    highest: float
    step: float


# Ranges are those of the real tests; noise is made so that a perfect stage would correlate with
# a result at about 0.4 to 0.6, as cognition does with atrophy.
TESTS = {
    "CDRSOB": CognitiveTest(0.0, 9.0, 4.5, 0, 18, 0.5),
    "ADAS13": CognitiveTest(8.0, 40.0, 17.0, 0, 85, 1.0),
    "MMSE": CognitiveTest(30.0, 18.0, 6.5, 0, 30, 1.0),
    "RAVLT": CognitiveTest(52.0, 16.0, 22.0, 0, 75, 1.0),
}
CARRIER_SHARE = 0.4


def draw_cognition(
    stages: Array, random: np.random.Generator, missing: float = 0.1
) -> pd.DataFrame:
    """Draw test results for visits.

    Parameters
    ----------
    stages : (n_visits,)
        True stage in standard deviations, 0 in the middle of the cohort.
    random : Generator
        Source of randomness.
    missing : float
        Share of results that are missing.

    Returns
    -------
    DataFrame
        One row per visit, one column per test; NaN where a result is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.simulation.cognition import draw_cognition
    >>> draw_cognition(np.array([-2.0, 2.0]), np.random.default_rng(0)).columns.tolist()
    ['CDRSOB', 'ADAS13', 'MMSE', 'RAVLT']
    """
    severity = 1 / (1 + np.exp(-1.5 * stages))
    results = {}
    for name, test in TESTS.items():
        expected = test.healthy + (test.ill - test.healthy) * severity
        result = expected + test.noise * random.standard_normal(len(stages))
        result = np.clip(np.round(result / test.step) * test.step, test.lowest, test.highest) + 0.0
        results[name] = np.where(random.random(len(stages)) < missing, np.nan, result)
    return pd.DataFrame(results)


def draw_carriers(n_subjects: int, random: np.random.Generator) -> BoolArray:
    """Draw who carries the risk gene.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.simulation.cognition import draw_carriers
    >>> draw_carriers(1000, np.random.default_rng(0)).shape
    (1000,)
    """
    return random.random(n_subjects) < CARRIER_SHARE
