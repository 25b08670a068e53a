"""Build the report of a fitted model."""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from braindive.cohort import Cohort
from braindive.errors import NotFittedError, ParameterError
from braindive.estimator import DIVE
from braindive.io.archive import replace_file
from braindive.palette import low_is_dark
from braindive.report import content
from braindive.report.embedding import embed_json, script_hash
from braindive.report.picture import draw_space
from braindive.report.viewer import read_viewer
from braindive.score_names import explain_score, name_score, score_is_in_years

_SCRIPTS = ("data", "slices", "surface", "viewer", "curves", "people", "main")


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
        if path.is_dir():
            raise ParameterError(f"{path} is a folder; give the name of a file.")
        with replace_file(path) as temporary:
            temporary.write_text(self.html, encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        """Show the page in a notebook, shut in a frame of its own."""
        import html

        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts" width="100%" '
            'height="900" style="border:0"></iframe>'
        )


def build_report(model: DIVE, cohort: Cohort | None = None) -> Report:
    """Build an interactive report: a brain to watch the disease spread on, and the people on it.

    Parameters
    ----------
    model : DIVE
        Fitted, or loaded with `load_model`.
    cohort : Cohort, optional
        The training cohort; with it the table has standard errors of the scores.

    Returns
    -------
    Report
        With ``.save("report.html")``. The file holds the table of subjects: share it as you would
        share that.

    Examples
    --------
    >>> import os, tempfile
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(n_subjects=40, control_share=0.3, random_state=0).cohort
    >>> model = bd.DIVE(n_clusters=2, random_state=0).fit(cohort)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = bd.build_report(model).save(os.path.join(folder, "report.html"))
    ...     path.stat().st_size < 10_000_000
    True
    """
    if not isinstance(model, DIVE):
        raise ParameterError(f"build_report needs a DIVE; got {type(model).__name__}.")
    if not hasattr(model, "trajectories_"):
        raise NotFittedError("this DIVE is not fitted yet; call fit(cohort) first.")
    picture = draw_space(model.space_)
    data = {
        "clusters": content.describe_clusters(model),
        "range": content.describe_range(model),
        "lowIsDark": low_is_dark(
            model.trajectories_.change(model.scores_), model.responsibilities_
        ),
        "people": content.describe_people(model, cohort),
        "objective": model.objective_,
        "scoreName": name_score(model, "Disease score"),
        # Where the score is time itself, there is nothing to say in other words.
        "scoreInYears": model.staging and score_is_in_years(model),
        "picture": None if picture is None else content.describe_picture(model, picture),
    }
    scripts = ["(() => {\n" + "\n".join(_page(f"{name}.js") for name in _SCRIPTS) + "\n})();\n"]
    if picture is not None and picture.kind == "surface":
        scripts.insert(0, read_viewer())
    page = _template().render(
        data=embed_json(data),
        scripts=scripts,
        policy=" ".join(script_hash(script) for script in scripts),
        style=_page("report.css"),
        picture=picture,
        has_midpoints=hasattr(model, "vertex_midpoints_"),
        shapes=[] if picture is None else list(picture.content.get("shapes", ())),
        sides=[] if picture is None else [p["side"] for p in picture.content.get("parts", ())],
        clusters=data["clusters"],
        score=explain_score(model, "area"),
        score_name=data["scoreName"],
        facts=content.describe_facts(model),
        warnings=content.describe_warnings(model),
        fit=content.describe_fit(model),
        settings=content.describe_settings(model),
        versions=content.describe_versions(model),
        spatial=model.spatial_strength_ > 0,
        citation=content.CITATION,
        date=datetime.date.today().isoformat(),
    )
    return Report(page)


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
