"""The page of experiment 1: how many clusters?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import braindive as bd
import published
from braindive.evaluation.selection import recommend_n_clusters, selection_table
from figures import plot_chosen_clusters
from sizes import Size
from writing import Rows, command, markdown, save, write, write_table

N_VERTICES, VISITS = 1000, 4
MANY = 10
"""From so many clusters on, neighbouring midpoints are as close as vertices of one cluster vary."""
FEWEST = 2
LABELS_COUNTED = ", labels counted"
"""Of the names of criteria that count L(K - 1) parameters more."""
WIDENED = f""" Smaller numbers from
{MANY} true clusters on were added after choices had come out at the lower end."""
KINDS = {
    "alike": "vertices of a cluster alike",
    "own": "every vertex its own",
    "people": "every vertex its own, people differ",
}
OF_THE_PAPER = ("alike", "own")
"""Kinds that the paper's cohorts may have been of."""


def choosing_page(rows: Rows, size: Size, folder: Path) -> None:
    """Experiment 1."""
    frame = pd.DataFrame(rows["more_clusters"])
    frame = frame.sort_values(["kind", "n_true", "seed", "n_clusters"], ignore_index=True)
    write_table(frame.drop(columns=["held_out_folds", "all_groups"]), folder / "choosing.tsv")
    chosen = choices(frame, size.selection_subjects)
    write_table(chosen, folder / "chosen.tsv")
    paper = {
        name: {n: both[place] for n, both in published.CHOSEN_CLUSTERS.items()}
        for place, name in enumerate(("AIC", "BIC"))
    }
    save(plot_chosen_clusters(chosen, paper, KINDS), folder / "choosing.png")
    tables = {kind: markdown(_by_truth(chosen, frame, kind)) for kind in KINDS}
    distances = distance_table(chosen)
    recommended = chosen[(chosen["criterion"] == "groups") & (chosen["n_true"] < MANY)]
    full = size.name == "full"
    seeds = ", ".join(map(str, size.selection_seeds))
    write(
        folder / "choosing-clusters.md",
        f"""# How many clusters?

Experiment 1: the basic setting with {size.selection_subjects} subjects and more clusters, their
midpoints spread evenly over the same range. Eight criteria choose from the numbers tried:

- AIC and BIC with 5K + 2S + 1 parameters, as in the paper, and n = measurements;
- the same with L(K - 1) parameters more, as the authors' fast code counts: the labels of the L
  vertices;
- BIC with n = {N_VERTICES:,} vertices, since measurements of a vertex share one label;
- the log-likelihood of unseen subjects: fitted on a random half, judged on the other, twice; the
  fewest clusters within one standard error of the best, halves compared in pairs;
- stability: the adjusted Rand index between the parcellations of the two halves; the most clusters
  within one standard error, or 0.02, of the most stable;
- groups: how many the vertices' own curves form, by the integrated likelihood of mixtures, around
  the fit with the most clusters. `recommend_n_clusters` goes by it.

Three kinds of cohorts: in one, vertices of a cluster are *alike* and follow its trajectory; in
another, that of the paper's basic setting, *every vertex has its own* steepness and midpoint
(standard deviation of the midpoint 3.4); and in the third *people differ* persistently as well, by
maps of standard deviation 0.9 in five components beside noise of 0.5, so that three quarters of the
variance of a vertex in healthy people stay. Fits of the third kind have `people="differ"`, on which
groups hang; all likelihoods are those of the EM, which knows nothing of such maps.

![Numbers chosen](choosing.png)

## Vertices of a cluster alike

{tables["alike"]}

## Every vertex its own steepness and midpoint

{tables["own"]}

## Every vertex its own, and people differ persistently

{tables["people"]}

Choices are for the seeds {seeds}, from {MANY} true clusters on for the first of them. The rules for
stability and groups were settled on other seeds before.{WIDENED if full else ""}
≥ and ≤ mark the largest and the smallest number offered: the criterion might have gone on.

## Which comes closest

Mean distance of the chosen from the true number, as a share of the true number:

{markdown(distances)}

{_verdict(distances)}

{_edges(chosen, frame)} There the distances above measure what was offered as much as the criterion,
and *closest* means little: an end of the grid that happens to lie near the truth looks good.

**Why ours differ from the paper's row.** {_why(chosen)} Which of them the paper's cohorts were
is a guess: its supplement does not say, and neither kind gives its row. What was tried: vertices
alike and not, labels counted and not, n = measurements and n = vertices, unseen subjects,
stability.

With vertices of their own, cutting a true cluster into slices of its midpoints is a real gain: with
{_small(frame)} true clusters the first one too many adds {_gain(frame, "own")} to the
log-likelihood (median), where BIC asks for {_price(size):.0f} and AIC for 5, so that no way of
counting observations would stop them. With vertices alike it adds {_gain(frame, "alike")}; below 0
means that the larger fit ended in a poorer optimum, which makes AIC and BIC look better than they
are. At 10 true clusters neighbouring midpoints are 3.9 apart while vertices of one cluster spread
by 3.4 on either side: the data then hold a continuum, not 10 groups.

**What limits this table.** Fits have two starts, a tolerance of 0.001 and 50 passes:
{_unsettled(frame)}, which choices may partly reflect. {_stability(chosen)}

## The recommendation on seeds that no rule was tried on

{markdown(_hits(recommended))}

{_where_people_differ(recommended)}

{command(size, "choosing-clusters")}

On your own cohort: `braindive select study.zarr -k 2-8 -o selection/`.
""",
    )


