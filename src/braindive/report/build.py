"""Build the report of a fitted model."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from braindive.cohort import Cohort
from braindive.errors import NotFittedError, ParameterError
from braindive.estimator import DIVE
from braindive.io.anatomy import Anatomy, explain_missing, find_anatomy
from braindive.io.outputs import replace_file
from braindive.palette import low_is_dark
from braindive.report import content, words
from braindive.report.embedding import embed_json, script_hash
from braindive.report.methods import CITATION, describe_methods
from braindive.report.people import describe_people
from braindive.report.picture import PagePicture
from braindive.report.places import places_of_clusters
from braindive.report.units import with_shown_scores
from braindive.score_names import explain_score, name_score, score_is_in_years

_SCRIPTS = (
    "data", "words", "hand", "mesh", "surface", "slices", "viewer", "curves", "people", "keep",
    "main",
)  # fmt: skip
_HINTS = {
    "surface": "Point at the brain to read the name of a place. Click it to see the course of a "
    "vertex there; drag to turn it.",
    "regions": "Point at the brain to read the name of a region. Click it to see its course; drag "
    "to turn it.",
    "volume": "Point at the brain to read the name of a place. Click it to see the course of a "
    "voxel there and to move the planes to it.",
}


@dataclass(frozen=True)
class Report:
    """One self-contained HTML page about a fit.

    Attributes
    ----------
    html : str
        The page.
    """

    html: str = field(repr=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page; an existing file is replaced once the new one is complete.

        Parameters
        ----------
        path : path
            For example ``report.html``.

        Returns
        -------
        Path
            Where the page is.
        """
        path = Path(path)
        with replace_file(path) as temporary:
            temporary.write_text(self.html, encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        """Show the page in a notebook, shut in a frame of its own."""
        import html

        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts allow-downloads" '
            'width="100%" height="900" style="border:0"></iframe>'
        )


def build_report(
    model: DIVE,
    cohort: Cohort | None = None,
    *,
    columns: Sequence[str] = (),
    anonymous: bool = False,
    measure: str | None = None,
) -> Report:
    """Build an interactive report: a brain to watch the disease spread on, and the people on it.

    Parameters
    ----------
    model : DIVE
        Fitted, or loaded with `load_model`.
    cohort : Cohort, optional
        The training cohort. Only models that were saved before fits kept standard errors need it,
        to have those of people's scores in the table.
    columns : sequence of str
        Columns of the cohort's table to show for each person beside id and diagnosis, such as
        ``["age", "sex"]``; the page shows and holds no others.
    anonymous : bool, default False
        Whether people have numbers in place of their ids.
    measure : str, optional
        What the values are and their unit, such as ``"cortical thickness (mm)"``, for axes and
        sentences.

    Returns
    -------
    Report
        With ``.save("report.html")``. The file holds the id (or number), scores, speed and
        diagnosis of each person, and the columns that were asked for: share it as you would share
        a table of that.

    Examples
    --------
    >>> import os, tempfile
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(n_subjects=40, control_share=0.3, random_state=0).cohort
    >>> model = bd.DIVE(n_clusters=2, personal=False, random_state=0).fit(cohort)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = bd.build_report(model).save(os.path.join(folder, "report.html"))
    ...     path.stat().st_size < 10_000_000
    True
    """
    if not isinstance(model, DIVE):
        raise ParameterError(f"build_report needs a DIVE; got {type(model).__name__}.")
    if not hasattr(model, "trajectories_"):
        raise NotFittedError("this DIVE is not fitted yet; call fit(cohort) first.")
    given, model = model, with_shown_scores(model)
    picture = content.draw_model(model)
    anatomy = find_anatomy(model.space_)
    places = places_of_clusters(anatomy, model.responsibilities_)
    people = describe_people(model, cohort, columns, anonymous)
    warnings = content.describe_warnings(model, anonymous)
    data = {
        "clusters": content.describe_clusters(model, places),
        "range": content.describe_range(model),
        "lowIsDark": low_is_dark(
            model.trajectories_.change(model.scores_), model.responsibilities_
        ),
        "people": people,
        "objective": model.objective_,
        "measure": words.describe_measure(model, measure),
        "scoreName": name_score(model, "Disease score"),
        "staging": model.staging,
        # Where the score is time itself, there is nothing to say in other words.
        "scoreInYears": model.staging and score_is_in_years(model),
        "picture": None if picture is None else content.describe_picture(model, picture, anatomy),
    }
    scripts = ["(() => {\n" + "\n".join(_page(f"{name}.js") for name in _SCRIPTS) + "\n})();\n"]
    page = _template().render(
        data=embed_json(data),
        scripts=scripts,
        policy=" ".join(script_hash(script) for script in scripts),
        style=_page("report.css"),
        picture=picture,
        has_midpoints=hasattr(model, "vertex_midpoints_"),
        shapes=[] if picture is None else list(picture.content.get("shapes", ())),
        sides=[] if picture is None else [p["side"] for p in picture.content.get("parts", ())],
        hint=_hint(picture),
        clusters=data["clusters"],
        no_progression=words.explain_progression(model),
        certainty=words.explain_certainty(model),
        shown=words.explain_shown(model, measure),
        measure_words=words.explain_measure(model, measure),
        landmarks=words.score_landmarks(model),
        first=words.explain_first(model, places),
        anatomy_words=_explain_anatomy(anatomy, model),
        errors_words=words.explain_errors(model),
        score=explain_score(given, "area"),
        score_name=data["scoreName"],
        facts=content.describe_facts(model),
        warnings=warnings,
        methods=describe_methods(given),
        fit=content.describe_fit(model),
        effects=content.describe_effects(model),
        sites=content.describe_sites(model),
        settings=content.describe_settings(given),
        versions=content.describe_versions(model),
        spatial=model.spatial_strength_ > 0,
        citation=CITATION,
        held=_what_is_held(people, anonymous),
        date=datetime.date.today().isoformat(),
    )
    return Report(page)


def _hint(picture: PagePicture | None) -> str:
    """What to do with the picture, in a sentence."""
    if picture is None:
        return ""
    return _HINTS["regions" if picture.content.get("ofRegions") else picture.kind]


def _explain_anatomy(anatomy: Anatomy | None, model: DIVE) -> str:
    """Say where the names of places come from, or why there are none."""
    if anatomy is None:
        return explain_missing(model.space_)
    return f"Names: {anatomy.atlas}, from {anatomy.source}."


def _what_is_held(people: dict[str, Any], anonymous: bool) -> str:
    """What the page knows about each person, in words."""
    named = [column["name"] for column in people["columns"]][6:]
    who = "a number" if anonymous else "the id"
    held = [who, "the scores of all visits", "the speed", "standard errors of both", *named]
    return ", ".join(held)


def _page(name: str) -> str:
    return (files("braindive.report") / "page" / name).read_text(encoding="utf-8")


@cache
def _template() -> Any:
    try:
        import jinja2
    except ImportError:
        raise ParameterError(
            "a report needs jinja2; install it with: pip install braindive[report]"
        ) from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("braindive.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html")
