"""Commands that judge: select, compare, groups."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from joblib import parallel_config

import braindive as bd
from braindive.arrays import IntArray
from braindive.cli.console import end_interrupted, messages, output, print_json, say
from braindive.cli.inputs import open_cohort
from braindive.cli.numbers import check_jobs, check_seed
from braindive.cli.outputs import check_output_folder
from braindive.cli.progress import count_progress
from braindive.cli.settings import FitSettings, merge, read_settings
from braindive.cli.study import RegionsOption
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
from braindive.io import written_tables
from braindive.io.outputs import replace_file
from braindive.io.study_columns import meaning_of

CohortArgument = Annotated[Path, typer.Argument(help="Table of scans, or packed cohort.")]
FolderOption = Annotated[Path, typer.Option("--output", "-o", help="Folder to write into.")]
SpaceOption = Annotated[str | None, typer.Option(help="Where the values of a table lie.")]
SeedOption = Annotated[
    int, typer.Option(help="Seed of the splits and of the fits.", callback=check_seed)
]
JobsOption = Annotated[
    int, typer.Option("--jobs", "-j", help="Workers; -1 for all cores.", callback=check_jobs)
]
# Numbers of clusters that one command may try: each takes many fits. A choice.
_MOST_NUMBERS = 100
DaskOption = Annotated[str | None, typer.Option(help="Address of a Dask scheduler to fit on.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Output for machines.")]


@reads_table
def select(
    context: typer.Context,
    cohort: CohortArgument,
    to: FolderOption,
    clusters: Annotated[
        str, typer.Option("--clusters", "-k", help="Numbers to try, such as 2-8 or 2,3,5.")
    ] = "2-8",
    splits: Annotated[int, typer.Option(min=0, help="Folds for the held-out likelihood.")] = 5,
    resamples: Annotated[int, typer.Option(min=0, help="Random halves for stability.")] = 3,
    settings: Annotated[
        Path | None,
        typer.Option(help="Settings file of a fit, whose options to use; the number is chosen."),
    ] = None,
    space: SpaceOption = None,
    regions: RegionsOption = None,
    standardise: StandardiseOption = False,
    covariates: CovariatesOption = "",
    average_hemispheres: AverageOption = False,
    reference: ReferenceOption = "controls",
    drop_zeros: ZerosOption = False,
    smooth: SmoothOption = 0,
    seed: SeedOption = 0,
    jobs: JobsOption = -1,
    dask: DaskOption = None,
    json: JsonOption = False,
    *,
    table: TableOptions,
) -> None:
    """Choose the number of clusters by groups of vertices, likelihood and stability.

    Example: braindive select study.zarr -k 2-8 -o selection/

    Example: braindive select study.zarr -k 2-8 --standardise --drop-zeros -o selection/

    Example: braindive select study.zarr -k 2-8 --settings fit.dive.json -o selection/
    """
    numbers = parse_numbers(clusters)
    values = {
        "standardise": standardise,
        "covariates": covariates,
        "average_hemispheres": average_hemispheres,
        "reference": reference,
        "drop_zeros": drop_zeros,
        "smooth": smooth,
    }
    model = _model_to_select(context, settings, values, seed)
    check_output_folder(to, [cohort])
    data = open_cohort(cohort, space, regions or (), table)
    with _spread(dask), count_progress(messages) as progress:
        results = bd.select_n_clusters(
            data,
            numbers,
            model=model,
            n_splits=splits,
            n_resamples=resamples,
            n_jobs=jobs,
            random_state=seed,
            progress=lambda done, total: progress("Fitting", done, total),
        )
    recommended = bd.recommend_n_clusters(results)
    write_table(results, to / "selection.tsv")
    with replace_file(to / "recommendation.txt") as temporary:
        number = "none" if recommended.n_clusters is None else recommended.n_clusters
        temporary.write_text(f"{number}\n{recommended.reason}\n")
    draw(to / "selection.png", bd.plot_selection, results)
    if json:
        rows = results.reset_index().to_dict("records")
        print_json(recommended._asdict() | {"table": rows})
    else:
        output.print(results.to_string(float_format="%.6g"), markup=False)
        output.print(recommended.reason, markup=False)


@reads_table
def compare(
    cohort: CohortArgument,
    to: FolderOption,
    scores: Annotated[
        str, typer.Option(help="Columns with cognitive scores, such as MMSE,CDRSOB.")
    ] = "",
    atlas: Annotated[
        list[Path] | None,
        typer.Option(
            help="Regions of the ROI-based model: desikan-killiany, destrieux, or files, two for "
            "two hemispheres, left first."
        ),
    ] = None,
    clusters: Annotated[int, typer.Option("--clusters", "-k", help="Number of clusters.")] = 3,
    folds: Annotated[int, typer.Option(help="Folds of the cross-validation.")] = 10,
    history: Annotated[int, typer.Option(min=1, help="Visits from which to predict.")] = 2,
    standardise: Annotated[
        bool, typer.Option(help="Z-score to the controls of each training part.")
    ] = False,
    settings: Annotated[
        Path | None,
        typer.Option(help="Settings file of a fit: what is done to the values before each fit."),
    ] = None,
    space: SpaceOption = None,
    regions: RegionsOption = None,
    seed: SeedOption = 0,
    jobs: JobsOption = -1,
    dask: DaskOption = None,
    json: JsonOption = False,
    *,
    table: TableOptions,
) -> None:
    """Compare DIVE with simpler models on subjects that they have not seen.

    Writes every fold, means with tests, and the overlap of DIVE's clusters across folds.

    Example: braindive compare study.zarr --atlas regions.annot --scores MMSE,CDRSOB -o comparison/
    """
    from braindive.evaluation.summary import REFERENCE, comparison_table

    check_output_folder(to, [cohort])
    data = open_cohort(cohort, space, regions or (), table)
    before = _preprocessing_of(settings, standardise)
    fixed = None if not atlas else _regions_for(atlas, data, before)
    with _spread(dask), count_progress(messages) as progress:
        frame = bd.compare_models(
            data,
            scores=[name.strip() for name in scores.split(",") if name.strip()],
            n_folds=folds,
            history_visits=history,
            n_clusters=clusters,
            atlas=fixed,
            preprocessing=before,
            n_jobs=jobs,
            random_state=seed,
            progress=lambda done, total: progress("Fitting", done, total),
        )
    summary = bd.summarise_comparison(frame)
    write_table(frame, to / "folds.tsv", index=False)
    write_table(summary, to / "summary.tsv", index=False)
    overlap = pd.DataFrame(frame.attrs["overlap"].get(REFERENCE, []))
    if len(overlap):
        write_table(overlap, to / "overlap.tsv", index=False)
    draw(to / "comparison.png", bd.plot_comparison, frame)
    if json:
        print_json(summary.to_dict("records"))
    else:
        output.print(comparison_table(summary).to_string(), markup=False)
        output.print("mean ± sd over folds; * differs from DIVE (corrected resampled t-test, 5 %)")
        if len(overlap):
            dice = ", ".join(f"{value:.2f}" for value in overlap["dice"])
            output.print(f"Dice overlap of DIVE's clusters across folds: {dice}", markup=False)


def groups(
    model: Annotated[Path, typer.Argument(help="Fitted model, such as fit.dive.")],
    by: Annotated[str, typer.Option(help="Column of the training cohort's table.")],
    to: FolderOption,
    test: Annotated[
        str, typer.Option(help="Test inside the model, or of the estimated stages: model, stages.")
    ] = "model",
    json: JsonOption = False,
) -> None:
    """Compare scores at the first visit and speeds between groups of subjects.

    Example: braindive groups fit.dive --by apoe4 -o groups/

    Groups are compared as they are, controls and patients together; fit with --shift-on and
    --speed-on to compare controls with controls and patients with patients.
    """
    if test not in ("model", "stages"):
        raise bd.ParameterError(f"--test is model or stages; got {test!r}.")
    check_output_folder(to)
    fitted = bd.load_model(model)
    table = bd.compare_groups(fitted, by, test="stages" if test == "stages" else "model")
    write_table(table, to / "groups.tsv")
    if not table.attrs["continuous"]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bd.DataWarning)  # said above, for the table
            draw(to / "groups.png", bd.plot_groups, fitted, by)
    if json:
        print_json(table.reset_index().to_dict("records"))
        return
    from braindive.evaluation.group_words import groups_in_words, short_table
    from braindive.score_names import score_is_in_years

    in_years = score_is_in_years(fitted)
    for sentence in groups_in_words(table, in_years):
        output.print(sentence, markup=False, soft_wrap=True)
    if meaning_of(by) != "diagnosis":  # which tells the controls: nobody could adjust for that
        output.print(_adjusted_for(fitted, by), markup=False, soft_wrap=True)
    output.print(short_table(table, in_years).to_string(), markup=False, soft_wrap=True)
    output.print("groups.tsv has all numbers, and tests of the estimated stages.", markup=False)


def _adjusted_for(model: bd.DIVE, by: str) -> str:
    """Say what a comparison of groups adjusts for."""
    before = model.preprocessing_
    maps = ", ".join(before.covariates) if before is not None else ""
    but = f", except the maps for {maps}" if maps else ""
    return (
        "Groups are compared as they are, controls and patients together, and nothing is adjusted "
        f"for{but}: a group with more patients is ahead for that alone. braindive fit --shift-on "
        f"{by} --speed-on {by} compares controls with controls and patients with patients."
    )


def _preprocessing_of(settings: Path | None, standardise: bool) -> bd.Preprocessing | None:
    """What is done to the values first, by a settings file or the option."""
    if settings is None:
        return bd.Preprocessing() if standardise else None
    chosen = read_settings(settings)
    return replace(chosen, standardise=chosen.standardise or standardise).preprocessing()


def _regions_for(atlas: list[Path], cohort: bd.Cohort, before: bd.Preprocessing | None) -> IntArray:
    """Regions at the vertices that are fitted, which may be those of averaged hemispheres."""
    space, n_vertices = cohort.space, cohort.n_vertices
    if before is not None and before.average_hemispheres:
        from braindive.space.folding import fold_hemispheres

        space, pairs = fold_hemispheres(space)
        n_vertices = len(pairs)
    return bd.read_atlas(atlas, n_vertices, space)


def _model_to_select(
    context: typer.Context, settings: Path | None, values: dict[str, Any], seed: int
) -> bd.DIVE | None:
    """Return the model of a settings file with what is done to the values as the options say."""
    typed = {name: value for name, value in values.items() if _was_typed(context, name)}
    if settings is not None:
        return model_of(settings, typed)
    before = FitSettings(cohort="", output="", **typed).preprocessing()
    return None if before is None else bd.DIVE(preprocessing=before, random_state=seed)


def _was_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def model_of(path: Path, typed: dict[str, Any] | None = None) -> bd.DIVE:
    """Return the model of a settings file, whose number of clusters is still open.

    Parameters
    ----------
    path : Path
        Of the file.
    typed : dict, optional
        Settings that the command line gives over those of the file.
    """
    chosen = merge(read_settings(path), typed or {})
    if chosen.start or chosen.atlas:
        raise bd.ParameterError(
            f"{path} has a start or an atlas, and with it the number of clusters; take it out to "
            "choose one."
        )
    return chosen.model()


@contextmanager
def _spread(address: str | None) -> Iterator[None]:
    """Let fits run on a Dask cluster, if there is an address of one, until Ctrl-C."""
    with connect(address) as client:
        on_cluster = nullcontext() if client is None else parallel_config("dask", client=client)
        try:
            with on_cluster:
                yield
        except KeyboardInterrupt:
            end_interrupted("nothing is kept")


def parse_numbers(text: str) -> list[int]:
    """Whole numbers from "2-5", "2,3,8" or a mixture."""
    numbers: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            wanted = range(int(first), int(last or first) + 1)
            if len(numbers) + len(wanted) > _MOST_NUMBERS:
                raise bd.ParameterError(
                    f"-k {text} names more than {_MOST_NUMBERS} numbers; try fewer."
                )
            numbers += wanted
    except (ValueError, OverflowError) as error:
        if isinstance(error, bd.ParameterError):
            raise
        raise bd.ParameterError(f"-k must be numbers such as 2-8 or 2,3,5; got {text!r}.") from None
    if not numbers:
        raise bd.ParameterError(f"-k {text} holds no number; the smaller one comes first.")
    return numbers


def write_table(table: pd.DataFrame, path: Path, index: bool = True) -> None:
    """Write a table, separated by tabs, and say so."""
    written_tables.write_table(table, path, index=index, digits=written_tables.MORE_DIGITS)
    say(f"Wrote {path}")


def draw(path: Path, plot: Callable[..., Any], *arguments: Any) -> None:
    """Write a figure, if matplotlib is there."""
    if find_spec("matplotlib") is None:
        say("No figure: install matplotlib with pip install 'braindive[plot]'.")
        return
    from matplotlib import pyplot as plt

    plt.switch_backend("agg")
    drawn = plot(*arguments)
    with replace_file(path) as temporary:
        drawn.savefig(temporary, dpi=150, format=path.suffix[1:])
    plt.close(drawn)
    say(f"Wrote {path}")
