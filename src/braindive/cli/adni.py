"""The command that makes a cohort of ADNI's files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import braindive as bd
from braindive.cli.console import messages, output, readable_notes, say
from braindive.cli.numbers import check_jobs
from braindive.cli.outputs import check_output_file
from braindive.cli.progress import count_progress
from braindive.cli.settings import FitSettings, write_settings
from braindive.cli.study import SpaceOption


def adni(
    table: Annotated[Path, typer.Argument(help="ADNIMERGE.csv, or a table with its columns.")],
    freesurfer: Annotated[
        Path, typer.Option(help="FreeSurfer's SUBJECTS_DIR with a folder for each scan.")
    ],
    to: Annotated[Path, typer.Option("--output", "-o", help="Packed cohort to write.")],
    scans: Annotated[
        Path | None,
        typer.Option(help="Table of fsid, PTID and date, where folders are not called by them."),
    ] = None,
    at_least: Annotated[
        int, typer.Option(min=1, help="Scans that a person has to have to be kept.")
    ] = 4,
    within: Annotated[float, typer.Option(help="Most days between a scan and an exam.")] = 91.0,
    measure: Annotated[str, typer.Option(help="Measure of the maps.")] = "thickness",
    fwhm: Annotated[int, typer.Option(help="Smoothing of the maps in mm.")] = 0,
    target: Annotated[
        str, typer.Option(help="Subject on whose surface the maps are.")
    ] = "fsaverage",
    space: SpaceOption = None,
    jobs: Annotated[
        int | None, typer.Option(help="Threads; all cores by default.", callback=check_jobs)
    ] = None,
) -> None:
    """Join ADNIMERGE with FreeSurfer's maps, and write a cohort and the settings of its fit.

    Scans take diagnosis, APOE and cognitive tests of the nearest exam. The settings z-score to the
    controls' first scans, drop vertices that are 0, and average the hemispheres.

    Example: braindive adni ADNIMERGE.csv --freesurfer $SUBJECTS_DIR -o adni.zarr
    """
    from braindive.io.adni import COGNITIVE_TESTS, read_adni
    from braindive.io.freesurfer import template_space

    settings = check_output_file(to.with_suffix(".json"), [table])
    study = read_adni(
        table,
        freesurfer,
        scans=scans,
        at_least=at_least,
        within=within,
        measure=measure,
        fwhm=fwhm,
        target=target,
    )
    for step in study.steps:
        say(step)
    with readable_notes(), count_progress(messages) as progress:
        bd.pack_cohort(
            study.table,
            to,
            space=space or template_space(freesurfer, target),
            root=freesurfer,
            times="years",
            n_jobs=jobs,
            progress=progress,
        )
    chosen = FitSettings(
        cohort=str(to),
        output=str(to.with_suffix(".dive")),
        standardise=True,
        reference="baseline",
        average_hemispheres=True,
        drop_zeros=True,
    )
    write_settings(chosen, settings)
    tests = ",".join(name for name in COGNITIVE_TESTS if name in study.table)
    say(f"Wrote {to}: {bd.open_packed(to)}, and {settings}")
    lines = [
        "What to run next:",
        f"  braindive compare {to} --settings {settings} --scores {tests} "
        "--atlas desikan-killiany -o comparison/",
        f"  braindive fit --settings {settings}",
    ]
    if "APOE4_carrier" in study.table:
        lines.append(f"  braindive groups {chosen.output} --by APOE4_carrier -o apoe/")
    for line in lines:
        output.print(line, markup=False, highlight=False, soft_wrap=True)
