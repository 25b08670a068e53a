"""Pages of docs/evidence: what was done, figures, tables, the paper's numbers, the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from scipy import stats

from braindive.evaluation import published
from braindive.evaluation.overlap import overlap_table
from braindive.evaluation.summary import comparison_table, summarise_comparison
from braindive.plotting.choices import plot_comparison
from braindive.plotting.evidence import plot_areas, plot_p_values, plot_recovery
from sizes import Size

Rows = dict[str, list[dict[str, Any]]]


def simulations_page(rows: Rows, size: Size, folder: Path) -> None:
    """Experiments 2, 3 and 4."""
    closer = pd.DataFrame(rows["closer_trajectories"])
    fewer = pd.DataFrame(rows["fewer_subjects"])
    areas = pd.DataFrame(rows["contiguous_areas"])
    _save(plot_recovery(closer, fewer, published.AGREEMENT), folder / "simulations.png")
    _save(plot_areas(areas), folder / "areas.png")
    tables = []
    for frame, step, title in (
        (closer, "spacing", "closer trajectories"),
        (fewer, "n_subjects", "fewer subjects"),
    ):
        frame.to_csv(folder / f"{title.replace(' ', '-')}.tsv", sep="\t", index=False)
        table = _recovery_table(frame, step)
        table.insert(0, "paper", [published.AGREEMENT[title].get(x, np.nan) for x in table.index])
        tables.append(_markdown(table))
    areas.to_csv(folder / "areas.tsv", sep="\t", index=False)
    areas["field"] = areas["spatial"].fillna("none")
    cortex = areas.groupby(["smoothing", "field"])[
        ["agreement", "ceiling", "correlation", "strength"]
    ].mean()
    worst = (
        pd.concat([closer.groupby("spacing").mean(), fewer.groupby("n_subjects").mean()])
        .eval("ceiling - agreement")
        .max()
    )
    _write(
        folder / "simulations.md",
        f"""# Simulations: closer trajectories, fewer subjects, a real cortex

Cohorts are drawn from the paper's basic setting: 300 subjects seen yearly four times, 1,000
vertices dealt at random to three clusters, every vertex with its own steepness and midpoint,
noise of standard deviation 1. Agreement is the mean probability that vertices give to their true
cluster. The *ceiling* is what the E-step reaches that is told the true trajectories, scores and
residual variances, on the same data: no fit can be expected to lie above it. Errors are sums of
squared differences after the affine freedom of the score is removed by least squares; for
trajectories they are of midpoints, as in the supplement.

![Errors and agreement](simulations.png)

*A, B: error in scores and midpoints with closer trajectories. C, D: the same with fewer subjects.
E, F: agreement, its ceiling and the paper's numbers. {size.repeats} repeats; bars are one standard
deviation. With fewer subjects the sum over visits has fewer terms: see the error per visit below.*

The largest distance of the mean agreement from the mean ceiling is {worst:.3f}.

## Closer trajectories (experiment 2)

Step: distance of neighbouring midpoints as a share of the range of the scores.

{tables[0]}

## Fewer subjects (experiment 3)

{tables[1]}

The paper's numbers are read off its plots, to about 0.01, and come from other draws. Where they
lie above the ceiling of our data, they say so much about reading plots and about draws, and
nothing about the method.

## Contiguous areas on a real cortex (experiment 4, not in the paper)

The left hemisphere of fsaverage5, five clusters in 25 contiguous patches, 40 subjects, noise of
standard deviation 3 that is averaged over neighbours in 0 to {max(size.smoothings)} rounds and
then rescaled. With the Markov random field (`auto`) and without. The ceiling knows nothing of
neighbours, and the field can pass it.

![Agreement on the cortex](areas.png)

{_markdown(cortex)}

