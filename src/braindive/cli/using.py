"""Commands that use a fitted model: stage, change, predict, add-site, maps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

import braindive as bd
from braindive.cli.console import messages, print_json, say
from braindive.cli.inputs import load_fitted, open_cohort_for
from braindive.cli.outputs import (
    STANDARD_OUTPUT,
    OverwriteOption,
    check_output_file,
    check_output_folder,
)
from braindive.cli.progress import count_progress
from braindive.cli.study import RegionsOption
from braindive.cli.table_options import TableOptions, reads_table
from braindive.io.columns import shorten
from braindive.io.outputs import check_room
from braindive.io.written_tables import check_table_name, rounded, write_table

ModelArgument = Annotated[Path, typer.Argument(help="Fitted model, such as fit.dive.")]
CohortArgument = Annotated[Path, typer.Argument(help="Table of scans, or packed cohort.")]


TableOutput = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Table (.tsv, .csv, .xlsx) to write; else it is printed."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Output for machines.")]


@reads_table
def stage(
    model: ModelArgument,
    cohort: CohortArgument,
    to: TableOutput = None,
    regions: RegionsOption = None,
    json: JsonOption = False,
    overwrite: OverwriteOption = False,
    *,
    table: TableOptions,
) -> None:
    """Place people on the disease's course, whether the model has seen them or not.

    Example: braindive stage fit.dive new/cohort.tsv -o stages.tsv

    Example: braindive stage fit.dive new/visits.tsv --regions new/lh.tsv --regions new/rh.tsv
    """
    to = _checked_table(to, [model, cohort], overwrite)
    fitted = load_fitted(model, cohort, "stage")
    opened = open_cohort_for(fitted, cohort, table, regions)
    _give_table(with_diagnosis(fitted.stage(opened), opened), to, json)


@reads_table
def change(
    model: ModelArgument,
    cohort: CohortArgument,
    to: TableOutput = None,
    regions: RegionsOption = None,
    json: JsonOption = False,
    overwrite: OverwriteOption = False,
    *,
    table: TableOptions,
) -> None:
    """Tell how far each person has moved from the first visit to the last, and how sure that is.

    A change is known better than a stage, because what lasts cancels in it. Of people who do not
    change, 5 % have a p below 0.05.

    Example: braindive change fit.dive new/cohort.tsv -o changes.tsv
    """
    to = _checked_table(to, [model, cohort], overwrite)
    fitted = load_fitted(model, cohort, "change")
    opened = open_cohort_for(fitted, cohort, table, regions)
    changes = with_diagnosis(bd.change(fitted, opened), opened)
    once = int((changes["n_visits"] < 2).sum())
    if once:
        say(f"{once} of {len(changes)} subjects were seen once and have no change.")
    _give_table(changes, to, json)


def _checked_table(to: Path | None, inputs: list[Path], overwrite: bool) -> Path | None:
    """The table to write, where it may be written, and None where it is to be printed."""
    if to is None or to == STANDARD_OUTPUT:
        return None
    check_output_file(to, inputs, overwrite)
    check_table_name(to)
    return to


def _give_table(people: pd.DataFrame, to: Path | None, json: bool) -> None:
    """Write a table of people, or print it."""
    people = people.rename_axis("participant_id")
    if to is not None:
        write_table(people, to)
        say(f"Wrote {to}: {len(people)} subjects")
    if json:
        rows = people.reset_index().astype(object)
        # What is not known is null in JSON.
        print_json(rows.where(rows.notna(), None).to_dict("records"))
    elif to is None:
        typer.echo(rounded(people).to_csv(sep="\t"), nl=False)


@reads_table
def predict(
    model: ModelArgument,
    cohort: CohortArgument,
    to: Annotated[Path, typer.Option("--output", "-o", help="Folder to write into.")],
    history: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Stage from the first so many visits, and predict the later ones of everybody "
            "who has any.",
        ),
    ] = None,
    standardised: Annotated[
        bool,
        typer.Option(
            "--standardised",
            help="Leave the maps as the model sees them: z-scores if it was fitted with "
            "--standardise, without the effects of its covariates. By default they are in the "
            "unit of the scans.",
        ),
    ] = False,
    format: Annotated[  # noqa: A002
        str | None,
        typer.Option(help="freesurfer, gifti, nifti or table; by default that of the space."),
    ] = None,
    regions: RegionsOption = None,
    overwrite: OverwriteOption = False,
    *,
    table: TableOptions,
) -> None:
    """Write the maps that the model expects of each visit, in the unit of the scans.

    Example: braindive predict fit.dive new/cohort.tsv --history 2 -o predicted/
    """
    fitted = load_fitted(model, cohort, "predict")
    check_output_folder(to, [model, cohort], ["cohort.tsv"], overwrite)
    everything = open_cohort_for(fitted, cohort, table, regions)
    visits = everything.table
    if "session_id" not in visits.columns:
        # Whatever is left out, files have the number that a visit has in the table.
        visits["session_id"] = [f"ses-{number + 1}" for number in everything.visit_numbers]
    if history is None:
        asked, expected = everything, fitted.predict(everything)
    else:
        asked = everything.later_visits(history)
        expected = fitted.predict(asked, history=everything.first_visits(history))
        visits = visits[everything.visit_numbers >= history].reset_index(drop=True)
    maps = bd.Cohort(
        expected,
        subjects=asked.subjects,
        times=asked.times,
        controls=asked.controls,
        space=fitted.space_,
        table=visits,
    )
    if fitted.preprocessing_ is not None and not standardised:
        try:
            maps = fitted.preprocessing_.inverse_transform(maps)
        except bd.CohortError as error:
            raise bd.CohortError(
                f"{error} Maps in the unit of the scans need this; --standardised leaves them in "
                "that of the model."
            ) from None
    kind = "regions" if fitted.space_ is None else fitted.space_.kind
    chosen = format or {"surface": "freesurfer", "volume": "nifti", "regions": "table"}[kind]
    check_room(to, 2 * maps.n_visits * maps.n_vertices * 4)
    with count_progress(messages) as progress:
        written = bd.write_cohort(maps, to, chosen, progress=progress)
    say(f"Wrote {written}: {maps}")
    say(f"The maps are {_unit_of(fitted, standardised)}.")
    left_out = sorted(set(everything.subject_ids) - set(asked.subject_ids), key=str)
    if left_out:
        say(
            f"Left out, having no visit after the first {history}: {shorten(left_out)} "
            f"({len(left_out)} of {everything.n_subjects} subjects)."
        )


def _unit_of(model: bd.DIVE, standardised: bool) -> str:
    """In which unit predicted maps are, as a part of a sentence."""
    before = model.preprocessing_
    if before is None or not standardised:
        return "in the unit of the scans that were given"
    unit = "z-scores of the controls" if before.standardise else "in the unit of the scans"
    adjusted = ", ".join(before.covariates)
    return f"{unit}, adjusted for {adjusted}" if adjusted else unit


@reads_table
def add_site(
    model: ModelArgument,
    cohort: Annotated[
        Path,
        typer.Argument(
            help="Table of scans, or packed cohort, of people who were seen at the new site."
        ),
    ],
    to: Annotated[Path, typer.Option("--output", "-o", help="Model to write, such as wider.dive.")],
    regions: RegionsOption = None,
    json: Annotated[bool, typer.Option("--json", help="Output for machines.")] = False,
    overwrite: OverwriteOption = False,
    *,
    table: TableOptions,
) -> None:
    """Teach a model a site, or scanner, that it has not seen, from about ten controls.

    The model must have been fitted with --sites, and the table must have the same column, with the
    name of the new site, and say who is a control. Visits at sites that the model knows are left
    out. Nothing else changes, and the model that is given stays as it is.

    Example: braindive add-site fit.dive new/controls.tsv -o wider.dive
    """
    if to == STANDARD_OUTPUT:
        raise bd.ParameterError("a model is no text, so -o needs the name of a file.")
    check_output_file(to, [model, cohort, *(regions or ())], overwrite)
    fitted = load_fitted(model, cohort, "add-site")
    if not hasattr(fitted, "sites_"):
        raise bd.ParameterError(
            f"{model} knows no sites; fit it with --sites COLUMN, where the column of the table "
            "has the site of each visit."
        )
    wider = fitted.add_site(open_cohort_for(fitted, cohort, table, regions))
    check_room(to, 2 * model.stat().st_size)
    wider.save(to)
    found = bd.site_table(wider).drop(columns=["people", "visits"])
    found = found.loc[list(wider.sites_.names[fitted.sites_.n_sites :])]
    named = ", ".join(found.index)
    say(f"Wrote {to}: {wider.sites_.n_sites} sites; new in {wider.sites_.column!r}: {named}")
    if json:
        print_json(found.reset_index(names="site").to_dict("records"))
    else:
        typer.echo(rounded(found).to_csv(sep="\t"), nl=False)


def maps(
    model: ModelArgument,
    to: Annotated[Path, typer.Option("--output", "-o", help="Folder to write into.")],
    scores: Annotated[
        str | None, typer.Option(help="Scores of the expected maps, such as -1,0,1.")
    ] = None,
    format: Annotated[  # noqa: A002
        str | None,
        typer.Option(
            "--format",
            "--formats",
            help="freesurfer, gifti, cifti, nifti or table, several with commas; by default those "
            "of the space.",
        ),
    ] = None,
) -> None:
    """Write clusters, probabilities and expected values as maps that viewers open.

    Example: braindive maps fit.dive -o maps/
    """
    check_output_folder(to, [model])
    fitted = bd.load_model(model)
    try:
        chosen = None if scores is None else [float(score) for score in scores.split(",")]
    except ValueError:
        raise bd.ParameterError(f"--scores must be numbers with commas; got {scores!r}.") from None
    kinds = None if format is None else [name.strip() for name in format.split(",")]
    paths = bd.write_maps(fitted, to, scores=chosen, formats=kinds)
    say(f"Wrote {len(paths)} files into {to}")


def with_diagnosis(people: pd.DataFrame, cohort: bd.Cohort) -> pd.DataFrame:
    """Return a table with the diagnosis of each person at the first visit, where it is known."""
    if "diagnosis" not in cohort.table:
        return people
    first = cohort.visit_numbers == 0
    told = dict(zip(cohort.subjects[first], cohort.table["diagnosis"][first], strict=True))
    return people.assign(diagnosis=[told[subject] for subject in people.index])
