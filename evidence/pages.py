"""Pages of docs/evidence: what was done, figures, tables, the paper's numbers, the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

import published
from braindive.estimator import DIVE
from braindive.plotting.people import plot_groups
from braindive.simulation import simulate_cohort
from figures import plot_areas, plot_p_values, plot_recovery
from sizes import Size
from writing import Rows, command, markdown, save, write, write_table


def simulations_page(rows: Rows, size: Size, folder: Path) -> None:
    """Experiments 2, 3 and 4."""
    closer = pd.DataFrame(rows["closer_trajectories"])
    fewer = pd.DataFrame(rows["fewer_subjects"])
    areas = pd.DataFrame(rows["contiguous_areas"])
    save(plot_recovery(closer, fewer, published.AGREEMENT), folder / "simulations.png")
    save(plot_areas(areas), folder / "areas.png")
    tables, above = [], []
    for frame, step, title in (
        (closer, "spacing", "closer trajectories"),
        (fewer, "n_subjects", "fewer subjects"),
    ):
        write_table(frame, folder / f"{title.replace(' ', '-')}.tsv")
        table = _recovery_table(frame, step)
        table.insert(0, "paper", [published.AGREEMENT[title].get(x, np.nan) for x in table.index])
        tables.append(markdown(table))
        above += [
            f"{table.index.name} {step:g} ({row['paper']:.3f} against {row['ceiling']:.3f})"
            for step, row in table[table["paper"] > table["ceiling"]].iterrows()
        ]
    write_table(areas, folder / "areas.tsv")
    areas["field"] = areas["spatial"].fillna("none")
    cortex = areas.groupby(["smoothing", "field"])[
        ["agreement", "ceiling", "correlation", "strength"]
    ].mean()
    worst = (
        pd.concat([closer.groupby("spacing").mean(), fewer.groupby("n_subjects").mean()])
        .eval("ceiling - agreement")
        .max()
    )
    write(
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

The paper's numbers are read off its plots, to about 0.01, and come from other draws. Above the
ceiling of our data lie: {", ".join(above) or "none"}. That says something about reading plots and
about draws, and nothing about the method.

## Contiguous areas on a real cortex (experiment 4, not in the paper)

The left hemisphere of fsaverage5, five clusters in 25 contiguous patches, 40 subjects, noise of
standard deviation 3 that is averaged over neighbours in 0 to {max(size.smoothings)} rounds and
then rescaled. With the Markov random field (`auto`) and without. The ceiling knows nothing of
neighbours, and the field can pass it.

![Agreement on the cortex](areas.png)

{markdown(cortex)}

{command(size, "simulations")}
""",
    )


