"""Offsets and scales of sites, vertex by vertex, at known stages."""

from dataclasses import replace

import numpy as np
import pytest

from braindive.dive.curves import Trajectories
from braindive.dive.site_offsets import (
    Sites,
    cluster_means,
    curve_directions,
    learn_one_site,
    learn_sites,
    site_basis,
    starting_directions,
)
from braindive.dive.timeline import Timeline
from braindive.values.backends import open_products

N_PEOPLE, N_VERTICES, N_SITES = 60, 120, 3


def nothing(n_vertices=N_VERTICES):
    shape, zeros = (N_SITES, n_vertices), np.zeros(n_vertices)
    names = tuple("abc")
    return Sites("site", names, np.zeros(shape), np.ones(shape), 1.0, zeros, zeros)


@pytest.fixture
def study(rng):
    """Values of two clusters with sites that add and multiply, and all that made them."""
    subjects = np.repeat(np.arange(N_PEOPLE), 3)
    timeline = Timeline.from_times(subjects, np.tile([0.0, 1.0, 2.0], N_PEOPLE))
    shifts = rng.normal(0, 3, N_PEOPLE)
    scores = timeline.scores(np.ones(N_PEOPLE), shifts)
    curves = Trajectories(
        np.array([-2.0, -2.0]), np.array([1.0, 1.0]), np.array([-1.0, 2.0]), np.zeros(2)
    )
    z = np.repeat(np.eye(2), N_VERTICES // 2, axis=0)
    # People who are further on are seen at later sites, and some change.
    sites = np.clip(np.digitize(shifts, [-2.0, 2.0]), 0, 2)[subjects]
    sites[1::3] = np.where(np.arange(N_PEOPLE) % 5 == 0, (sites[1::3] + 1) % 3, sites[1::3])
    offsets = 0.5 * rng.normal(size=(N_SITES, N_VERTICES))
    offsets -= np.bincount(sites) @ offsets / len(sites)
    scales = np.exp(0.4 * rng.normal(size=(N_SITES, 1)) + 0.1 * rng.normal(size=offsets.shape))
    noise = 0.2 * rng.normal(size=(len(sites), N_VERTICES))
    levels = rng.normal(0, 0.2, (N_PEOPLE, N_VERTICES))[subjects]
    plain = curves.evaluate(scores) @ z.T + levels
    return timeline, sites, curves, scores, z, plain, noise, offsets, scales


def learn(study, values):
    timeline, sites, curves, scores, z, *_ = study
    products = open_products(values)
    course = curve_directions(curves, scores)
    return learn_sites(products, timeline, sites, nothing(), course, z)[0]


def test_offsets_and_scales_are_found_though_sites_differ_in_stages(study):
    *_, plain, noise, offsets, scales = study
    _, sites, *_ = study
    found = learn(study, plain + offsets[sites] + scales[sites] * noise)
    assert np.corrcoef(found.offsets.ravel(), offsets.ravel())[0, 1] > 0.95
    assert np.sqrt(np.mean((found.offsets - offsets) ** 2)) < 0.3 * offsets.std()
    assert np.corrcoef(np.log(found.scales).ravel(), np.log(scales).ravel())[0, 1] > 0.9


def test_sites_without_effects_get_none(study):
    *_, plain, noise, _, _ = study
    found = learn(study, plain + noise)
    assert np.abs(found.offsets - found.offsets.mean(axis=1, keepdims=True)).max() < 0.05
    assert np.abs(np.log(found.scales)).max() < 0.15


def test_offsets_average_zero_over_visits(study):
    *_, plain, noise, offsets, _ = study
    _, sites, *_ = study
    found = learn(study, plain + offsets[sites] + noise)
    np.testing.assert_allclose(np.bincount(sites) @ found.offsets, 0.0, atol=1e-8)
    basis = site_basis(sites, N_SITES)
    np.testing.assert_allclose(basis.T @ basis, np.eye(N_SITES - 1), atol=1e-12)


def test_a_course_of_its_own_is_not_taken_for_a_site(study):
    """Vertices that are later than their cluster, where a site has people who are further on."""
    timeline, sites, curves, scores, z, _, noise, *_ = study
    later = replace(curves, midpoint=curves.midpoint + 1.5)
    values = curves.evaluate(scores) @ z.T + noise
    values[:, :20] += (later.evaluate(scores) - curves.evaluate(scores))[:, :1]
    found, _ = learn_sites(
        open_products(values), timeline, sites, nothing(), curve_directions(curves, scores), z
    )
    blind, _ = learn_sites(
        open_products(values), timeline, sites, nothing(), np.zeros((len(sites), 0)), z
    )
    assert np.abs(found.offsets[:, :20]).max() < 0.1
    assert np.abs(blind.offsets[:, :20]).max() > 0.2


def test_means_of_clusters_are_those_that_were_asked_for(study, rng):
    timeline, sites, curves, scores, z, plain, noise, offsets, _ = study
    z = rng.dirichlet([1, 1], N_VERTICES)
    products = open_products(plain + offsets[sites] + noise)
    means = rng.normal(size=(N_SITES, 2))
    means -= np.bincount(sites) @ means / len(sites)
    found, _ = learn_sites(
        products, timeline, sites, nothing(), curve_directions(curves, scores), z, means
    )
    np.testing.assert_allclose(found.cluster_offsets(z, products.unit.scale), means, atol=1e-8)
    moved = found.moved(z, np.ones((N_SITES, 2)), products.unit.scale)
    np.testing.assert_allclose(moved.cluster_offsets(z, products.unit.scale), means + 1, atol=1e-8)


@pytest.mark.parametrize("size", [1.0, 0.15])
def test_the_effective_number_of_offsets_is_the_trace_of_what_they_hang_on(study, rng, size):
    """By random directions in which all values are moved a little (Hutchinson)."""
    timeline, sites, curves, scores, z, plain, noise, offsets, _ = study
    values, course = plain + size * offsets[sites] + noise, curve_directions(curves, scores)

    def look(values):
        return learn_sites(open_products(values), timeline, sites, nothing(), course, z)

    traces, step = [], 1e-3
    for _ in range(30):
        way = rng.choice([-1.0, 1.0], values.shape)
        one, other = (look(values + sign * step * way)[0].offsets for sign in (1, -1))
        traces.append(np.sum(way * (one - other)[sites]) / (2 * step))
    freedom = look(values)[1]
    error = np.std(traces) / np.sqrt(len(traces))
    assert freedom == pytest.approx(np.mean(traces), abs=0.02 * freedom + 3 * error)
    # Nothing is shrunk where offsets are large, and two means of clusters never are.
    most = (N_SITES - 1) * N_VERTICES
    assert (freedom > 0.9 * most) if size == 1.0 else (2 * (N_SITES - 1) < freedom < 0.8 * most)


def test_one_more_site_is_learnt_at_known_stages(study, rng):
    timeline, _, curves, scores, z, plain, noise, *_ = study
    new = 0.6 * rng.normal(size=N_VERTICES)
    products = open_products(plain + new + 1.8 * noise)
    known = replace(
        nothing(),
        variances=np.full(N_VERTICES, 0.2**2 / products.unit.scale**2),
        levels=np.full(N_VERTICES, -products.unit.offset / products.unit.scale),
    )
    standard = curves.evaluate(scores) / products.unit.scale
    means = cluster_means(new[None], z)[0] / products.unit.scale
    found = learn_one_site(products, timeline, known, "d", standard, z, means)
    assert found.names == ("a", "b", "c", "d")
    assert np.corrcoef(found.offsets[-1], new)[0, 1] > 0.97
    assert np.exp(np.log(found.scales[-1]).mean()) == pytest.approx(1.8, rel=0.1)
    np.testing.assert_array_equal(found.offsets[:-1], known.offsets)


def test_before_a_fit_controls_and_others_may_differ_and_change():
    timeline = Timeline.from_times(np.array([0, 0, 1, 1]), np.array([0.0, 2.0, 0.0, 2.0]))
    found = starting_directions(timeline, np.array([0, 1]))
    time = timeline.times
    expected = np.column_stack([[1, 1, 0, 0], [*time[:2], 0, 0], [0, 0, *time[2:]]])
    np.testing.assert_allclose(found, expected)
