"""What clusters are called wherever people read about them: in figures, tables, maps and texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ClusterFrame", "NamedClusters", "cluster_frame", "display_names"]

ClusterFrame: TypeAlias = "pd.DataFrame"
"""Table with a row for each cluster; floors that see arrays only need no more of it."""


class NamedClusters(Protocol):
    """What the names are made from."""

    cluster_names_: Any

    @property
    def assignments(self) -> object:
        """The given region of each vertex; None where clusters were found."""


def display_names(model: NamedClusters, word: str = "cluster") -> list[str]:
    """Names of a model's clusters, from the earliest to the latest.

    Clusters that were found are numbered from 1, although `labels_` counts from 0 as arrays do.
    Where `assignments` were given, a region keeps its own name; a region whose name is a whole
    number, as in the label image of an atlas, is called by that number, such as "region 11", so
    that it cannot be taken for a position in the order of the clusters.

    Parameters
    ----------
    model : DIVE
        Fitted.
    word : str
        Goes before the number of a cluster that was found; "" where a title already says it.

    Returns
    -------
    list of str
        One name for each cluster.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from braindive.cluster_names import display_names
    >>> display_names(SimpleNamespace(assignments=None, cluster_names_=[0, 1]))
    ['cluster 1', 'cluster 2']
    >>> display_names(SimpleNamespace(assignments=[11, 12, 11], cluster_names_=[12, 11]))
    ['region 12', 'region 11']
    >>> display_names(SimpleNamespace(assignments=["hip", "ent"], cluster_names_=["ent", "hip"]))
    ['ent', 'hip']
    """
    if model.assignments is None:
        return [f"{word} {k + 1}".lstrip() for k in range(len(model.cluster_names_))]
    return [
        f"region {name}" if isinstance(name, (int, np.integer)) else str(name)
        for name in model.cluster_names_
    ]


def cluster_frame(columns: Mapping[str, Any]) -> ClusterFrame:
    """Table with a row for each cluster, numbered from 1.

    Parameters
    ----------
    columns : mapping of str to (n_clusters,)
        What there is to say of each cluster, from the earliest to the latest.

    Examples
    --------
    >>> from braindive.cluster_names import cluster_frame
    >>> cluster_frame({"midpoint": [0.0, 4.5]}).loc[2, "midpoint"]
    np.float64(4.5)
    """
    import pandas as pd

    table = pd.DataFrame(dict(columns))
    table.index = pd.RangeIndex(1, len(table) + 1, name="cluster")
    return table
