"""What a fit is given: measurements of subjects at visits, checked, looked over and prepared."""

from braindive.cohort.cohort import Cohort

__all__ = ["Cohort"]
