"""Coverage of 95 % intervals on simulated cohorts: scores of subjects, and trajectories.

    python benchmarks/uncertainty.py people --seeds 10 --jobs 2
    python benchmarks/uncertainty.py scores --seeds 12 --jobs 2
    python benchmarks/uncertainty.py cohorts --seeds 200
    python benchmarks/uncertainty.py bands --seeds 5 --jobs 2
    python benchmarks/uncertainty.py curves --seeds 12
    python benchmarks/uncertainty.py midpoints --seeds 6 --jobs 2
    python benchmarks/uncertainty.py unlike --seeds 4 --first-seed 21

Scores are compared with the truth in the same unit: years since the earliest cluster, the mean of
its vertices, is half-way, in which the training subjects who are no controls move by one a year on
average. In
`people` patients count; in `scores` subjects whose true baseline score lies on the informative
part of the curves (-20 to 25, where some curve is steep). `cohorts` has the settings of both, with
many cohorts of cluster means alone, to which the marginal fit is told the clusters and where to
start: errors of the origin and of the unit are common to all of a cohort, so that few cohorts say
little.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import braindive as bd
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Priors
from braindive.dive.problem import Parameters
from braindive.fitted import timeline_of
from braindive.staging.covariance import CorrelatedStageProblem, Covariance
from braindive.staging.curve_uncertainty import sensitivities, unit_of_years
from braindive.staging.expected_information import known_information
from braindive.staging.marginal_fit import fit_marginal
from braindive.staging.marginal_stager import MarginalStager, place_subjects
from braindive.staging.population import Population, StagePrior, groups_of
from cluster_means import Setting, all_settings, draw_means, halfway
from cohorts import beyond, unlike

_INFORMATIVE = (-20.0, 25.0)


def true_years(truth: bd.simulation.Truth, training: np.ndarray) -> np.ndarray:
    """True baseline scores in the model's unit; `training` says whose mean speed is 1."""
    first = truth.vertices[truth.labels == np.argmin(truth.trajectories.midpoint)]
    origin, usual = halfway(first.steepness, first.midpoint), truth.speeds[training].mean()
    return np.asarray((truth.shifts - origin) / usual)


def cover_scores(n_subjects: int, seed: int, **settings: Any) -> list[float]:
    """Coverage, error and mean standard error for training subjects, then for new ones."""
    simulation = bd.simulate_cohort(n_subjects=2 * n_subjects, random_state=seed, **settings)
    ids, truth = list(simulation.cohort.subject_ids), simulation.truth
    train = simulation.cohort.select(subjects=ids[:n_subjects])
    model = bd.DIVE(n_clusters=3, personal=False, random_state=0).fit(train)
    years = true_years(truth, np.arange(2 * n_subjects) < n_subjects)
    informative = (truth.shifts > _INFORMATIVE[0]) & (truth.shifts < _INFORMATIVE[1])
    found: list[float] = []
    for some in (slice(0, n_subjects), slice(n_subjects, None)):
        stages = model.stage(simulation.cohort.select(subjects=ids[some]))
        inside = informative[some]
        errors = (stages["score"].to_numpy() - years[some])[inside]
        reach = stages["score_se"].to_numpy()[inside]
        found += [
            float(np.mean(np.abs(errors) < 1.96 * reach)),
            float(np.sqrt(np.mean(errors**2))),
            float(np.sqrt(np.mean(reach**2))),
        ]
    return found


