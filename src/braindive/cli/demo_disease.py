"""The made-up disease of the demo: it spreads over a real cortex as dementias do."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

import braindive as bd
from braindive.arrays import Array, IntArray
from braindive.space.fsaverage import fsaverage5, fsaverage5_mesh, fsaverage5_values

# Where it begins, in millimetres from the anterior commissure (x is the distance from the
# midline), and how many millimetres of spread each place lags behind the first.
_SEEDS = {
    "entorhinal cortex": ((24.0, -10.0, -32.0), 0.0),
    "posterior cingulate": ((6.0, -48.0, 28.0), 12.0),
    "inferior parietal lobule": ((48.0, -60.0, 36.0), 42.0),
    "middle frontal gyrus": ((42.0, 24.0, 38.0), 62.0),
}
# Shares of the cortex that are reached at the end of each stage.
_REACHED = (0.12, 0.36, 0.68)
# Thinner than any cortex: the medial wall, where fsaverage5 has no cortex to measure.
_NO_CORTEX = 1.0


def demo_cortex() -> bd.Surface:
    """Return fsaverage5 without its medial wall."""
    space = fsaverage5()
    thickness = [fsaverage5_values("thickness", side) for side in space.sides]
    return space.restrict(np.concatenate(thickness) > _NO_CORTEX)


def demo_stages(space: bd.Surface) -> IntArray:
    """Stage in which the disease reaches each vertex, 0 to 3: by the way along the surface."""
    delays = [
        _delays(part.side, *fsaverage5_mesh("pial", part.side))[part.mask]
        for part in space.hemispheres
    ]
    delay = np.concatenate(delays)
    return np.searchsorted(np.quantile(delay, _REACHED), delay).astype(np.int64)


def _delays(side: str, points: Array, faces: IntArray) -> Array:
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    lengths = np.linalg.norm(points[ends[:, 0]] - points[ends[:, 1]], axis=1)
    # Every edge comes from two triangles, once in each direction.
    graph = sparse.csr_array((lengths, ends.T), shape=(len(points), len(points)))
    reached = []
    for place, lag in _SEEDS.values():
        target = np.array(place) * ([-1, 1, 1] if side == "left" else [1, 1, 1])
        seed = int(np.linalg.norm(points - target, axis=1).argmin())
        reached.append(lag + dijkstra(graph, directed=False, indices=seed))
    return np.asarray(np.min(reached, axis=0))