{_command(size, "simulations")}
""",
    )


def comparison_page(rows: Rows, size: Size, folder: Path) -> None:
    """The model comparison on the cohort with ADNI's shape, and the overlap across folds."""
    frame = pd.DataFrame(rows["adni_fold"])
    labels = frame[frame["measure"] == "labels"]
    frame = frame[frame["measure"] != "labels"].astype({"value": float})
    frame.to_csv(folder / "comparison.tsv", sep="\t", index=False)
    _save(plot_comparison(frame), folder / "comparison.png")
    summary = summarise_comparison(frame)
    ours = comparison_table(summary)
    paper = pd.DataFrame(published.COMPARISON, index=ours.columns).T
    paper.index.name = "model"
    p_values = summary[summary["model"] != "DIVE"].pivot_table(
        index="model", columns="measure", values="p_value"
    )[list(ours.columns)]
    dice = overlap_table([np.array(found) for found in labels["value"]])
    dice.insert(0, "paper", list(published.FOLD_DICE))
    dice.index += 1
    _write(
        folder / "comparison.md",
        f"""# Model comparison and robustness

{size.folds}-fold cross-validation by subject. Correlation (Spearman) of the test subjects' disease
progression score with each cognitive score at the same visit, oriented by the training subjects;
and root mean squared error of predicting the test subjects' later scans at every vertex from their
first two.

**What is simulated.** Everything: ADNI may not be redistributed. The cohort has ADNI's shape
({size.cohort_subjects} subjects of its 454, 4.3 visits each, {size.space}), three true areas in 15
contiguous patches, values in units of the controls' spread, spatially smooth noise, ages that say
nothing about the stage, and cognitive scores that are bounded, noisy, one tenth missing and
monotone in the true stage. The atlas has 34 contiguous regions for each hemisphere, drawn without
regard to the true areas. The order of models is thus a property of the method under these
assumptions; the size of the correlations is a property of the noise we chose.

![Every fold](comparison.png)

## Ours, simulated

{_markdown(ours)}

Mean ± standard deviation over folds; * differs from DIVE at 5 % in the corrected resampled t-test
of Nadeau and Bengio (2003), not corrected for the number of tests. P-values:

{_markdown(p_values, digits=4)}

The *mean map* takes the mean over all vertices as the stage and the last scan as the prediction.

## The paper's, in ADNI

{_markdown(paper)}

The paper also reports a correlation of about 0.40 for mean thickness, above DIVE.

## Overlap of DIVE's clusters across folds

Dice overlap over all pairs of folds, after matching.

{_markdown(dice)}

{_command(size, "comparison")}

On your own cohort: `braindive compare study.zarr --atlas regions.annot --scores MMSE,CDRSOB -o
comparison/`.
""",
    )


def groups_page(rows: Rows, size: Size, folder: Path) -> None:
    """False and true positives of the group test."""
    frame = pd.DataFrame(rows["group_test"])
    frame.to_csv(folder / "groups.tsv", sep="\t", index=False)
    _save(plot_p_values(frame), folder / "groups.png")
    lines = []
    for (effect, parameter), part in frame.groupby(["effect", "parameter"], sort=False):
        p_values = part["p_value"]
        lines.append(
            {
                "planted effect (sd)": effect,
                "parameter": parameter,
                "cohorts": len(part),
                "p < 0.05, rank test": f"{(p_values < 0.05).mean():.1%}",
                "p < 0.05, t-test": f"{(part['mean_p_value'] < 0.05).mean():.1%}",
                "uniform (KS p)": f"{stats.kstest(p_values, 'uniform').pvalue:.2f}"
                if effect == 0
                else "",
                "mean effect found (d)": f"{part['effect_size'].mean():.2f}",
            }
        )
    table = pd.DataFrame(lines).set_index("planted effect (sd)")
    _write(
        folder / "groups.md",
        f"""# Groups: carriers of a risk gene and others

Cohorts of 60 subjects with three visits, two fifths of them carriers, fitted one by one; carriers
and others are then compared in shift, speed and baseline score. Without a planted effect p-values
have to be uniform; with one of 0.8 standard deviations in shifts and in log speeds it has to be
found. Speeds from three visits a year apart are mostly noise, which is why their effect is found
less often.

![p-values without an effect](groups.png)

{_markdown(table)}

In ADNI the paper finds higher shifts, speeds and baseline scores in APOE4 carriers (p < 0.013).

{_command(size, "groups")}

On your own fit: `braindive groups fit.dive --by apoe4 -o groups/`.
""",
    )


