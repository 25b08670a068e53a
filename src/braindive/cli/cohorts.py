"""The command that compares two cohorts or diseases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import braindive as bd
from braindive.cli.console import output, print_json
from braindive.cli.evidence import (
    FolderOption,
    JsonOption,
    SpaceOption,
    draw,
    model_of,
    write_table,
)
from braindive.cli.inputs import open_cohort
from braindive.cli.numbers import check_seed
from braindive.cli.outputs import check_output_folder


def cohorts(
    first: Annotated[Path, typer.Argument(help="Table of scans, or packed cohort.")],
    second: Annotated[Path, typer.Argument(help="Another one, of the same vertices.")],
    to: FolderOption,
    clusters: Annotated[int, typer.Option("--clusters", "-k", help="Number of areas.")] = 3,
    atlas: Annotated[
        list[Path] | None,
        typer.Option(
            help="Compare these regions instead; twice for two hemispheres, left first.",
            metavar="FILE",
        ),
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(help="Settings file of a fit, whose options to use.")
    ] = None,
    permutations: Annotated[
        int, typer.Option(min=1, help="Draws for the overlap of areas by chance.")
    ] = 1000,
    space: SpaceOption = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the fits and of the draws.", callback=check_seed)
    ] = 0,
    json: JsonOption = False,
) -> None:
    """Compare the course of the disease in two cohorts, or of two diseases.

    Writes tests of order, midpoints and steepness, every area in both, overlap and stages.

    Example: braindive cohorts adni.zarr other.zarr -k 3 -o compared/
    """
    check_output_folder(to, [first, second])
    model = bd.DIVE(clusters, random_state=seed)
    if settings is not None:
        model = model_of(settings).set_params(n_clusters=clusters, random_state=seed)
    a, b = open_cohort(first, space), open_cohort(second, space)
    areas = None if not atlas else bd.read_atlas(atlas, a.n_vertices, a.space)
    found = bd.compare_cohorts(
        a, b, model, areas=areas, n_permutations=permutations, random_state=seed
    )
    write_table(found.tests, to / "tests.tsv")
    write_table(found.areas, to / "areas.tsv")
    write_table(found.overlap, to / "overlap.tsv")
    write_table(found.replication, to / "replication.tsv", index=False)
    draw(to / "cohorts.png", bd.plot_cohorts, found)
    if json:
        tables = {
            name: getattr(found, name).reset_index().to_dict("records")
            for name in ("tests", "areas", "overlap")
        }
        stages = found.replication.to_dict("records")
        print_json(tables | {"order": found.order, "replication": stages})
    else:
        output.print(str(found), markup=False, soft_wrap=True)