def choices(frame: pd.DataFrame, n_subjects: int) -> pd.DataFrame:
    """What every criterion chooses, one row for each choice."""
    found = []
    for (kind, n_true, seed), part in frame.groupby(["kind", "n_true", "seed"]):
        columns = part.set_index("n_clusters").drop(columns=["kind", "n_true", "seed"])
        table = selection_table(columns.to_dict("index"))
        per_cluster = bd.Trajectories.n_parameters() + 1  # of the curve, and the noise
        n_parameters = per_cluster * table.index + 2 * n_subjects + 1
        by_vertex = n_parameters * np.log(N_VERTICES) - 2 * table["log_likelihood"]
        labels = N_VERTICES * (table.index.to_numpy() - 1)
        n_measured = N_VERTICES * VISITS * n_subjects
        groups = _with_groups(table.drop(columns="all_groups"), table["all_groups"].iloc[-1])
        chosen = {
            "AIC": table["aic"].idxmin(),
            "BIC": table["bic"].idxmin(),
            "AIC, labels counted": (table["aic"] + 2 * labels).idxmin(),
            "BIC, labels counted": (table["bic"] + np.log(n_measured) * labels).idxmin(),
            "BIC, n = vertices": by_vertex.idxmin(),
            "unseen subjects": recommend_n_clusters(table.drop(columns="rand")).n_clusters,
            "stability": most_stable(table),
            "groups": recommend_n_clusters(groups).n_clusters,
        }
        found += [
            {"kind": kind, "n_true": n_true, "seed": seed, "criterion": name, "chosen": int(n)}
            for name, n in chosen.items()
        ]
    return pd.DataFrame(found)


def most_stable(table: pd.DataFrame) -> int:
    """Largest number whose parcellations agree between halves as well as the most stable do.

    Within its standard error, or 0.02.
    """
    rands = table["rand"].to_numpy(float)
    best = int(np.nanargmax(rands))
    slack = max(float(np.nan_to_num(table["rand_se"].to_numpy(float)[best])), 0.02)
    return int(table.index[np.flatnonzero(rands >= rands[best] - slack).max()])


def _with_groups(table: pd.DataFrame, groups: dict[str, list[float]]) -> pd.DataFrame:
    """Table with the groups of the vertices' own curves around the fit with the most clusters."""
    gains, distinct = zip(*(groups[str(number)] for number in table.index), strict=True)
    return table.assign(groups_gain=gains, groups=np.array(distinct, dtype=int))


def distance_table(chosen: pd.DataFrame) -> pd.DataFrame:
    """Mean relative distance from the truth, by criterion, kind of cohort and size."""
    parts = {}
    for kind, words in KINDS.items():
        for many, numbers in ((False, f"below {MANY}"), (True, f"{MANY} and more")):
            part = chosen[(chosen["kind"] == kind) & ((chosen["n_true"] >= MANY) == many)]
            if len(part):
                off = (part["chosen"] - part["n_true"]).abs() / part["n_true"]
                parts[f"{words}, {numbers}"] = off.groupby(part["criterion"], sort=False).mean()
    return pd.DataFrame(parts).rename_axis("criterion")


