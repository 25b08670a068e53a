"""What `summary` says about clusters."""

import numpy as np
import pandas as pd
import pytest

import braindive as bd


@pytest.fixture(scope="module")
def unfinished():
    """People of whom nobody has come to the end of the latest area."""
    return bd.simulate_cohort(
        n_subjects=80,
        n_vertices=60,
        midpoints=(-10.0, 12.0),
        mean_shift=-5.0,
        shift_sd=6.0,
        noise=0.2,
        random_state=0,
    )


@pytest.fixture(scope="module")
def model(unfinished):
    return bd.DIVE(n_clusters=2, personal=False, random_state=0).fit(unfinished.cohort)


def test_a_plateau_that_nobody_has_reached_is_marked_and_has_an_interval(model, unfinished):
    table = model.summary()
    assert table.index.tolist() == [1, 2]
    assert table["late_plateau_reached"].tolist() == [True, False]
    assert table["early_plateau_reached"].tolist() == [True, True]
    widths = table["change_high"] - table["change_low"]
    assert widths[2] > 3 * widths[1]
    true = unfinished.truth.trajectories.amplitude
    assert table["change_low"][1] < true[0] < table["change_high"][1]
    assert any("late plateau of cluster 2" in message for message in model.warnings_)


def test_the_model_itself_tells_which_plateaus_were_reached(model, tmp_path):
    np.testing.assert_array_equal(model.plateaus_reached_, [[True, True], [True, False]])
    model.save(tmp_path / "fit.dive")
    loaded = bd.load_model(tmp_path / "fit.dive")
    np.testing.assert_array_equal(loaded.plateaus_reached_, model.plateaus_reached_)


def test_a_model_that_is_not_fitted_knows_of_no_plateau():
    with pytest.raises(bd.NotFittedError, match="not fitted yet"):
        bd.DIVE().plateaus_reached_  # noqa: B018


def test_the_table_is_that_of_the_fit(model):
    table, curves = model.summary(), model.trajectories_
    for name in curves.names():
        np.testing.assert_array_equal(table[name], getattr(curves, name))
    np.testing.assert_array_equal(table["vertices"], np.bincount(model.labels_))
    np.testing.assert_array_equal(table["change"], curves.amplitude)
    np.testing.assert_array_equal(table["noise"], model.noise_)


def test_published_estimates_have_no_interval(unfinished):
    model = bd.DIVE(n_clusters=2, people="alike", personal=False, random_state=0)
    table = model.fit(unfinished.cohort).summary()
    assert table[["change_low", "change_high"]].isna().all(axis=None)
    assert table["change"].notna().all()


def test_maps_come_with_the_same_table(model, tmp_path):
    bd.write_maps(model, tmp_path)
    written = pd.read_csv(tmp_path / "trajectories.tsv", sep="\t", index_col="cluster")
    pd.testing.assert_frame_equal(written, model.summary(), check_index_type=False)