def choosing_page(rows: Rows, size: Size, folder: Path) -> None:
    """Experiment 1."""
    frame = pd.DataFrame(rows["more_clusters"])
    frame.drop(columns="candidates").to_csv(folder / "choosing.tsv", sep="\t", index=False)
    choices = [f"{name}_choice" for name in ("aic", "bic", "held_out", "stability")]
    table = frame.groupby("n_true")[choices].median()
    names = {
        "aic_choice": "AIC",
        "bic_choice": "BIC",
        "held_out_choice": "unseen subjects",
        "stability_choice": "stability",
    }
    table = table.rename(columns=names).rename_axis("true clusters")
    off = {name: float((table[name] - table.index).abs().mean()) for name in table}
    closest = min(off, key=lambda name: off[name])
    first, second = zip(*(published.CHOSEN_CLUSTERS[int(n)] for n in table.index), strict=True)
    table["paper: AIC"], table["paper: BIC"] = first, second
    tried = frame.groupby("n_true")["n_clusters"].unique()
    table["tried"] = [f"{min(tried[n])} to {max(tried[n])}" for n in table.index]
    figure, axes = plt.subplots(
        1, len(table), figsize=(2.4 * len(table), 2.4), layout="constrained", squeeze=False
    )
    for ax, n_true in zip(axes[0], table.index, strict=True):
        part = frame[frame["n_true"] == n_true].groupby("n_clusters")["rand"].mean()
        ax.plot(part.index, part, "o-", color="#0072B2")
        ax.axvline(n_true, color="#666666", linestyle=":")
        ax.set(title=f"{n_true} true clusters", xlabel="clusters", ylim=(0, 1.05))
    axes[0, 0].set_ylabel("adjusted Rand of halves")
    _save(figure, folder / "choosing.png")
    listed = ", ".join(f"{name} {value:.1f}" for name, value in off.items())
    _write(
        folder / "choosing-clusters.md",
        f"""# How many clusters?

Experiment 1: the basic setting with {size.selection_subjects} subjects and more clusters, their
midpoints spread evenly over the same range. Four criteria choose from the numbers tried: AIC and
BIC; the log-likelihood of unseen subjects ({size.splits} folds, fewest clusters within one
standard error of the best); and stability, the adjusted Rand index between parcellations of two
random halves of the subjects ({size.resamples} times; most clusters within one standard error of
the most stable).

![Stability](choosing.png)

{_markdown(table, digits=0)}

Mean distance from the truth: {listed}. Closest: **{closest}**.

Every vertex has its own midpoint and steepness here, as in the paper, so that a likelihood, of the
same or of unseen subjects, goes on rising when a true cluster is cut into slices; AIC and BIC then
choose the largest number that is offered, and so do unseen subjects. What is cut anew in every
half of the subjects is not stable, and stability stops. From about ten clusters on, neighbouring
midpoints are closer than vertices of one cluster differ, and no criterion can be expected to find
the number. `recommend_n_clusters` therefore goes by stability and says how well halves agree.

{_command(size, "choosing-clusters")}

On your own cohort: `braindive select study.zarr -k 2-8 -o selection/`.
""",
    )


def index_page(size: Size, folder: Path) -> None:
    """Where everything is."""
    _write(
        folder / "index.md",
        """# Evidence

Every experiment of the DIVE paper, rerun by one command on simulated cohorts, with the paper's
numbers beside ours.

- [Simulations](simulations.md): closer trajectories, fewer subjects, a real cortex
- [How many clusters?](choosing-clusters.md)
- [Model comparison and robustness](comparison.md)
- [Groups](groups.md)

```{toctree}
:hidden:

simulations
choosing-clusters
comparison
groups
```

`make paper` writes these pages at a reduced size; `make paper FULL=--full` at the paper's.
Interrupted, it goes on where it was. The same seeds give the same tables with any number of
workers.
""",
    )


def _recovery_table(frame: pd.DataFrame, step: str) -> pd.DataFrame:
    columns = [
        "agreement",
        "ceiling",
        "score_error",
        "score_error_per_visit",
        "midpoint_error",
        "correlation",
    ]
    table = frame.groupby(step)[columns].mean().sort_index(ascending=False)
    table.insert(2, "below ceiling", table["ceiling"] - table["agreement"])
    return table


def _markdown(table: pd.DataFrame, digits: int = 3) -> str:
    """A table in Markdown, its index first."""
    flat = table.reset_index()
    lines = [list(map(str, flat.columns)), ["---"] * len(flat.columns)]
    lines += [[_cell(value, digits) for value in row] for row in flat.itertuples(index=False)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: Any, digits: int) -> str:
    if isinstance(value, float):
        return (
            "" if np.isnan(value) else f"{value:.{digits}f}" if abs(value) < 100 else f"{value:.0f}"
        )
    return str(value)


def _command(size: Size, page: str) -> str:
    full = " --full" if size.name == "full" else ""
    return (
        f"Made at {size.name} size by `python evidence/run.py --output docs/evidence --only "
        f"{page}{full}`."
    )


def _save(drawn: Any, path: Path) -> None:
    figure = drawn.figure if isinstance(drawn, Axes) else drawn
    figure.savefig(path, dpi=130, metadata={"Software": None})
    plt.close(figure)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
