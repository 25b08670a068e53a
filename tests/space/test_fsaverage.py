"""What is known of fsaverage5 and its relatives."""

import numpy as np
import pytest
from nilearn.datasets import load_fsaverage, load_fsaverage_data

import braindive as bd
from braindive.space import Hemisphere
from braindive.space.fsaverage import (
    BUILT_IN,
    FAMILY,
    begins_with_fsaverage5,
    fsaverage5,
    fsaverage5_mesh,
    fsaverage5_values,
)


@pytest.fixture
def sphere():
    return fsaverage5("fsaverage5-left").hemispheres[0]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("shape", ["sphere", "pial", "inflated"])
def test_meshes_are_those_of_nilearn(shape, side):
    points, faces = fsaverage5_mesh(shape, side)
    mesh = load_fsaverage("fsaverage5")[shape].parts[side]
    np.testing.assert_array_equal(points, mesh.coordinates)
    np.testing.assert_array_equal(faces, mesh.faces)


@pytest.mark.parametrize(
    ("measure", "theirs"), [("thickness", "thickness"), ("sulcal depth", "sulcal")]
)
def test_values_are_those_of_nilearn(measure, theirs):
    image = load_fsaverage_data("fsaverage5", data_type=theirs, mesh_type="pial")
    np.testing.assert_array_equal(fsaverage5_values(measure, "right"), image.data.parts["right"])


def test_built_in_spaces_are_loaded_by_their_names():
    for name, sides in BUILT_IN.items():
        assert bd.load_space(name).sides == sides
        assert {part.n_mesh for part in bd.load_space(name).hemispheres} == {10242}


def test_a_family_has_the_sizes_of_a_divided_icosahedron():
    assert list(FAMILY) == [10 * 4**order + 2 for order in (3, 4, 5, 6, 7)]


def test_spheres_are_known_by_their_directions_whatever_their_name(sphere, rng):
    more = rng.normal(size=(30_720, 3))
    more /= np.linalg.norm(more, axis=1, keepdims=True)
    finer = np.concatenate([2 * sphere.coordinates, 200 * more])
    assert begins_with_fsaverage5(Hemisphere("left", finer, sphere.faces), "mine")
    shuffled = rng.permutation(sphere.coordinates)
    assert not begins_with_fsaverage5(Hemisphere("left", shuffled, sphere.faces), "fsaverage5")
    fewer = Hemisphere("left", sphere.coordinates[:2562], [[0, 1, 2]])
    assert not begins_with_fsaverage5(fewer, "fsaverage4")


def test_folded_meshes_are_believed_by_their_size_and_name():
    points, faces = fsaverage5_mesh("pial", "left")
    folded = Hemisphere("left", points, faces)
    assert begins_with_fsaverage5(folded, "fsaverage5")
    assert not begins_with_fsaverage5(folded, "sub-01")
    longer = Hemisphere("left", np.concatenate([points, points[:1]]), faces)
    assert not begins_with_fsaverage5(longer, "fsaverage5")
