"""What the pages of docs/evidence say is computed from their tables."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

EVIDENCE = Path(__file__).parents[2] / "evidence"


@pytest.fixture
def choosing(monkeypatch):
    monkeypatch.syspath_prepend(str(EVIDENCE))
    import choosing

    yield choosing
    for name in ("choosing", "writing", "sizes"):
        sys.modules.pop(name, None)


def judged(n_true, kind, seed=0):
    """Numbers 2 to 5; likelihoods stop at the truth only where vertices are alike."""
    rows = []
    for n_clusters in (2, 3, 4, 5):
        level = 1000.0 * (min(n_clusters, n_true) if kind == "alike" else n_clusters)
        rows.append(
            {
                "n_true": n_true,
                "kind": kind,
                "seed": seed,
                "n_clusters": n_clusters,
                "aic": 10.0 * n_clusters - 2 * level,
                "bic": 70.0 * n_clusters - 2 * level,
                "log_likelihood": level,
                "held_out": level / 1e6,
                "held_out_se": 0.1,
                "held_out_folds": [level / 1e6, level / 1e6],
                "rand": 0.9 if n_clusters == n_true else 0.5,
                "rand_se": 0.01,
                "converged": n_clusters < 5,
                "all_groups": {
                    str(k): [10.0 if k <= n_true else -10.0, k] for k in range(1, n_clusters + 1)
                },
            }
        )
    return rows


def test_every_criterion_chooses_from_its_column(choosing):
    frame = pd.DataFrame(judged(3, "alike") + judged(3, "own") + judged(3, "people"))
    chosen = choosing.choices(frame, n_subjects=20).pivot_table(
        index="criterion", columns="kind", values="chosen"
    )
    priced = chosen.index.str.contains("labels counted")
    assert chosen.loc[~priced, "alike"].eq(3).all()
    likelihoods = ["AIC", "BIC", "BIC, n = vertices", "unseen subjects"]
    assert chosen.loc[likelihoods, ["own", "people"]].eq(5).all(axis=None)
    assert chosen.loc["stability", "own"] == 3
    assert chosen.loc["groups", "own"] == 3
    # A thousand labels are a price that no gain of this table pays.
    assert chosen.loc[["AIC, labels counted", "BIC, labels counted"], "own"].eq(2).all()


def test_distances_are_shares_of_the_true_number(choosing):
    chosen = pd.DataFrame(
        {
            "kind": ["alike", "alike", "own"],
            "n_true": [2, 2, 10],
            "seed": [0, 1, 0],
            "criterion": "AIC",
            "chosen": [2, 3, 5],
        }
    )
    table = choosing.distance_table(chosen)
    np.testing.assert_allclose(table.loc["AIC"], [0.25, 0.5])
    assert list(table.columns) == [
        "vertices of a cluster alike, below 10",
        "every vertex its own, 10 and more",
    ]


def test_the_page_names_the_closest_criterion_of_its_table(choosing, tmp_path):
    rows = [row for kind in choosing.KINDS for n_true in (2, 3) for row in judged(n_true, kind)]
    from sizes import TINY

    choosing.choosing_page({"more_clusters": rows}, TINY, tmp_path)
    page = (tmp_path / "choosing-clusters.md").read_text()
    assert "every vertex its own, below 10: **stability and groups** (0%)" in page
    assert "the largest number offered is chosen by AIC in 2 of 2" in page
    assert "≥5" in page
    assert "| every vertex its own, people differ | 2 | 2 | 1 of 1 |" in page
    assert "6 of 24 numbers (0 of 0 from 10 true clusters on)" in page
    assert "too few clusters in 0 of 6 cohorts and too many in 0" in page
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"choosing-clusters.md", "choosing.png", "choosing.tsv", "chosen.tsv"}
