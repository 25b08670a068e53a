"""What users compute stays what it was, to the last digits, however the code is rearranged."""

import numpy as np
import pytest
from cases import CASES, RECORDED, arithmetic, compute

# On the arithmetic the numbers were recorded with, and on another one: other kernels add in another
# order or round exp otherwise, and an EM amplifies that by as much as its tolerance allows.
SAME, OTHER = 1e-10, 1e-5


def compare(found, recorded, tolerance):
    assert set(found) == set(recorded)
    for name, array in found.items():
        expected = recorded[name]
        assert array.shape == expected.shape, name
        assert array.dtype == expected.dtype, name
        # Relative to the array, since single entries may be 0 up to rounding; single precision
        # is held to its own last digits.
        size = max(float(np.nanmax(np.abs(expected), initial=0.0)), 1.0)
        allowed = max(tolerance, 20 * np.finfo(array.dtype).eps if array.dtype.kind == "f" else 0)
        assert np.array_equal(np.isnan(array), np.isnan(expected)), name
        away = np.nanmax(np.abs(array.astype(float) - expected), initial=0.0)
        assert away <= allowed * size, f"{name}: {away / size:.2g}"


def load(case):
    with np.load(RECORDED / f"{case}.npz") as file:
        recorded = dict(file)
    same = str(recorded.pop("arithmetic")) == arithmetic()
    return recorded, SAME if same else OTHER


@pytest.mark.parametrize("case", CASES)
def test_estimates_stay_what_they_were(case):
    compare(compute(case), *load(case))


@pytest.mark.parametrize("case", ["dense", "with_holes", "with_field_and_holes", "differing"])
def test_estimates_on_workers_are_the_same(case, two_workers):
    compare(compute(case, two_workers), *load(case))


def test_a_changed_estimate_would_be_seen():
    recorded, tolerance = load("dense")
    spoilt = dict(recorded) | {"scores_": recorded["scores_"] * (1 + 1e-8)}
    with pytest.raises(AssertionError, match="scores_"):
        compare(spoilt, recorded, tolerance if tolerance == SAME else 1e-9)
