"""The page of the model comparison, and the overlap of clusters across folds."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
import pandas as pd

import published
from adni import PEOPLE, STAGE, TRUTH
from braindive.evaluation.overlap import overlap_table
from braindive.evaluation.summary import comparison_table, summarise_comparison
from braindive.plotting.choices import plot_comparison
from braindive.simulation.cognition import TESTS
from sizes import Size
from writing import Rows, command, markdown, save, write, write_table


def comparison_page(rows: Rows, size: Size, folder: Path) -> None:
    """The model comparison on cohorts with ADNI's shape, and the overlap across folds."""
    frame = pd.DataFrame(rows["adni_fold"])
    alike, differ = (
        _comparison(frame[frame["people"] == people], folder / f"comparison-{people}.png")
        for people in PEOPLE
    )
    measured = frame[frame["measure"] != "labels"]
    write_table(measured, folder / "comparison.tsv")
    paper = pd.DataFrame(published.COMPARISON, index=[*TESTS, "RMSE"]).T
    paper.index.name = "model"
    write(
        folder / "comparison.md",
        f"""# Model comparison and robustness

{size.folds}-fold cross-validation by subject. Correlation of the test subjects' disease progression
score with each cognitive score at the same visit, oriented by the training subjects; and root mean
squared error of predicting the test subjects' later scans at every vertex from their first two, by
the trajectories alone as in the paper. *{STAGE}* is the correlation with the true stage, which no
real cohort knows: cognitive scores are so noisy that they hardly tell good stages from fair ones.

**What is simulated.** Everything: ADNI may not be redistributed. The cohorts have ADNI's shape
({size.cohort_subjects} subjects of its 454, 4.3 visits each, {size.space}), three true areas in 15
contiguous patches, values in units of the controls' spread, spatially smooth noise, ages that say
nothing about the stage, and cognitive scores that are bounded, noisy, one tenth missing and
monotone in the true stage. The atlas has 34 contiguous regions for each hemisphere, drawn without
regard to the true areas. In one cohort *people are alike* but for disease and noise, as the paper's
model has it; in the other *people differ*: most of the spread of healthy people is smooth maps
that they keep, and controls stand before the disease and move slowly. The order of models is thus a
property of the method under these assumptions; the size of the correlations is a property of the
noise we chose.

**The models.** *DIVE* and *ROI-based* as they are by default (`people="differ"`), *published* ones
with `people="alike"`: the stages of the EM. The *mean map* takes the mean over all vertices as the
stage and the last scan as the prediction.

## People differ

![Every fold](comparison-differ.png)

{differ}

## People are alike

![Every fold](comparison-alike.png)

{alike}

## The paper's, in ADNI

{markdown(paper)}

The paper also reports a correlation of about 0.40 for mean thickness, above DIVE.

{_like_adni(measured)}

{command(size, "comparison")}

On your own cohort: `braindive compare study.zarr --atlas regions.annot --scores MMSE,CDRSOB -o
comparison/`.
""",
    )


def _comparison(frame: pd.DataFrame, figure: Path) -> str:
    """Tables of one cohort."""
    labels = frame[frame["measure"] == "labels"]
    frame = frame[frame["measure"] != "labels"].astype({"value": float})
    truth = frame[frame["model"] == TRUTH].groupby("measure", sort=False)["value"].mean()
    frame = frame[frame["model"] != TRUTH]
    save(plot_comparison(frame), figure)
    summary = summarise_comparison(frame)
    by_pearson = frame[frame["measure"] != "RMSE"].assign(value=frame["pearson"])
    rivals = summary[summary["model"] != "DIVE"].assign(
        cell=lambda rows: [
            f"{difference:+.4f} (p = {p_value:.2g})"
            for difference, p_value in zip(rows["difference"], rows["p_value"], strict=True)
        ]
    )
    differences = rivals.pivot_table(
        index="model", columns="measure", values="cell", aggfunc="first", sort=False
    )
    dice = pd.DataFrame({"paper": published.FOLD_DICE})
    for model, part in labels.groupby("model", sort=False):
        overlaps = overlap_table([np.array(found) for found in part["value"]])
        dice[model], dice[f"{model}, least"] = overlaps["dice"].array, overlaps["dice_min"].array
    dice.index = pd.Index(dice.index + 1, name="cluster")
    return f"""Spearman's correlation, and the error:

{markdown(comparison_table(summary))}

Pearson's correlation:

{markdown(comparison_table(summarise_comparison(by_pearson)))}

Mean ± standard deviation over folds; * differs from DIVE at 5 % in the corrected resampled t-test
of Nadeau and Bengio (2003), not corrected for the number of tests. Differences from DIVE
(Spearman's), with their p-values:

{markdown(differences)}

{_staging_verdict(summary, truth)}

Dice overlap of the clusters over all pairs of folds, after matching:

{markdown(dice)}"""


def _like_adni(frame: pd.DataFrame) -> str:
    """Whether the mean of the map beats published DIVE, as in ADNI, and what DIVE makes of it."""
    correlations = frame[frame["measure"].isin(TESTS)]
    means = correlations.groupby(["people", "model"])["value"].mean()
    lines = []
    for people in PEOPLE:
        published_dive, mean_map, dive, truth = (
            means[people, model] for model in ("published DIVE", "mean map", "DIVE", TRUTH)
        )
        relation = "above" if mean_map > published_dive else "below"
        lines.append(
            f"where people {'are alike' if people == 'alike' else people}, the mean of the map "
            f"({mean_map:.3f}) lies {relation} published DIVE ({published_dive:.3f}), DIVE at "
            f"{dive:.3f}, and the true stage would reach {truth:.3f}"
        )
    of_stage = frame[frame["measure"] == STAGE].groupby(["people", "model"])["pearson"].mean()
    listed = ", ".join(
        f"{model} {of_stage['differ', model]:.3f}"
        for model in ("mean map", "published DIVE", "DIVE")
    )
    text = (
        f"Averaged over the four scores: {'; '.join(lines)}. With the true stage itself, where "
        f"people differ, they correlate (Pearson) by: {listed}."
    )
    return "\n".join(textwrap.wrap(text, 98))


def _staging_verdict(summary: pd.DataFrame, truth: pd.Series) -> str:
    """How the stagings stand to each other and to a perfect one."""
    listed = ", ".join(f"{name} {value:.2f}" for name, value in truth.items())
    text = (
        f"The true stage itself would correlate by {listed}: no staging can be expected above it."
    )
    correlations = summary[summary["measure"].isin(truth.index)]
    below = truth.loc[correlations["measure"]].to_numpy() - correlations["mean"]
    gaps = below.groupby(correlations["model"], sort=False).max()
    perfect = gaps.index[gaps < 0.01]
    if len(perfect):
        text += (
            f" Within 0.01 of it with every score: {', '.join(perfect)}. Stages are easy to tell "
            "in this cohort; what sets models that reach the ceiling apart is their prediction."
        )
    ahead = correlations[(correlations["difference"] > 0) & correlations["differs"]]
    for _, row in ahead.iterrows():
        text += (
            f" With {row['measure']}, {row['model']} is ahead of DIVE by {row['difference']:.4f}, "
            f"{row['difference'] / row['sd']:.0%} of the spread over folds, and starred all the "
            "same: folds differ far more than models do."
        )
    return "\n".join(textwrap.wrap(text, 98))
