"""The command that fits, and goes on where it was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import braindive as bd
from braindive.cli.console import end_interrupted, messages, say
from braindive.cli.fit_summary import show_fit
from braindive.cli.inputs import open_cohort
from braindive.cli.numbers import check_seed
from braindive.cli.outputs import (
    STANDARD_OUTPUT,
    OverwriteOption,
    check_output_file,
    check_output_folder,
)
from braindive.cli.settings import FitSettings, merge, read_settings, write_settings
from braindive.cli.study import RegionsOption, SpaceOption
from braindive.cli.table_options import TableOptions, reads_table
from braindive.cli.value_options import (
    AverageOption,
    CovariatesOption,
    ReferenceOption,
    SmoothOption,
    StandardiseOption,
    ZerosOption,
)
from braindive.cli.workers import connect
from braindive.progress import Progress, fit_progress

if TYPE_CHECKING:  # what `braindive --help` need not wait for
    from braindive.dive.starts import Checkpoint

# Groups of options in the help of the command.
_MODEL, _RUN = "The model", "How it is fitted"


@reads_table
def fit(
    context: typer.Context,
    cohort: Annotated[
        Path | None,
        typer.Argument(help="Table of scans, or packed cohort.", show_default=False),
    ] = None,
    to: Annotated[Path, typer.Option("--output", "-o", help="Model to write.")] = Path("fit.dive"),
    clusters: Annotated[
        int,
        typer.Option(
            "--clusters", "-k", help="Number of clusters; with --start or --atlas it is theirs."
        ),
    ] = 3,
    space: SpaceOption = None,
    regions: RegionsOption = None,
    maps: Annotated[Path | None, typer.Option(help="Folder to write maps into as well.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Summary for machines.")] = False,
    settings: Annotated[
        Path | None, typer.Option(help="Settings file of an earlier fit, to repeat it.")
    ] = None,
    standardise: StandardiseOption = False,
    covariates: CovariatesOption = "",
    average_hemispheres: AverageOption = False,
    reference: ReferenceOption = "controls",
    drop_zeros: ZerosOption = False,
    smooth: SmoothOption = 0,
    start: Annotated[
        list[Path] | None,
        typer.Option(
            help="Begin from these clusters and refine them: an earlier model, or labels of the "
            "vertices; twice for two hemispheres, left first.",
            metavar="FILE",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    atlas: Annotated[
        list[Path] | None,
        typer.Option(
            help="Keep these regions as the clusters: desikan-killiany, destrieux, or files, two "
            "for two hemispheres, left first.",
            metavar="FILE",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    staging: Annotated[
        bool,
        typer.Option(
            "--staging/--no-staging",
            help="Estimate where people stand, or take the time for the score.",
            rich_help_panel=_MODEL,
        ),
    ] = True,
    spatial: Annotated[
        str,
        typer.Option(
            help="Spatial strength: auto, none or a number.",
            rich_help_panel=_MODEL,
        ),
    ] = "auto",
    people: Annotated[
        str,
        typer.Option(
            help="Whether people differ persistently: differ, or alike as published.",
            rich_help_panel=_MODEL,
        ),
    ] = "differ",
    scale: Annotated[
        str,
        typer.Option(
            help="Unit of the score: years, or controls as published.", rich_help_panel=_MODEL
        ),
    ] = "years",
    shift_on: Annotated[
        str,
        typer.Option(
            help="Columns that may put people ahead or behind, such as apoe4,sex.",
            rich_help_panel=_MODEL,
        ),
    ] = "",
    speed_on: Annotated[
        str,
        typer.Option(
            help="Columns that may make people faster or slower, such as apoe4,sex.",
            rich_help_panel=_MODEL,
        ),
    ] = "",
    sites: Annotated[
        str,
        typer.Option(
            help="Column with the site or scanner of each visit, to take off what it adds; one "
            "that is seen later is learnt by add-site.",
            metavar="COLUMN",
            rich_help_panel=_MODEL,
        ),
    ] = "",
    seed: Annotated[
        int, typer.Option(help="Seed of the starts.", rich_help_panel=_RUN, callback=check_seed)
    ] = 0,
    n_init: Annotated[
        int,
        typer.Option(help="Starts of k-means; the best of them goes on.", rich_help_panel=_RUN),
    ] = 4,
    starts: Annotated[int | None, typer.Option(hidden=True)] = None,  # --n-init, in older scripts
    max_iter: Annotated[
        int, typer.Option(help="Most passes over the data.", rich_help_panel=_RUN)
    ] = 200,
    tol: Annotated[
        float, typer.Option(help="Change of labels at which to stop.", rich_help_panel=_RUN)
    ] = 1e-4,
    method: Annotated[
        str,
        typer.Option(
            help="fast, or exact: the published sums over all vertices, the same answer slowly.",
            rich_help_panel=_RUN,
        ),
    ] = "fast",
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Insist on going on with an interrupted fit.",
            rich_help_panel=_RUN,
        ),
    ] = False,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Memory that a fit from disk may take, such as 2GB.", rich_help_panel=_RUN
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask scheduler to spread the fit over.", rich_help_panel=_RUN
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    *,
    table: TableOptions,  # as in the settings, which a file may give
) -> None:
    """Fit a model; the same command goes on after an interruption, to the same answer.

    Example: braindive fit study.zarr -k 3 -o fit.dive

    Example: braindive fit study.zarr --start fit.dive -o refined.dive

    Example: braindive fit study.zarr --atlas lh.annot --atlas rh.annot -o regions.dive

    Example: braindive fit visits.xlsx --freesurfer $SUBJECTS_DIR --target fsaverage5 -o fit.dive

    Example: braindive fit visits.tsv --regions lh.thickness.tsv --regions rh.thickness.tsv -k 3

    Example: braindive fit study.zarr --shift-on apoe4,sex --speed-on apoe4 -o carriers.dive

    Example: braindive fit study.zarr --sites scanner -o fit.dive

    Example: braindive fit --settings fit.dive.json -o again.dive

    The model file holds people's ids and the whole table of the cohort, their
    stages, and the mean of each scan in each cluster; no map of a person.
    """
    from braindive.checks import check_memory
    from braindive.io.models import fit_fingerprint, write_checkpoint
    from braindive.io.outputs import OutputError, check_room, only_writer, real_file

    chosen = _choose(context, settings)
    path = _check_output(chosen, overwrite)
    check_memory(memory)
    if maps is not None:
        check_output_folder(maps, [chosen.cohort])
    with only_writer(real_file(path)):
        model = chosen.model().set_params(memory=memory)
        opened = open_cohort(Path(chosen.cohort), chosen.space, chosen.regions, chosen.table())
        model.set_params(**chosen.given_clusters(opened))
        fingerprint = fit_fingerprint(opened, model.get_params(deep=False))
        # The model, and for each start where it stands, written anew beside what it replaces.
        check_room(path, 8 * opened.n_vertices * (chosen.clusters + 4) * (4 + 6 * chosen.n_init))
        kept = path.with_name(f"{path.name}.checkpoint")
        checkpoint = _find_checkpoint(kept, fingerprint, resume)

        with (
            connect(dask) as client,
            fit_progress(messages, chosen.tol, chosen.max_iter) as show,
        ):

            def after_each_pass(progress: Progress) -> None:
                write_checkpoint(kept, fingerprint, progress.checkpoint)
                show(progress)

            try:
                model.fit(opened, callback=after_each_pass, resume=checkpoint, client=client)
            except KeyboardInterrupt:
                state = "the same command goes on from here" if kept.exists() else "nothing is kept"
                end_interrupted(state)

        try:
            model.save(path)
            write_settings(chosen, path.with_name(f"{path.name}.json"))
        except OSError as error:
            raise OutputError(
                f"{path} could not be written ({error.strerror or error}); where the fit stands is "
                f"kept in {kept}, and the same command ends it."
            ) from error
        kept.unlink(missing_ok=True)
    if maps is not None:
        bd.write_maps(model, maps)
    show_fit(model, path, json)


def _check_output(settings: FitSettings, overwrite: bool) -> Path:
    """Where the model will be, if it may be there."""
    if Path(settings.output) == STANDARD_OUTPUT:
        raise bd.ParameterError(
            "a fit keeps where it stands beside its output, so -o needs the name of a file."
        )
    inputs = [settings.cohort, *settings.regions, *settings.start, *settings.atlas]
    path = check_output_file(Path(settings.output), inputs, overwrite)
    check_output_file(path.with_name(f"{path.name}.json"), inputs, overwrite)
    return path


def _choose(context: typer.Context, file: Path | None) -> FitSettings:
    """Settings of the file, where there is one, and what the command line says over them."""
    names = {"to": "output"}
    outside = ("maps", "settings", "resume", "memory", "dask", "json", "overwrite", "starts")
    given: dict[str, Any] = {}
    for name, value in context.params.items():
        source = context.get_parameter_source(name)
        typed = source is not None and source.name == "COMMANDLINE"
        if name not in outside and (typed or (file is None and value is not None)):
            given[names.get(name, name)] = _plain(value)
    if context.params["starts"] is not None:
        given["n_init"] = context.params["starts"]
    if file is not None:
        return merge(read_settings(file), given)
    if "cohort" not in given:
        raise bd.ParameterError("give a cohort, as in: braindive fit study.zarr -k 3 -o fit.dive")
    return FitSettings(**given)


def _plain(value: Any) -> Any:
    """Turn paths into text, one or several; leave everything else as it is."""
    if isinstance(value, (list, tuple)):
        return tuple(map(str, value))
    return str(value) if isinstance(value, Path) else value


def _find_checkpoint(path: Path, fingerprint: str, required: bool) -> Checkpoint | None:
    """Where an interrupted fit of the same data and settings stands, if there is one."""
    from braindive.io.models import read_checkpoint

    if path.exists():
        try:
            found, checkpoint = read_checkpoint(path)
        except bd.ModelFileError:
            if required:
                raise
            return None
        if found == fingerprint:
            passes = sum(len(trace.objectives) for trace in checkpoint if trace is not None)
            say(f"Going on after pass {passes} of an interrupted fit.")
            return checkpoint
    if required:
        raise bd.ParameterError(
            f"there is no interrupted fit of these data and settings to resume ({path}); leave "
            "--resume out to start one."
        )
    return None