def know_people(off: float, seed: int) -> list[float]:
    """Correlations of scores and speeds of patients with the truth, coverage, and amplitudes."""
    # Twice as many people as are fitted; every second one is new.
    simulation = beyond(off, seed, n_subjects=400)
    cohort, truth = simulation.cohort, simulation.truth
    ids, is_control = np.array(cohort.subject_ids), cohort.controls[::4]
    training = np.arange(len(ids)) % 2 == 0
    train, new = (cohort.select(subjects=list(ids[some])) for some in (training, ~training))
    patients = ~is_control[training]
    shifts, speeds = truth.shifts[training][patients], truth.speeds[training][patients]
    years = true_years(truth, training & ~is_control)
    model = bd.DIVE(n_clusters=4, personal=False, random_state=0).fit(train)
    published = bd.DIVE(n_clusters=4, people="alike", personal=False, random_state=0).fit(train)
    mean_map = -np.asarray(train.values[::4]).mean(axis=1)
    oracle = know_all(train, truth, training, is_control[training])
    found = [np.corrcoef(mean_map[patients], shifts)[0, 1]]
    for score, speed in (
        (published.scores_[::4], published.speeds_),
        (model.scores_[::4], model.speeds_),
        oracle,
    ):
        found.append(np.corrcoef(score[patients], shifts)[0, 1])
        found.append(np.corrcoef(speed[patients], speeds)[0, 1])
    for part, some in ((train, training), (new, ~training)):
        stages = model.stage(part)
        chosen = ~is_control[some]
        errors = (stages["score"].to_numpy() - years[some])[chosen]
        found.append(np.mean(np.abs(errors) < 1.96 * stages["score_se"].to_numpy()[chosen]))
    found.append(np.abs(model.trajectories_.amplitude).max() / 2)
    found.append(bd.match_clusters(model, truth.labels).agreement)
    return [float(x) for x in found]


