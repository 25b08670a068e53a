"""What `braindive fit` prints when it ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import braindive as bd
from braindive.cli.console import output, print_json


def show_fit(model: bd.DIVE, path: Path, json: bool) -> None:
    """Print what a fit has found, in a few lines or as JSON.

    Parameters
    ----------
    model : DIVE
        Fitted.
    path : path
        Where it was saved.
    json : bool
        Whether a program reads it.
    """
    from braindive.progression_words import progression_sentence

    # JSON has no NaN: null where nobody was seen twice.
    known_p = model.progression_p_ if np.isfinite(model.progression_p_ or 0.0) else None
    summary = {
        "model": str(path),
        "n_clusters": len(model.noise_),
        "n_subjects": len(model.subjects_),
        "n_visits": len(model.scores_),
        "n_vertices": model.n_vertices_,
        "progression_found": model.progression_found_,
        "progression_p": known_p,
        "n_iter": model.n_iter_,
        "stop_reason": model.stop_reason_,
        "spatial_strength": model.spatial_strength_,
        "log_likelihood": model.log_likelihood_,
        "aic": model.aic_,
        "bic": model.bic_,
    }
    effects = getattr(model, "effects_", None)
    if effects is not None:
        summary["effects"] = effects.to_dict("records")
    if model.sites is not None:
        summary["sites"] = bd.site_table(model).reset_index().to_dict("records")
    if json:
        print_json(summary)
        return
    judged = progression_sentence(model)
    if known_p is not None and judged in model.warnings_:
        # The warning has been said above, with what it means.
        judged = f"{judged.partition(':')[0]}; see the warning."
    output.print(judged, markup=False)
    # Counts add up to the number of vertices; rounded sums of probabilities need not.
    counts = np.bincount(model.labels_, minlength=len(model.noise_))
    sizes = ", ".join(f"{size:,}" for size in counts)
    output.print(
        f"{path}: {len(model.noise_)} clusters of {sizes} vertices, {len(model.subjects_)} "
        f"subjects; {model.stop_reason_} after {model.n_iter_} passes.",
        markup=False,
    )
    if model.sites is not None:
        from braindive.site_tables import sites_in_words

        output.print(sites_in_words(model), markup=False, soft_wrap=True)
    if effects is not None:
        from braindive.effects import effects_in_words
        from braindive.score_names import score_is_in_years

        for sentence in effects_in_words(effects, score_is_in_years(model)):
            output.print(sentence, markup=False, soft_wrap=True)
