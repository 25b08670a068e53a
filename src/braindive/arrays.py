"""The array type that the model's functions take and return."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
IntArray = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]
