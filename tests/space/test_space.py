"""Spaces: columns, masks and neighbours."""

from collections import deque

import numpy as np
import pytest
from scipy import sparse

import braindive as bd
from braindive.errors import ParameterError
from braindive.space import Hemisphere, space_from_arrays


def grid_mesh(rows, columns):
    """A flat sheet of squares cut into triangles."""
    coordinates = [(x, y, 0.0) for y in range(rows) for x in range(columns)]
    faces = []
    for y in range(rows - 1):
        for x in range(columns - 1):
            here = y * columns + x
            faces += [
                (here, here + 1, here + columns),
                (here + 1, here + columns + 1, here + columns),
            ]
    return np.array(coordinates), np.array(faces)


def reached_by_walking(faces, mask, order):
    """Adjacency by breadth-first search over measured vertices only."""
    n = len(mask)
    near = [set() for _ in range(n)]
    for a, b, c in faces:
        for i, j in ((a, b), (b, c), (c, a)):
            near[i].add(j)
            near[j].add(i)
    out = np.zeros((n, n))
    for start in np.flatnonzero(mask):
        distance, queue = {start: 0}, deque([start])
        while queue:
            here = queue.popleft()
            if distance[here] == order:
                continue
            for there in near[here]:
                if mask[there] and there not in distance:
                    distance[there] = distance[here] + 1
                    queue.append(there)
        out[start, [v for v in distance if v != start]] = 1
    return out[np.ix_(mask, mask)]


@pytest.fixture
def masked():
    coordinates, faces = grid_mesh(4, 5)
    mask = np.ones(20, dtype=bool)
    mask[[7, 12, 13]] = False
    return bd.Surface(
        "sheet",
        (Hemisphere("left", coordinates, faces, mask), Hemisphere("right", coordinates, faces)),
    )


@pytest.mark.parametrize("order", [1, 2, 3])
def test_graph_is_what_a_walk_inside_the_mask_reaches(masked, order):
    expected = sparse.block_diag(
        [reached_by_walking(part.faces, part.mask, order) for part in masked.hemispheres]
    ).toarray()
    np.testing.assert_array_equal(masked.graph(order).toarray(), expected)


def test_medial_wall_does_not_bridge_paths():
    coordinates, faces = grid_mesh(2, 3)
    mask = np.array([True, False, True, True, False, True])
    space = bd.Surface("gap", (Hemisphere("left", coordinates, faces, mask),))
    assert space.graph(3).toarray()[0].tolist() == [0, 0, 1, 0]


def test_split_and_join_are_inverse_and_fill_the_medial_wall(masked, rng):
    values = rng.normal(size=(2, masked.n_vertices))
    parts = masked.split(values)
    assert parts["left"].shape == (2, 20)
    assert np.isnan(parts["left"][:, [7, 12, 13]]).all()
    assert not np.isnan(parts["right"]).any()
    np.testing.assert_array_equal(masked.join(parts), values)


def test_split_keeps_the_type_of_labels(masked):
    labels = np.arange(masked.n_vertices, dtype=np.int32)
    assert masked.split(labels, fill=-1)["left"].dtype == np.int32


@pytest.mark.parametrize(("neighbourhood", "most"), [(6, 1), (18, 2), (26, 3)])
def test_volume_neighbours_agree_with_distances(rng, neighbourhood, most):
    mask = rng.random((4, 3, 5)) < 0.6
    space = bd.Volume("blob", mask, np.eye(4), neighbourhood)
    voxels = np.argwhere(mask)
    gap = np.abs(voxels[:, None] - voxels[None])
    expected = (gap.max(axis=2) == 1) & (gap.sum(axis=2) <= most)
    np.testing.assert_array_equal(space.graph().toarray(), expected)


def test_unmask_puts_columns_back_in_c_order(rng):
    mask = rng.random((4, 3, 5)) < 0.6
    space = bd.Volume("blob", mask, np.eye(4))
    data = rng.normal(size=(4, 3, 5))
    volume = space.unmask(data[mask], fill=0)
    np.testing.assert_array_equal(volume, np.where(mask, data, 0))
    stack = space.unmask(np.stack([data[mask], 2 * data[mask]]))
    np.testing.assert_array_equal(stack[mask], np.stack([data[mask], 2 * data[mask]], axis=1))


def test_regions_may_have_no_edges():
    space = bd.Regions("lobes", ("a", "b"))
    assert space.graph().shape == (2, 2)
    assert space.graph().nnz == 0


def test_spaces_survive_an_npz_file_without_pickle(tmp_path, masked):
    volume = bd.Volume("cube", np.ones((2, 2, 2)), np.diag([2.0, 2, 2, 1]), 18)
    regions = bd.Regions("lobes", ("a", "b", "c"), [[0, 2]])
    for space in (masked, volume, regions):
        np.savez(tmp_path / "space.npz", **space.to_arrays())
        with np.load(tmp_path / "space.npz", allow_pickle=False) as arrays:
            again = space_from_arrays(arrays)
        assert type(again) is type(space)
        assert (again.name, again.n_vertices) == (space.name, space.n_vertices)
        np.testing.assert_array_equal(again.graph(2).toarray(), space.graph(2).toarray())


def test_restrict_gives_the_graph_of_the_columns_that_stay(masked, rng):
    volume = bd.Volume("cube", np.ones((2, 3, 2)), np.eye(4))
    regions = bd.Regions("lobes", ("a", "b", "c"), [[0, 1], [1, 2]])
    for space in (masked, volume, regions):
        keep = rng.random(space.n_vertices) < 0.7
        part = space.restrict(keep)
        np.testing.assert_array_equal(
            part.graph().toarray(), space.graph().toarray()[np.ix_(keep, keep)]
        )


def test_fsaverage5_has_the_neighbours_of_nilearns_mesh():
    space = bd.load_space("fsaverage5")
    assert space.n_vertices == 20484
    # A closed triangulated sphere has 3 n - 6 edges.
    assert space.graph().nnz // 2 == 2 * (3 * 10242 - 6)
    assert bd.load_space("fsaverage5-right").sides == ("right",)


def test_meshes_that_do_not_fit_together_are_refused():
    coordinates, faces = grid_mesh(2, 3)
    with pytest.raises(ParameterError, match="the left mesh has 5"):
        Hemisphere("left", coordinates[:5], faces)
    with pytest.raises(ParameterError, match="mask has shape"):
        Hemisphere("left", coordinates, faces, [True])
    with pytest.raises(ParameterError, match="in this order"):
        bd.Surface(
            "s", (Hemisphere("right", coordinates, faces), Hemisphere("left", coordinates, faces))
        )
    with pytest.raises(ParameterError, match="order must be"):
        bd.Surface.from_mesh("s", coordinates, faces).graph(0)


def test_stored_space_of_unknown_kind_is_refused():
    with pytest.raises(ParameterError, match="surface or volume or regions"):
        space_from_arrays({"kind": np.array("torus")})
