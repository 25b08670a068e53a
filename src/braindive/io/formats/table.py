"""Tables: one row for each vertex or region."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from braindive.io.formats.base import Format, Writer
from braindive.io.formats.contents import OUTSIDE, LabelFile, LabelMap, ScalarMaps
from braindive.space import Regions


def _read_table_labels(path: Path) -> LabelFile:
    """Numbers or names of regions in the last column."""
    table = pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",")
    column = table[table.columns[-1]]
    if column.dtype.kind in "iuf":
        return LabelFile(column.to_numpy())
    known = column.where(~column.str.lower().isin(OUTSIDE))
    return LabelFile(np.asarray(pd.factorize(known, sort=True)[0]) + 1)


def _write_table(path: Path, labels: LabelMap, groups: Mapping[str, ScalarMaps]) -> None:
    columns: dict[str, Any] = {}
    if isinstance(labels.space, Regions):
        columns["region"] = list(labels.space.names)
    else:
        columns["vertex"] = np.arange(len(labels.values))
    columns["cluster"] = labels.values
    for group, part in groups.items():
        for name, values in zip(part.names or (), part.values, strict=True):
            columns[f"{group}: {name}"] = values
    pd.DataFrame(columns).to_csv(path, sep="\t", index=False)


TABLE = Format(
    "table",
    suffixes=(".tsv", ".csv", ".txt"),
    read_labels=_read_table_labels,
    writer=Writer(
        ".tsv",
        write_together=_write_table,
        maps=("surface", "volume", "regions"),
        is_default=lambda space: space is None or isinstance(space, Regions),
    ),
)