def groups_page(rows: Rows, size: Size, folder: Path) -> None:
    """False and true positives of the group test."""
    frame = pd.DataFrame(rows["group_test"])
    write_table(frame, folder / "groups.tsv")
    save(plot_p_values(frame), folder / "groups.png")
    example = simulate_cohort(
        **size.group_cohorts[1], group_effect=0.8, control_share=0.3, random_state=0
    )
    save(
        plot_groups(DIVE(personal=False, random_state=0).fit(example.cohort), "apoe4"),
        folder / "carriers.png",
    )
    null, planted = frame[frame["effect"] == 0], frame[frame["effect"] > 0]
    false_positives = _by_cohort(null, _false_positives)
    found = _by_cohort(planted, _power)
    rates = null.groupby(["n_vertices", "personal_offset", "parameter"])["p_value"].apply(
        lambda p: (p < 0.05).mean()
    )
    of_speed = (planted["parameter"] == "speed") & (planted["personal_offset"] == 0)
    speed = planted[of_speed].groupby("n_vertices")
    reliability = speed["correlation"].mean() ** 2
    few, many = reliability.index.min(), reliability.index.max()
    power = speed["p_value"].apply(lambda p: (p < 0.05).mean())
    ceiling = speed["true_p_value"].apply(lambda p: (p < 0.05).mean())
    write(
        folder / "groups.md",
        f"""# Groups: carriers of a risk gene and others

Simulated cohorts, two fifths of each carriers, fitted one by one; carriers and others are then
compared in shift, speed and baseline score. Without a planted effect p-values have to be uniform;
with one of {planted["effect"].iloc[0]} standard deviations in shifts and in log speeds it has to be
found as often as the data allow. Where there is a *personal offset*, people differ persistently by
maps of that standard deviation, and noise is half as large. The tests here are those of estimated
stages after the fit, `compare_groups(..., test="stages")`; those inside the model, which
`compare_groups` does by default, are measured on [another page](../effects.md).

![p-values without an effect](groups.png)

*Share of cohorts without an effect whose p-value (rank test) is below each level; all sizes.*

## No effect planted

{markdown(false_positives)}

Between {rates.min():.1%} and {rates.max():.1%} of the cohorts have a p-value below 5 %.

## An effect planted

{markdown(found)}

*With true values* is the same test on the true shifts and speeds: the power that perfect estimates
would have. *Reliability* is the squared correlation, within groups, of estimated with true values:
the share of the variance of the estimates that is not noise.

**Speeds need data.** With {few} vertices and three visits a year apart the reliability of a speed
is {reliability[few]:.2f}, and an effect on speeds is found in {power[few]:.0%} of the cohorts where
true speeds would show it in {ceiling[few]:.0%}. With {many:,} vertices, five
visits and 150 subjects the reliability is {reliability[many]:.2f}, and the effect is found in
{power[many]:.0%} ({ceiling[many]:.0%} with true speeds). A missing effect on speed in a small study
says little; one on shifts or baseline scores says more.

One cohort with 150 subjects, as `plot_groups` draws it:

![Carriers and others](carriers.png)

## The paper's, in ADNI

Higher shifts, speeds and baseline scores in APOE4 carriers (p < 0.013). ADNI may not be
redistributed; these are simulated cohorts.

{command(size, "groups")}

On your own fit: `braindive groups fit.dive --by apoe4 -o groups/`, with the figure of the three
parameters as in the supplement.
""",
    )


def _by_cohort(
    frame: pd.DataFrame, describe: Callable[[pd.DataFrame], dict[str, str]]
) -> pd.DataFrame:
    """One row for each kind of cohort and parameter."""
    sizes = ["n_subjects", "n_visits", "n_vertices", "personal_offset"]
    lines = [
        dict(zip([*sizes, "parameter"], key, strict=True)) | {"cohorts": len(part)} | describe(part)
        for key, part in frame.groupby([*sizes, "parameter"], sort=False)
    ]
    return pd.DataFrame(lines).set_index("n_subjects")


def _false_positives(part: pd.DataFrame) -> dict[str, str]:
    return {
        "p < 0.05, rank test": f"{(part['p_value'] < 0.05).mean():.1%}",
        "p < 0.05, t-test": f"{(part['mean_p_value'] < 0.05).mean():.1%}",
        "uniform (KS p)": f"{stats.kstest(part['p_value'], 'uniform').pvalue:.2f}",
        "mean effect found (d)": f"{part['effect_size'].mean():.2f}",
    }


def _power(part: pd.DataFrame) -> dict[str, str]:
    return {
        "p < 0.05, rank test": f"{(part['p_value'] < 0.05).mean():.0%}",
        "p < 0.05, t-test": f"{(part['mean_p_value'] < 0.05).mean():.0%}",
        "with true values": f"{(part['true_p_value'] < 0.05).mean():.0%}",
        "reliability": f"{part['correlation'].mean() ** 2:.2f}",
        "mean effect found (d)": f"{part['effect_size'].mean():.2f}",
    }


def index_page(folder: Path) -> None:
    """Where everything is."""
    write(
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

`make paper` writes these pages at a reduced size, in minutes; `make paper FULL=--full` at the
paper's, in about an hour. What is running and how long it may take is shown on the way.
Interrupted, even killed, the same command goes on where it was: every repeat, fold and number of
clusters is kept as soon as it is done. The same seeds give the same tables with any number of
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