def _by_truth(chosen: pd.DataFrame, frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    tried = frame[frame["kind"] == kind].groupby("n_true")["n_clusters"].unique()
    part = chosen[chosen["kind"] == kind]
    part = part.assign(
        cell=[
            f"{_edge(n, tried[n_true])}{n}"
            for n, n_true in zip(part["chosen"], part["n_true"], strict=True)
        ]
    )
    table = part.pivot_table(
        index="n_true",
        columns="criterion",
        values="cell",
        aggfunc=lambda numbers: " ".join(str(n) for n in numbers),
        sort=False,
    ).sort_index()
    for place, name in enumerate(("AIC", "BIC")):
        table[f"paper: {name}"] = [published.CHOSEN_CLUSTERS[int(n)][place] for n in table.index]
    table["tried"] = [" ".join(str(n) for n in sorted(tried[n])) for n in table.index]
    return table.rename_axis("true clusters").rename_axis(columns=None)


def _edge(chosen: int, tried: np.ndarray) -> str:
    """Mark a choice beyond which nothing was offered, though there was room."""
    if chosen == tried.max():
        return "≥"
    return "≤" if chosen == tried.min() > FEWEST else ""


def _verdict(distances: pd.DataFrame) -> str:
    closest = [
        f"{kind}: **{' and '.join(column.index[column <= column.min() + 1e-9])}** "
        f"({column.min():.0%})"
        for kind, column in distances.items()
    ]
    return "Closest: " + "; ".join(closest) + "."


def _edges(chosen: pd.DataFrame, frame: pd.DataFrame) -> str:
    """How often each criterion goes to an end of what was offered."""
    tried = frame.groupby(["kind", "n_true", "seed"])["n_clusters"].unique()
    marks = [
        _edge(row["chosen"], tried[row["kind"], row["n_true"], row["seed"]])
        for _, row in chosen.iterrows()
    ]
    own = chosen.assign(mark=marks)[chosen["kind"] == "own"]
    lines = []
    for mark, end in (("≥", "largest"), ("≤", "smallest")):
        counts = (own["mark"] == mark).groupby(own["criterion"], sort=False).agg(["sum", "count"])
        listed = ", ".join(
            f"{name} in {row['sum']} of {row['count']}" for name, row in counts.iterrows()
        )
        lines.append(f"the {end} number offered is chosen by {listed}")
    return f"With vertices of their own, {'; '.join(lines)} cohorts."


def _stability(chosen: pd.DataFrame) -> str:
    """Which way stability errs."""
    part = chosen[chosen["criterion"] == "stability"]
    off = np.sign(part["chosen"] - part["n_true"])
    return (
        f"Stability chooses too few clusters in {(off < 0).sum()} of {len(part)} cohorts and too "
        f"many in {(off > 0).sum()}: it errs where neighbouring clusters overlap."
    )


def _unsettled(frame: pd.DataFrame) -> str:
    """How many of the numbers were judged by fits that did not all converge."""
    stopped = ~frame["converged"].astype(bool)
    many = frame["n_true"] >= MANY
    return (
        f"{stopped.sum()} of {len(frame)} numbers ({stopped[many].sum()} of {many.sum()} from "
        f"{MANY} true clusters on) were judged with a fit that stopped at its 50th pass"
    )


def _why(chosen: pd.DataFrame) -> str:
    """Whether the paper's row looks like cohorts with alike vertices, from our choices."""
    lines = []
    for kind in OF_THE_PAPER:
        off = []
        for counted in ("", LABELS_COUNTED):
            for place, name in enumerate(("AIC", "BIC")):
                part = chosen[(chosen["kind"] == kind) & (chosen["criterion"] == name + counted)]
                means = part.groupby("n_true")["chosen"].mean()
                paper = {n: published.CHOSEN_CLUSTERS[int(n)][place] for n in means.index}
                off.append(float(((means - pd.Series(paper)).abs() / pd.Series(paper)).mean()))
        lines.append(
            f"{off[0]:.0%} (AIC) and {off[1]:.0%} (BIC) with {KINDS[kind]}, {off[2]:.0%} and "
            f"{off[3]:.0%} where labels are counted as the authors' fast code does"
        )
    return f"Our choices lie from the paper's on average {'; '.join(lines)}."


def _small(frame: pd.DataFrame) -> str:
    small = sorted(n for n in frame["n_true"].unique() if n < MANY)
    return " or ".join(str(n) for n in small)


def _gain(frame: pd.DataFrame, kind: str) -> str:
    """Log-likelihood that the first cluster too many adds."""
    part = frame[(frame["kind"] == kind) & (frame["n_true"] < MANY)]
    gains = []
    for (n_true, _), rows in part.groupby(["n_true", "seed"]):
        value = rows.set_index("n_clusters")["log_likelihood"]
        gains.append(value[n_true + 1] - value[n_true])
    return f"{np.median(gains):,.0f}"


def _price(size: Size) -> float:
    """Log-likelihood that BIC asks for one more cluster: four visits of every subject."""
    return 2.5 * float(np.log(4 * size.selection_subjects * N_VERTICES))


def _where_people_differ(recommended: pd.DataFrame) -> str:
    """How often the recommendation is right where people differ, and beside it where not."""
    shares = {}
    for name, part in recommended.groupby(recommended["kind"] == "people"):
        right = part["chosen"] == part["n_true"]
        shares[name] = f"{right.sum()} of {len(part)}"
    return (
        f"Where people differ persistently it is right in {shares[True]} cohorts, and else in "
        f"{shares[False]}. Vertices go together by people's own maps as well, which no criterion "
        "here takes off: with such cohorts, take the number as a question of how fine a "
        "parcellation is wanted, and look at what stays the same in halves of the people."
    )


def _hits(recommended: pd.DataFrame) -> pd.DataFrame:
    groups = recommended.groupby(["kind", "n_true"], sort=False)
    rows = [
        {
            "cohorts": KINDS[kind],
            "true clusters": n_true,
            "recommended": " ".join(str(n) for n in part["chosen"]),
            "right": f"{(part['chosen'] == n_true).sum()} of {len(part)}",
        }
        for (kind, n_true), part in groups
    ]
    return pd.DataFrame(rows).set_index("cohorts")
