"""Parcellations that agree by chance: as large and as smooth as the real ones, but elsewhere.

Neighbouring vertices belong to the same cluster, so that two parcellations overlap by more than
shuffled labels would. On spheres labels are spun (Alexander-Bloch et al. 2018); elsewhere smooth
random maps are cut into clusters of the same sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from braindive.arrays import Array, IntArray
from braindive.space import Space, Surface
from braindive.space.smoothing import smooth_over_graph
from braindive.space.surface import Hemisphere

# Variation of the distances from the centre below which a mesh is a sphere, as a share of their
# mean: spheres of FreeSurfer have a millionth, inflated surfaces a third. A choice between them.
_ROUND = 0.01
# Rounds of averaging that are tried for maps as smooth as the labels. A choice.
_ROUNDS = (0, 1, 2, 3, 5, 8, 12, 20, 30, 50, 80)


def null_kind(space: Space | None, graph: Any) -> str:
    """How labels are moved by chance: "spins", "smooth maps" or "shuffled vertices".

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.evaluation.spatial_null import null_kind
    >>> null_kind(bd.load_space("fsaverage5"), None)
    'spins'
    """
    if isinstance(space, Surface) and all(_is_sphere(part) for part in space.hemispheres):
        return "spins"
    return "smooth maps" if graph is not None and graph.nnz else "shuffled vertices"


def moved_by_chance(
    labels: IntArray, space: Space | None, graph: Any, n_times: int, random: np.random.Generator
) -> Iterator[IntArray]:
    """Give labels that have been moved by chance, again and again.

    Parameters
    ----------
    labels : (n_vertices,) int
        From 0.
    space, graph
        Where the vertices lie, and which are neighbours, where it is known.
    n_times : int
        How often.
    random : numpy.random.Generator
        For the draws.

    Yields
    ------
    (n_vertices,) int
        -1 where a spun vertex comes from the medial wall.
    """
    kind = null_kind(space, graph)
    if kind == "spins":
        assert isinstance(space, Surface)
        for _ in range(n_times):
            yield _spun(labels, space, random)
        return
    rounds = _as_smooth_as(labels, graph, random) if kind == "smooth maps" else 0
    for _ in range(n_times):
        yield _cut(labels, graph, rounds, random)


def _is_sphere(part: Hemisphere) -> bool:
    distances = np.linalg.norm(part.coordinates, axis=1)
    return bool(distances.std() < _ROUND * distances.mean())


def _spun(labels: IntArray, space: Surface, random: np.random.Generator) -> IntArray:
    """Labels after one random rotation, mirrored on the right hemisphere."""
    turn, _ = np.linalg.qr(random.standard_normal((3, 3)))
    turn[:, 0] *= np.sign(np.linalg.det(turn))
    mirror = np.diag([-1.0, 1.0, 1.0])
    found, done = np.empty_like(labels), 0
    for part in space.hemispheres:
        own = slice(done, done + part.n_measured)
        done = own.stop
        rotation = turn if part.side == "left" else mirror @ turn @ mirror
        on_mesh = np.full(part.n_mesh, -1)
        on_mesh[part.mask] = labels[own]
        _, nearest = cKDTree(part.coordinates @ rotation.T).query(part.coordinates[part.mask])
        found[own] = on_mesh[nearest]
    return found


def _cut(labels: IntArray, graph: Any, rounds: int, random: np.random.Generator) -> IntArray:
    """A smooth random map, cut into as many clusters of the same sizes, in random order."""
    field: Array = random.standard_normal((len(labels), 1))
    if rounds:
        field = smooth_over_graph(field, graph, rounds)
    names, sizes = np.unique(labels, return_counts=True)
    order = random.permutation(len(names))
    found = np.empty_like(labels)
    found[np.argsort(field[:, 0], kind="stable")] = np.repeat(names[order], sizes[order])
    return found


def _as_smooth_as(labels: IntArray, graph: Any, random: np.random.Generator) -> int:
    """Rounds of averaging after which neighbours agree about as often as those of the labels."""
    rows, columns = graph.nonzero()
    wanted = np.mean(labels[rows] == labels[columns])
    away = []
    for rounds in _ROUNDS:
        drawn = [_cut(labels, graph, rounds, random) for _ in range(3)]
        found = np.mean([np.mean(each[rows] == each[columns]) for each in drawn])
        away.append(abs(found - wanted))
    return _ROUNDS[int(np.argmin(away))]
