import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_hex

import braindive as bd
from braindive.palette import cluster_colours
from braindive.plotting.trajectories import cluster_means


def test_lines_are_the_models_curves_in_the_clusters_colours(model):
    ax = bd.plot_trajectories(model)
    assert [to_hex(line.get_color()) for line in ax.lines] == cluster_colours(3)
    for k, line in enumerate(ax.lines):
        scores = line.get_xdata()
        np.testing.assert_allclose(line.get_ydata(), model.trajectories_.evaluate(scores)[:, k])
        assert scores[0] <= model.scores_.min()
        assert scores[-1] >= model.scores_.max()
    assert ax.get_xlabel() == "disease progression score (years)"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "1 (earliest)",
        "2",
        "3 (latest)",
    ]


def test_points_are_scores_and_weighted_means_of_every_visit(model, cohort):
    ax = bd.plot_trajectories(model, cohort)
    weights = model.responsibilities_
    for k, points in enumerate(ax.collections):
        scores, means = points.get_offsets().T
        np.testing.assert_allclose(scores, model.scores_)
        naive = [np.average(row, weights=weights[:, k]) for row in cohort.values]
        np.testing.assert_allclose(means, naive)


def test_cluster_means_leave_holes_and_vertices_without_cluster_out(simulation, gappy_cohort):
    labels = simulation.truth.labels.copy()
    labels[:20] = -1
    model = bd.roi_model(labels, personal=False).fit(gappy_cohort)
    means = cluster_means(model, gappy_cohort)
    for k, name in enumerate(model.cluster_names_):
        naive = np.nanmean(gappy_cohort.values[:, labels == name], axis=1)
        np.testing.assert_allclose(means[:, k], naive)


def test_new_visits_are_staged(model):
    new = bd.simulate_cohort(n_subjects=5, n_vertices=150, random_state=9).cohort
    new = bd.Cohort(new.values, subjects=[f"new-{s}" for s in new.subjects], times=new.times)
    ax = bd.plot_trajectories(model, new)
    stages = model.stage(new).loc[new.subjects]
    expected = stages["speed"].to_numpy() * new.times + stages["shift"].to_numpy()
    np.testing.assert_allclose(ax.collections[0].get_offsets()[:, 0], expected)


def test_bands_are_those_of_the_bootstrap(model):
    class Intervals:
        def bands(self, scores):
            curves = model.trajectories_.evaluate(scores)
            return curves - 0.25, curves + 0.5

    ax = bd.plot_trajectories(model, bootstrap=Intervals())
    lowest = [band.get_paths()[0].vertices[:, 1].min() for band in ax.collections]
    curves = np.stack([line.get_ydata() for line in ax.lines])
    np.testing.assert_allclose(lowest, curves.min(axis=1) - 0.25)


def test_given_axes_are_used(model):
    from matplotlib import pyplot as plt

    _, ax = plt.subplots()
    assert bd.plot_trajectories(model, ax=ax) is ax


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (
            bd.DIVE(9, n_init=1, max_iter=2, people="alike", personal=False, random_state=0),
            "cluster",
        ),
        (
            bd.roi_model(np.arange(60) % 9, max_iter=2, people="alike", personal=False),
            "rank of the region",
        ),
    ],
)
def test_many_clusters_are_named_by_a_colour_bar(model, what):
    cohort = bd.simulate_cohort(n_subjects=20, n_vertices=60, random_state=0).cohort
    with pytest.warns(bd.BraindiveWarning):
        model.fit(cohort)
    ax = bd.plot_trajectories(model)
    assert ax.get_legend() is None
    assert ax.figure.axes[1].get_ylabel() == f"{what}, from earliest to latest"


def test_values_have_the_unit_of_the_preprocessing(cohort):
    model = bd.DIVE(
        2, preprocessing=bd.Preprocessing(), n_init=1, personal=False, random_state=0
    ).fit(cohort)
    ax = bd.plot_trajectories(model, cohort)
    assert ax.get_ylabel() == "z-score"
    standard = model.preprocessing_.transform(cohort)
    means = ax.collections[0].get_offsets()[:, 1]
    np.testing.assert_allclose(means, cluster_means_by_hand(model, standard), rtol=1e-6)


def cluster_means_by_hand(model, cohort):
    weights = model.responsibilities_[:, 0]
    return (cohort.values @ weights) / weights.sum()


def test_without_staging_the_course_runs_over_years(cohort):
    model = bd.no_staging_model(n_clusters=2, n_init=1, personal=False, random_state=0).fit(cohort)
    assert bd.plot_trajectories(model).get_xlabel() == "time (years)"


def test_panels_show_the_visits_of_the_chosen_subjects(model, cohort):
    chosen = [cohort.subject_ids[7], cohort.subject_ids[2]]
    figure = bd.plot_subjects(model, cohort, subjects=chosen)
    assert [ax.get_title() for ax in figure.axes] == chosen
    for ax, subject in zip(figure.axes, chosen, strict=True):
        own = cohort.subjects == subject
        dots = [line for line in ax.lines if line.get_marker() == "o"]
        assert [to_hex(line.get_color()) for line in dots] == cluster_colours(3)
        for k, line in enumerate(dots):
            np.testing.assert_allclose(line.get_xdata(), model.scores_[own])
            np.testing.assert_allclose(line.get_ydata(), cluster_means(model, cohort)[own, k])


def test_subjects_by_default_run_from_early_to_late(model, cohort):
    titles = [ax.get_title() for ax in bd.plot_subjects(model, cohort).axes]
    scores = [model.scores_[cohort.subjects == title].mean() for title in titles]
    assert len(titles) == 4
    assert (np.diff(scores) > 0).all()


def test_an_unknown_subject_is_named(model, cohort):
    with pytest.raises(bd.BraindiveError, match="nobody"):
        bd.plot_subjects(model, cohort, subjects=["nobody"])


def test_an_unfitted_model_is_refused():
    with pytest.raises(bd.NotFittedError, match="fit"):
        bd.plot_trajectories(bd.DIVE())


def test_without_matplotlib_the_package_imports_and_figures_say_what_to_install():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import braindive as bd\n"
        "try: bd.plot_convergence(None)\n"
        "except bd.BraindiveError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "plot_convergence needs matplotlib; install it with pip install 'braindive[plot]'."
    )
