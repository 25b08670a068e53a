"""Commands around a study's files: simulate, check, pack."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

import braindive as bd
from braindive.cli.console import (
    end_interrupted,
    messages,
    output,
    print_json,
    readable_notes,
    say,
)
from braindive.cli.inputs import join_regions, open_cohort
from braindive.cli.numbers import check_jobs, check_seed
from braindive.cli.outputs import OverwriteOption, check_output_folder
from braindive.cli.progress import count_progress
from braindive.cli.table_options import TableOptions, reads_table
from braindive.io.outputs import replace_file
from braindive.io.scratch import unfinished

SpaceOption = Annotated[
    str | None, typer.Option(help="fsaverage5, a folder or file of a surface, or a mask.")
]

RegionsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--regions",
        help="Table of aparcstats2table or asegstats2table for the visits; again for each further "
        "one, such as the right hemisphere's.",
        metavar="FILE",
        show_default=False,
    ),
]


def simulate(
    folder: Annotated[Path, typer.Argument(help="Folder to write the study into.")],
    space: SpaceOption = None,
    subjects: Annotated[int, typer.Option(min=1, help="Number of people.")] = 50,
    visits: Annotated[int, typer.Option(min=1, help="Yearly visits of each.")] = 3,
    format: Annotated[  # noqa: A002
        str, typer.Option(help="freesurfer, gifti, nifti or table.")
    ] = "freesurfer",
    vertices: Annotated[int, typer.Option(min=1, help="Vertices where there is no space.")] = 1000,
    control_share: Annotated[float, typer.Option(help="Share of healthy controls.")] = 0.3,
    mislabelled: Annotated[
        float, typer.Option(help="Share of the controls who progress like patients.")
    ] = 0.0,
    personal_offset: Annotated[
        float, typer.Option(help="Standard deviation over people of their persistent differences.")
    ] = 0.0,
    personal_smoothing: Annotated[
        int, typer.Option(help="Rounds of neighbour averaging of these differences.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="Seed.", callback=check_seed)] = 0,
    overwrite: OverwriteOption = False,
    layout: Annotated[
        str,
        typer.Option(
            help="maps for a table and a file for each scan; or on fsaverage5: freesurfer for a "
            "subjects folder, regions for FreeSurfer's tables of regions, adni for ADNIMERGE.csv "
            "and a subjects folder."
        ),
    ] = "maps",
) -> None:
    """Simulate a study: a table of scans, one file per scan, and the truth behind them.

    Example: braindive simulate study/ --space fsaverage5 --subjects 50 --visits 3 --seed 1
    """
    from braindive.simulation.layouts import (
        LAYOUTS,
        write_adni,
        write_region_tables,
        write_subjects,
    )

    if layout not in LAYOUTS:
        raise bd.ParameterError(f"--layout is {', '.join(LAYOUTS)}; got {layout!r}.")
    space = space if layout == "maps" else space or "fsaverage5"
    check_output_folder(folder, files=[LAYOUTS[layout]], overwrite=overwrite)
    simulation = bd.simulate_cohort(
        n_subjects=subjects,
        n_visits=visits,
        n_vertices=vertices,
        space=space,
        control_share=control_share,
        mislabelled=mislabelled,
        personal_offset=personal_offset,
        personal_smoothing=personal_smoothing,
        cognition=True,
        demographics=True,
        group_effect=0.5,
        dtype="float32",
        random_state=seed,
    )
    if layout == "regions":
        table = write_region_tables(simulation.cohort, folder)[0]
    elif layout == "freesurfer":
        table = write_subjects(simulation.cohort, folder)[0]
    elif layout == "adni":
        table = write_adni(simulation.cohort, folder, seed)[0]
    else:
        with count_progress(messages) as progress:
            table = bd.write_cohort(simulation.cohort, folder, format, progress=progress)
    truth = simulation.truth
    ids = simulation.cohort.subject_ids
    people = pd.DataFrame({"participant_id": ids, "speed": truth.speeds, "shift": truth.shifts})
    if mislabelled:
        people["mislabelled"] = truth.mislabelled.astype(int)
    with replace_file(folder / "truth_subjects.tsv") as temporary:
        people.to_csv(temporary, sep="\t", index=False)
    clusters = pd.DataFrame({"cluster": truth.labels + 1})
    with replace_file(folder / "truth_clusters.tsv") as temporary:
        clusters.to_csv(temporary, sep="\t", index_label="vertex")
    say(f"Wrote {table}: {simulation.cohort}")


@reads_table
def check(
    cohort: Annotated[Path, typer.Argument(help="Table of scans, or packed cohort.")],
    space: SpaceOption = None,
    regions: RegionsOption = None,
    json: Annotated[bool, typer.Option("--json", help="Output for machines.")] = False,
    *,
    table: TableOptions,
) -> None:
    """Look a cohort over before anyone waits for a fit.

    Example: braindive check study/cohort.tsv --space fsaverage5

    Example: braindive check study.xlsx --id "Subject code" --time "Date of scan" --skip-bad

    Example: braindive check visits.tsv --freesurfer $SUBJECTS_DIR --target fsaverage5

    Example: braindive check visits.tsv --regions lh.thickness.tsv --regions rh.thickness.tsv
    """
    opened = open_cohort(cohort, space, regions or (), table)
    findings = bd.inspect_cohort(opened)
    if json:
        print_json({"cohort": repr(opened), "findings": [asdict(each) for each in findings]})
        return
    output.print(f"{opened}", markup=False)
    for finding in findings:
        colour = "yellow" if finding.level == "warning" else "cyan"
        output.print(f"[{colour}]{finding.level:<8}[/{colour}]", end="")
        where = f" ({finding.where})" if finding.where else ""
        output.print(f"{finding.what}{where} {finding.remedy}", markup=False)
    if not any(finding.level == "warning" for finding in findings):
        output.print("Nothing odd was found.")


@reads_table
def pack(
    cohort: Annotated[Path, typer.Argument(help="Table with one row per scan.", metavar="TABLE")],
    to: Annotated[Path, typer.Option("--output", "-o", help="Packed cohort to write.")],
    space: SpaceOption = None,
    regions: RegionsOption = None,
    jobs: Annotated[
        int | None, typer.Option(help="Processes; all cores by default.", callback=check_jobs)
    ] = None,
    *,
    table: TableOptions,
) -> None:
    """Read every scan once and write one packed cohort; interrupted, it goes on where it was.

    Example: braindive pack study/cohort.tsv --space fsaverage5 -o study.zarr

    Example: braindive pack visits.tsv --freesurfer $SUBJECTS_DIR --measure thickness -o study.zarr

    Example: braindive pack visits.tsv --regions lh.tsv --regions rh.tsv -o study.zarr
    """
    try:
        with readable_notes(), count_progress(messages) as progress:
            arguments = table.arguments()
            visits = join_regions(regions, cohort, arguments)
            bd.pack_cohort(visits, to, space=space, n_jobs=jobs, progress=progress, **arguments)
    except KeyboardInterrupt:
        from braindive.io.packed import check_target

        kept = unfinished(check_target(to)).exists()
        end_interrupted("the same command goes on from here" if kept else "nothing is kept")
    say(f"Wrote {to}: {bd.open_packed(to)}")
