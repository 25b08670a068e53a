"""Disease progression on the brain itself, from short longitudinal maps."""

from braindive.cohort import Cohort
from braindive.errors import (
    BraindiveError,
    BraindiveWarning,
    CohortError,
    ConvergenceWarning,
    DataWarning,
    NotFittedError,
    ParameterError,
)
from braindive.estimator import DIVE, no_staging_model, roi_model
from braindive.evaluation.matching import Matching, match_clusters
from braindive.model.priors import Gamma, Normal, Priors
from braindive.model.trajectories import Trajectories
from braindive.simulation import Simulation, simulate_cohort
from braindive.space import Regions, Space, Surface, Volume, load_space

__all__ = [
    "DIVE",
    "BraindiveError",
    "BraindiveWarning",
    "Cohort",
    "CohortError",
    "ConvergenceWarning",
    "DataWarning",
    "Gamma",
    "Matching",
    "Normal",
    "NotFittedError",
    "ParameterError",
    "Priors",
    "Regions",
    "Simulation",
    "Space",
    "Surface",
    "Trajectories",
    "Volume",
    "load_space",
    "match_clusters",
    "no_staging_model",
    "roi_model",
    "simulate_cohort",
]

__version__ = "0.1.0"
