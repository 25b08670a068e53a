"""The command that shows everything at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from rich.table import Table

import braindive as bd
from braindive.cli.console import messages, output
from braindive.cli.demo_disease import demo_cortex, demo_stages
from braindive.cli.numbers import check_seed
from braindive.cli.outputs import check_output_folder
from braindive.cli.using import with_diagnosis
from braindive.io.written_tables import write_table
from braindive.progress import fit_progress


def demo(
    folder: Annotated[Path, typer.Argument(help="Folder for the outputs.")] = Path("demo"),
    seed: Annotated[
        int, typer.Option(help="Seed of the simulation and of the fit.", callback=check_seed)
    ] = 0,
) -> None:
    """Simulate a disease on a real cortex, fit DIVE, compare with the truth, and report.

    Example: braindive demo demo/
    """
    check_output_folder(folder)
    output.print("Simulating 100 people, seen yearly four times, on the fsaverage5 cortex ...")
    space = demo_cortex()
    simulation = bd.simulate_cohort(
        n_subjects=100,
        midpoints=(-1.0, -0.2, 0.6, 1.4),
        slope=-1.6,
        amplitude=-4.0,
        noise=3.0,
        shift_sd=1.0,
        mean_speed=0.2,
        midpoint_variation=0.116,
        space=space,
        labels=demo_stages(space),
        control_share=0.3,
        cognition=True,
        group_effect=0.5,
        dtype="float32",
        random_state=seed,
    )
    cohort, truth = simulation.cohort, simulation.truth
    output.print(f"{cohort}: {cohort.values.nbytes / 1e6:.0f} MB")

    with fit_progress(messages) as callback:
        model = bd.DIVE(n_clusters=4, random_state=seed).fit(cohort, callback=callback)

    matching = bd.match_clusters(model, truth.labels)
    # True curves in the model's score: years at the mean speed of those who are no controls, from
    # where the earliest cluster is half-way.
    healthy = set(cohort.subjects[cohort.controls].tolist())
    ill = np.array([subject not in healthy for subject in cohort.subject_ids.tolist()])
    onset, speed = truth.trajectories.midpoint.min(), truth.speeds[ill].mean()
    true_curves = truth.trajectories.rescored(float(onset), float(speed))
    found = model.trajectories_
    curves = pd.DataFrame({"cluster": np.arange(1, len(found) + 1)})
    curves["midpoint_true"] = true_curves.midpoint
    curves["midpoint_found"] = found.midpoint[matching.permutation]
    curves["amplitude_true"] = true_curves.amplitude
    curves["amplitude_found"] = found.amplitude[matching.permutation]
    curves["vertices_true"] = np.bincount(truth.labels)
    sizes = np.bincount(model.labels_, minlength=len(found))
    curves["vertices_found"] = sizes[matching.permutation]

    table = Table(title="Recovered against true")
    for column in curves.columns:
        table.add_column(column.replace("_", "\n"), justify="right")
    for row in curves.itertuples(index=False):
        table.add_row(*(f"{x:.2f}" if isinstance(x, float) else str(x) for x in row))
    output.print(table)
    output.print(f"agreement of clusters with the truth  {matching.agreement:.3f}")
    output.print(f"correlation of scores with the truth  {_r(model.scores_, truth.scores):.3f}")
    output.print(f"correlation of speeds with the truth  {_r(model.speeds_, truth.speeds):.3f}")
    output.print(
        f"spatial strength {model.spatial_strength_:.1f}; {model.stop_reason_} after "
        f"{model.n_iter_} iterations"
    )

    subjects = model.stage(cohort)
    subjects["true_speed"], subjects["true_shift"] = truth.speeds, truth.shifts
    write_table(with_diagnosis(subjects, cohort), folder / "subjects.tsv")
    write_table(curves, folder / "trajectories.tsv", index=False)
    clusters = pd.DataFrame({"true_cluster": truth.labels + 1, "cluster": model.labels_ + 1})
    clusters.to_csv(folder / "clusters.tsv", sep="\t", index_label="vertex")
    model.save(folder / "fit.dive")
    report = bd.build_report(model, measure="made-up thickness").save(folder / "report.html")
    output.print(
        f"Wrote subjects.tsv, trajectories.tsv, clusters.tsv and fit.dive into {folder}/",
        markup=False,
    )
    output.print(f"Now open the report:  {_opener()} {report}", markup=False)


def _opener() -> str:
    """Return the command that opens a file on this machine."""
    return {"darwin": "open", "win32": "start"}.get(sys.platform, "xdg-open")


def _r(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(x, y)[0, 1])
