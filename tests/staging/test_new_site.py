"""Newton's steps by which a new site is learnt; the rest is in `tests/test_sites.py`."""

import numpy as np
import pytest

from braindive.staging import new_site
from braindive.staging.new_site import newton


def roots(start):
    """Climb minus a sum of (1 + x^2)^(1/2): beyond 1, whole steps go from x to -x^3."""
    return newton(
        lambda at: (-float(np.sum(np.sqrt(1 + at**2))), None),
        lambda at, _: -at / np.sqrt(1 + at**2),
        lambda at, _: np.diag((1 + at**2) ** -1.5),
        np.array(start),
    )


@pytest.mark.parametrize("start", [[0.5, -0.2], [3.0, -1.5], [-20.0, 7.0]])
def test_steps_that_lead_too_far_are_halved(start):
    found, covariance, converged = roots(start)
    assert converged
    np.testing.assert_allclose(found, 0.0, atol=1e-3)
    np.testing.assert_allclose(covariance, np.eye(2), atol=1e-3)


def test_what_has_no_optimum_is_said_not_to_have_converged(monkeypatch):
    slope = np.array([1.0])
    _, _, converged = newton(
        lambda at: (float(slope @ at), None),
        lambda at, _: slope,
        lambda at, _: np.eye(1),
        np.zeros(1),
    )
    assert not converged
    # Whole steps alone go further and further.
    monkeypatch.setattr(new_site, "_MOST_HALVES", 1)
    assert not roots([3.0, -1.5])[2]
