# The public names and where they live; `__init__.py` imports them from there when they are used.

from braindive.cohort import Cohort
from braindive.cohort.checkup import inspect_cohort
from braindive.cohort.findings import Finding
from braindive.cohort.preprocessing import Preprocessing
from braindive.dive.curves import Trajectories
from braindive.dive.priors import Gamma, Normal, Priors
from braindive.effects import effects_in_words
from braindive.errors import (
    BraindiveError,
    BraindiveWarning,
    ClusterError,
    CohortError,
    ConvergenceWarning,
    DataWarning,
    ModelFileError,
    NotFittedError,
    ParameterError,
    ReadError,
    StagingWarning,
)
from braindive.estimator import DIVE
from braindive.evaluation.bootstrap import Bootstrap, bootstrap
from braindive.evaluation.change import change
from braindive.evaluation.cohort_comparison import CohortComparison, compare_cohorts
from braindive.evaluation.comparison import compare_models
from braindive.evaluation.goodness import GoodnessOfFit, goodness_of_fit
from braindive.evaluation.group_maps import group_maps
from braindive.evaluation.groups import compare_groups
from braindive.evaluation.matching import Matching, match_clusters
from braindive.evaluation.overlap import cluster_overlap, fold_overlap
from braindive.evaluation.rivals import MeanMap
from braindive.evaluation.selection import recommend_n_clusters, select_n_clusters
from braindive.evaluation.summary import summarise_comparison
from braindive.io.adni import AdniStudy, read_adni
from braindive.io.anatomy import region_names
from braindive.io.atlas import read_atlas
from braindive.io.export import write_cohort
from braindive.io.freesurfer import read_freesurfer_table
from braindive.io.maps import write_maps
from braindive.io.packed import open_packed, pack_cohort
from braindive.io.reading import read_cohort
from braindive.io.region_tables import read_region_tables
from braindive.io.spaces import load_space
from braindive.loading import load_model
from braindive.plotting.brains import plot_clusters, plot_midpoints, plot_pathology
from braindive.plotting.choices import plot_comparison, plot_convergence, plot_selection
from braindive.plotting.effects import plot_cohorts, plot_effects
from braindive.plotting.group_maps import plot_group_maps
from braindive.plotting.people import plot_groups, plot_speed_shift, plot_stages
from braindive.plotting.scores import plot_cognition, plot_scores, plot_truth
from braindive.plotting.trajectories import plot_subjects, plot_trajectories
from braindive.report.build import Report, build_report
from braindive.simulation import Simulation, simulate_cohort
from braindive.site_tables import site_table
from braindive.space import Regions, Space, Surface, Volume
from braindive.variants import no_staging_model, roi_model

__all__ = [
    "DIVE",
    "AdniStudy",
    "Bootstrap",
    "BraindiveError",
    "BraindiveWarning",
    "ClusterError",
    "Cohort",
    "CohortComparison",
    "CohortError",
    "ConvergenceWarning",
    "DataWarning",
    "Finding",
    "Gamma",
    "GoodnessOfFit",
    "Matching",
    "MeanMap",
    "ModelFileError",
    "Normal",
    "NotFittedError",
    "ParameterError",
    "Preprocessing",
    "Priors",
    "ReadError",
    "Regions",
    "Report",
    "Simulation",
    "Space",
    "StagingWarning",
    "Surface",
    "Trajectories",
    "Volume",
    "bootstrap",
    "build_report",
    "change",
    "cluster_overlap",
    "compare_cohorts",
    "compare_groups",
    "compare_models",
    "effects_in_words",
    "fold_overlap",
    "goodness_of_fit",
    "group_maps",
    "inspect_cohort",
    "load_model",
    "load_space",
    "match_clusters",
    "no_staging_model",
    "open_packed",
    "pack_cohort",
    "plot_clusters",
    "plot_cognition",
    "plot_cohorts",
    "plot_comparison",
    "plot_convergence",
    "plot_effects",
    "plot_group_maps",
    "plot_groups",
    "plot_midpoints",
    "plot_pathology",
    "plot_scores",
    "plot_selection",
    "plot_speed_shift",
    "plot_stages",
    "plot_subjects",
    "plot_trajectories",
    "plot_truth",
    "read_adni",
    "read_atlas",
    "read_cohort",
    "read_freesurfer_table",
    "read_region_tables",
    "recommend_n_clusters",
    "region_names",
    "roi_model",
    "select_n_clusters",
    "simulate_cohort",
    "site_table",
    "summarise_comparison",
    "write_cohort",
    "write_maps",
]

__version__: str
