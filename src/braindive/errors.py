"""What braindive raises and warns with."""


class BraindiveError(Exception):
    """Base of every error that braindive raises on purpose."""


class CohortError(BraindiveError, ValueError):
    """The measurements, times, subjects, controls or graph of a cohort cannot be used."""


class ParameterError(BraindiveError, ValueError):
    """A parameter of the model or of a function has a value it cannot have."""


class ModelFileError(BraindiveError, ValueError):
    """A file does not hold a fitted model, is damaged, or comes from a newer version."""


class ReadError(BraindiveError, OSError):
    """Values could not be read from where they are kept."""


class ClusterError(BraindiveError, RuntimeError):
    """A cluster of machines could not do the work."""


class NotFittedError(BraindiveError, AttributeError):
    """A fitted model is needed, and `fit` has not been called."""


class BraindiveWarning(UserWarning):
    """Base of every warning that braindive gives."""


class ConvergenceWarning(BraindiveWarning):
    """The fit ended before its tolerance was met."""


class DataWarning(BraindiveWarning):
    """The data allow a fit, but not everything that was asked of it."""


class StagingWarning(DataWarning):
    """Scores or speeds are in doubt, whatever is to be said of the clusters."""