def know_all(
    cohort: bd.Cohort, truth: bd.simulation.Truth, chosen: np.ndarray, is_control: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Baseline scores and speeds with the true curves, covariances and population."""
    timeline = timeline_of(cohort)
    sizes = np.bincount(truth.labels)
    means = np.asarray(cohort.values, dtype=float) @ np.eye(len(sizes))[truth.labels] / sizes
    curves, unit = truth.trajectories, timeline.unit
    scores = truth.scores[np.repeat(chosen, 4)]
    residuals = means - curves.evaluate(scores)
    averages = residuals.reshape(-1, 4, len(sizes)).mean(axis=1)
    away = residuals - np.repeat(averages, 4, axis=0)
    within = away.T @ away / (3 * len(averages))
    between = averages.T @ averages / len(averages) - within / 4
    between += 1e-6 * np.eye(len(sizes))
    groups = np.where(is_control, 0, 1)
    shifts, speeds = truth.shifts[chosen] + 1.5 * truth.speeds[chosen], truth.speeds[chosen]
    own = [groups == group for group in (0, 1)]
    population = Population(
        np.array([shifts[some].mean() for some in own]),
        np.array([shifts[some].std() for some in own]),
        np.array([np.log(speeds[some] * unit).mean() for some in own]),
        np.array([np.log(speeds[some]).std() for some in own]),
        np.array([some.mean() for some in own]),
    )
    weights = np.broadcast_to(sizes.astype(float), means.shape)
    problem = CorrelatedStageProblem(
        PooledMeans(means, weights, np.zeros(len(sizes))),
        timeline,
        curves,
        np.ones(len(sizes)),
        StagePrior(population, groups),
        Covariance(within, between, sizes.astype(float)),
    )
    placed = place_subjects(problem, shifts)
    first = timeline.scores(placed.speeds, placed.shifts)[timeline.starts]
    return first, placed.speeds


def people(arguments: argparse.Namespace) -> None:
    print(f"{arguments.seeds} seeds from {arguments.first_seed}; patients only")
    print(
        "| maps, sd | mean map | published: score | speed | DIVE: score | speed | oracle: score "
        "| speed | training | new | worst below oracle: score | speed | beats mean map "
        "| largest amplitude / truth | agreement |"
    )
    print("|" + "---|" * 15)
    for off in (0.0, 0.45, 0.9, 1.3):
        rows = np.array(over_seeds(arguments, know_people, off))
        mean = rows.mean(axis=0)
        cells = [f"{x:.3f}" for x in mean[:7]] + [f"{x:.1%}" for x in mean[7:9]]
        cells += [f"{x:.3f}" for x in (rows[:, 5] - rows[:, 3]).max(keepdims=True)]
        cells += [f"{x:.3f}" for x in (rows[:, 6] - rows[:, 4]).max(keepdims=True)]
        cells += [f"{np.sum(rows[:, 3] > rows[:, 0])} of {len(rows)}"]
        cells += [f"{rows[:, 9].max():.2f}", f"{mean[10]:.3f}"]
        print("| " + " | ".join([str(off), *cells]) + " |", flush=True)


def scores(arguments: argparse.Namespace) -> None:
    print(
        f"{arguments.subjects} training and as many new subjects, "
        f"{arguments.seeds} cohorts a row, seeds from {arguments.first_seed}"
    )
    print(
        "| noise | vertices | they differ | offsets | train | error | SE | new | error | SE "
        "| standard error of train and new |"
    )
    print("|" + "---|" * 11)
    alike = {"steepness_variation": 0.0, "midpoint_variation": 0.0}
    cases: list[tuple[str, str, str, dict[str, Any]]] = []
    for smoothing in (0, 3, 10, 30):
        noise = f"smooth, {smoothing} rounds" if smoothing else "independent"
        surface = {"space": "fsaverage5-left", "noise_smoothing": smoothing, "dtype": "float32"}
        cases.append((noise, "no", "none", surface | alike))
        cases.append((noise, "yes", "none", surface))
    cases.append(("independent", "no", "none", {"n_vertices": 1000} | alike))
    cases.append(("independent", "yes", "none", {"n_vertices": 1000}))
    shared = {"n_vertices": 1000, "personal_offset": 0.3, "personal_components": 5}
    cases.append(("independent", "yes", "0.3, 5 maps", shared))
    for number, (noise, differ, offsets, settings) in enumerate(cases):
        vertices = "10,242" if "space" in settings else "1,000"
        if arguments.only not in f"{noise}, {vertices}":
            continue
        # No two rows share their people: they would be high or low together.
        before = number * arguments.seeds
        rows = np.array(
            over_seeds(arguments, cover_scores, arguments.subjects, before=before, **settings)
        )
        row = rows.mean(axis=0)
        cells = [f"{x:.1%}" if i % 3 == 0 else f"{x:.2f}" for i, x in enumerate(row)]
        errors = rows[:, [0, 3]].std(axis=0, ddof=1) / np.sqrt(len(rows))
        cells.append(" and ".join(f"{x:.1%}" for x in errors))
        print("| " + " | ".join([noise, vertices, differ, offsets, *cells]) + " |", flush=True)


def cover_cohort(seed: int, setting: Setting) -> list[float]:
    """Coverage in training and new subjects, by the curvature alone too, and the common error.

    The common error is that of the mean of the scores of new subjects, in its standard errors.
    """
    drawn = draw_means(setting, seed)
    is_new = np.arange(2 * setting.n_training) >= setting.n_training
    speeds, shifts, ill = drawn.people.speeds, drawn.people.shifts, ~drawn.people.controls
    years = (shifts - drawn.curves.midpoint.min()) / speeds[~is_new & ill].mean()
    counted = ill & (shifts > setting.counted[0]) & (shifts < setting.counted[1])
    pooled, timeline, controls = drawn.part(~is_new)
    noise = np.full(len(drawn.curves), setting.noise)
    start = Parameters(
        drawn.curves,
        noise,
        speeds[~is_new] * timeline.unit,
        shifts[~is_new] + speeds[~is_new] * timeline.centres,
    )
    fit = fit_marginal(pooled, timeline, start, Priors(), controls).refined(pooled, noise)
    unit = unit_of_years(fit.climb.problem, fit.climb.evaluation.posterior)
    stager = MarginalStager.of(fit, unit)
    known = stager.curve_uncertainty
    jacobian = fit.packing.parameter_jacobian(fit.climb.problem)
    curved = np.linalg.solve(known_information(fit.climb, fit.packing), jacobian.T)
    by_curvature = replace(stager, curve_uncertainty=replace(known, covariance=jacobian @ curved))
    found: list[float] = []
    for some in (~is_new, is_new):
        pooled, timeline, controls = drawn.part(some)
        sums, groups = pooled.means * pooled.weights, groups_of(timeline, controls)
        placed = stager.place(timeline, sums, pooled.weights, groups)
        first = timeline.scores(placed.speeds, placed.shifts)[timeline.starts]
        scores, inside = (first - unit.centre) / unit.spread, counted[some]
        errors = (scores - years[some])[inside]
        for one in (stager, by_curvature):
            reach = one.errors(placed)[inside, 2] / unit.spread
            found.append(float(np.mean(np.abs(errors) < 1.96 * reach)))
    by_speed, by_shift = sensitivities(placed.problem, placed.posterior)
    moves = timeline.times[timeline.starts][:, None] * by_speed + by_shift - known.centre
    move = ((moves - np.outer(scores, known.spread)) / unit.spread)[inside].mean(axis=0)
    own = placed.posterior.standard_errors(timeline)[inside, 2] / unit.spread
    beside = known.unit_variance * scores[inside].mean() ** 2 + np.sum(own**2) / len(own) ** 2
    for one in (stager, by_curvature):
        variance = known.inflation * (move @ one.curve_uncertainty.covariance @ move) + beside
        found.append(float(errors.mean() / np.sqrt(variance)))
    return found


def cohorts(arguments: argparse.Namespace) -> None:
    print(f"{arguments.seeds} cohorts a row, seeds from {arguments.first_seed}")
    print(
        "| cohort | training | new | standard error of both | by the curvature: training | new "
        "| common error: mean | sd | beyond 1.96 | by the curvature: sd | beyond 1.96 |"
    )
    print("|" + "---|" * 11)
    for setting in all_settings():
        if arguments.only not in setting.name:
            continue
        rows = np.array(over_seeds(arguments, cover_cohort, setting=setting))
        mean, common = rows.mean(axis=0), rows[:, 4:]
        error = rows[:, [0, 2]].std(axis=0, ddof=1).mean() / np.sqrt(len(rows))
        beyond = np.mean(np.abs(common) > 1.96, axis=0)
        sds = common.std(axis=0, ddof=1)
        cells = [f"{x:.1%}" for x in (mean[0], mean[2], error, mean[1], mean[3])]
        cells += [f"{common[:, 0].mean():.2f}", f"{sds[0]:.2f}", f"{beyond[0]:.1%}"]
        cells += [f"{sds[1]:.2f}", f"{beyond[1]:.1%}"]
        print("| " + " | ".join([setting.name, *cells]) + " |", flush=True)


def cover_bands(n_subjects: int, resamples: int, seed: int, **settings: Any) -> list[float]:
    """Share of the true curves inside the bands, and inside bands a third as wide.

    The true curve of a cluster is the mean of its vertices' curves. It is put on the model's scale
    by the standard major axis between true and estimated scores of the visits.
    """
    simulation = bd.simulate_cohort(n_subjects=n_subjects, random_state=seed, **settings)
    truth = simulation.truth
    model = bd.DIVE(n_clusters=3, random_state=0).fit(simulation.cohort)
    slope = truth.scores.std() / model.scores_.std()
    origin = truth.scores.mean() - slope * model.scores_.mean()
    grid = np.linspace(-18, 22, 41)
    lower, upper = bd.bootstrap(model, simulation.cohort, n=resamples).bands(
        (grid - origin) / slope
    )
    of_vertices = truth.vertices.evaluate(grid)
    true = np.stack([of_vertices[:, truth.labels == k].mean(axis=1) for k in range(3)], axis=1)
    away = np.abs(true - (lower + upper) / 2) / ((upper - lower) / 2)
    return [float(np.mean(away < 1)), float(np.mean(away < 1 / 3))]


def bands(arguments: argparse.Namespace) -> None:
    print(
        f"{arguments.resamples} resamples of {arguments.subjects} subjects, "
        f"{arguments.seeds} seeds from {arguments.first_seed}"
    )
    print("| noise | vertices | they differ | 95 % bands | a third as wide |")
    print("|---|---|---|---|---|")
    alike = {"steepness_variation": 0.0, "midpoint_variation": 0.0}
    surface = {"space": "fsaverage5-left", "dtype": "float32"}
    cases: list[tuple[str, str, str, dict[str, Any]]] = [
        ("1, independent", "600", "no", alike | {"n_vertices": 600}),
        ("0.5, independent", "600", "no", alike | {"n_vertices": 600, "noise": 0.5}),
        ("1, independent", "600", "yes", {"n_vertices": 600}),
        ("1, smooth, 3 rounds", "10,242", "no", alike | surface | {"noise_smoothing": 3}),
        ("1, smooth, 10 rounds", "10,242", "no", alike | surface | {"noise_smoothing": 10}),
    ]
    for noise, vertices, differ, settings in cases:
        size = arguments.subjects, arguments.resamples
        rows = over_seeds(arguments, cover_bands, *size, **settings)
        cells = [f"{x:.1%}" for x in np.mean(rows, axis=0)]
        print("| " + " | ".join([noise, vertices, differ, *cells]) + " |", flush=True)


def cover_curves(n_subjects: int, seed: int, **settings: Any) -> list[float]:
    """Share of the true curves within 1.96 of `trajectory_errors`, and within a third of that.

    At the scores of the visits, from the fifth to the ninety-fifth percentile. The true curve of a
    cluster is the mean of its vertices' curves, in the model's unit: years at the mean speed of
    those who are no controls, from where the earliest true curve is half-way.
    """
    simulation = bd.simulate_cohort(n_subjects=n_subjects, random_state=seed, **settings)
    cohort, truth = simulation.cohort, simulation.truth
    model = bd.DIVE(n_clusters=3, personal=False, random_state=0).fit(cohort)
    ill = np.ones(n_subjects, dtype=bool)
    if cohort.controls is not None:
        ill = ~np.isin(cohort.subject_ids, cohort.subjects[cohort.controls])
    scores = np.quantile(model.scores_, np.linspace(0.05, 0.95, 41))
    internal = truth.trajectories.midpoint.min() + truth.speeds[ill].mean() * scores
    of_vertices = truth.vertices.evaluate(internal)
    true = np.stack([of_vertices[:, truth.labels == k].mean(axis=1) for k in range(3)], axis=1)
    order = bd.match_clusters(model, truth.labels).permutation
    found = model.trajectories_.evaluate(scores)[:, order]
    away = np.abs(found - true) / (1.96 * model.trajectory_errors(scores)[:, order])
    return [float(np.mean(away < 1)), float(np.mean(away < 1 / 3))]


def curves(arguments: argparse.Namespace) -> None:
    """Print the coverage of the bands that a fit itself gives, and of bands a third as wide."""
    print(f"{arguments.subjects} subjects, {arguments.seeds} seeds from {arguments.first_seed}")
    print("| vertices differ | offsets | covered | a third as wide |")
    print("|---|---|---|---|")
    alike = {"steepness_variation": 0.0, "midpoint_variation": 0.0}
    shared = {"personal_offset": 0.3, "personal_components": 5}
    for differ, offsets, settings in (
        ("no", "none", alike),
        ("yes", "none", {}),
        ("yes", "0.3, 5 maps", shared),
    ):
        more = {"n_vertices": 300, "control_share": 0.3} | settings
        row = np.mean(over_seeds(arguments, cover_curves, arguments.subjects, **more), axis=0)
        print(f"| {differ} | {offsets} | {row[0]:.1%} | {row[1]:.1%} |", flush=True)


def cover_midpoints(n_subjects: int, seed: int, **settings: Any) -> list[float]:
    """Midpoints of vertices: correlation with the truth, of the cluster's alone, and coverage.

    Once more where origin and unit are not those of the fit, but fitted to the true scores.
    """
    simulation = bd.simulate_cohort(n_subjects=n_subjects, random_state=seed, **settings)
    truth = simulation.truth
    n_clusters = len(truth.trajectories)
    model = bd.DIVE(n_clusters, personal=False, random_state=0).fit(simulation.cohort)
    origin, usual = truth.trajectories.midpoint.min(), truth.speeds.mean()
    years = (truth.vertices.midpoint - origin) / usual
    errors = model.vertex_midpoints_ - years
    unit, shift = np.polyfit(model.scores_, (truth.scores - origin) / usual, 1)
    told = unit * model.vertex_midpoints_ + shift - years
    return [
        float(np.corrcoef(model.vertex_midpoints_, years)[0, 1]),
        float(np.corrcoef(model.trajectories_.midpoint[model.labels_], years)[0, 1]),
        float(np.mean(np.abs(errors) < 1.96 * model.vertex_midpoints_se_)),
        float(np.sqrt(np.mean(errors**2))),
        float(np.sqrt(np.mean(model.vertex_midpoints_se_**2))),
        float(np.mean(np.abs(told) < 1.96 * model.vertex_midpoints_se_)),
        float(np.sqrt(np.mean(told**2))),
    ]


def midpoints(arguments: argparse.Namespace) -> None:
    print(
        f"{arguments.subjects} subjects, {arguments.seeds} seeds from {arguments.first_seed}: "
        "midpoints of vertices in years"
    )
    print(
        "| cohort | correlation | by the cluster alone | covered (least, most) | error | SE "
        "| origin and unit told: covered | error |"
    )
    print("|---|---|---|---|---|---|---|---|")
    surface = {"space": "fsaverage5-left", "dtype": "float32", "noise": 0.5}
    lasting = {"personal_offset": 0.5, "personal_smoothing": 20, "noise_smoothing": 3}
    cases: list[tuple[str, dict[str, Any]]] = [
        ("1,000 vertices, basic setting", {}),
        ("the same, a tenth missing", {"missing": 0.1}),
        ("10,242 vertices on a cortex", surface),
        ("the same, people and noise smooth", surface | lasting),
    ]
    for name, settings in cases:
        rows = np.array(over_seeds(arguments, cover_midpoints, arguments.subjects, **settings))
        row, least, most = rows.mean(axis=0), rows[:, 2].min(), rows[:, 2].max()
        cells = [f"{x:.3f}" for x in row[:2]]
        cells += [f"{row[2]:.1%} ({least:.0%}, {most:.0%})", f"{row[3]:.2f}", f"{row[4]:.2f}"]
        cells += [f"{row[5]:.1%}", f"{row[6]:.2f}"]
        print("| " + " | ".join([name, *cells]) + " |", flush=True)


def cover_unlike(seed: int) -> list[float]:
    """Patients' baseline scores in a cohort of `unlike`, after an affine match with the truth."""
    study = unlike(seed)
    cohort = study.cohort
    model = bd.DIVE(n_clusters=4, personal=False, random_state=0).fit(cohort)
    stages = model.stage(cohort)
    ill = ~np.isin(cohort.subject_ids, cohort.subjects[cohort.controls])
    score, reach = (stages[name].to_numpy()[ill] for name in ("score", "score_se"))
    true = study.shifts[ill]
    slope, origin = np.polyfit(score, true, 1)
    errors, reach = slope * score + origin - true, np.abs(slope) * reach
    return [
        float(np.mean(np.abs(errors) < 1.96 * reach)),
        float(np.sqrt(np.mean(errors**2))),
        float(np.sqrt(np.mean(reach**2))),
        float(np.median(np.abs(errors))),
        float(np.median(reach)),
        float(np.corrcoef(score, true)[0, 1]),
        float(np.corrcoef(stages["speed"].to_numpy()[ill], study.speeds[ill])[0, 1]),
    ]


def unlike_cohorts(arguments: argparse.Namespace) -> None:
    print("| seed | covered | error | SE | median error | median SE | score | speed |")
    print("|---|---|---|---|---|---|---|---|")
    for i, row in enumerate(over_seeds(arguments, cover_unlike)):
        cells = [f"{row[0]:.1%}"] + [f"{x:.2f}" for x in row[1:5]] + [f"{x:.3f}" for x in row[5:]]
        print("| " + " | ".join([str(arguments.first_seed + i), *cells]) + " |", flush=True)


def over_seeds(
    arguments: argparse.Namespace,
    study: Callable[..., list[float]],
    *size: float,
    before: int = 0,
    **settings: Any,
) -> list[list[float]]:
    """Call with every seed, in processes that keep quiet; `before` are the seeds of other rows."""
    first = arguments.first_seed + before
    calls = (
        delayed(quietly)(study, *size, seed, **settings)
        for seed in range(first, first + arguments.seeds)
    )
    return list(Parallel(arguments.jobs)(calls))


def quietly(study: Callable[..., list[float]], *size: float, **settings: Any) -> list[float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.BraindiveWarning)
        return study(*size, **settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    studies = {
        "people": people,
        "scores": scores,
        "cohorts": cohorts,
        "bands": bands,
        "curves": curves,
        "midpoints": midpoints,
        "unlike": unlike_cohorts,
    }
    parser.add_argument("study", choices=list(studies))
    parser.add_argument("--subjects", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--resamples", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--only", default="", help="rows of `cohorts` and `scores` whose name holds this"
    )
    arguments = parser.parse_args()
    studies[arguments.study](arguments)


if __name__ == "__main__":
    main()
