"""Colours, the same in every figure, in the report and in map files: of clusters and of values."""

from __future__ import annotations

import math

from braindive.arrays import Array

__all__ = ["channels_of", "cluster_colours", "low_is_dark"]

# A path through OKLCH, a space in which equal steps look equally large. Lightness only rises, so
# that the order survives in grey and for every kind of colour blindness, and stays between the
# extremes, so that both ends stand out on white and on black paper.
_FIRST = (0.45, 0.16, 302.0)  # lightness, chroma, hue in degrees: violet
_LAST = (0.87, 0.17, 98.0)  # yellow
_DIP = 0.045  # less chroma half-way, where screens cannot show saturated teal


def cluster_colours(n: int) -> list[str]:
    """Colours for ``n`` clusters, ordered from the earliest (violet) to the latest (yellow).

    Parameters
    ----------
    n : int
        Number of clusters.

    Returns
    -------
    list of str
        One ``#rrggbb`` per cluster, its lightness rising with the order.

    Examples
    --------
    >>> import braindive.palette
    >>> len(braindive.palette.cluster_colours(3))
    3
    """
    if n == 1:
        return [_colour_at(0.35)]
    return [_colour_at(index / (n - 1)) for index in range(n)]


def channels_of(colour: str) -> tuple[int, int, int]:
    """Red, green and blue of a ``#rrggbb``, as integers from 0 to 255.

    Examples
    --------
    >>> import braindive.palette
    >>> braindive.palette.channels_of("#ff8000")
    (255, 128, 0)
    """
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def low_is_dark(changes: Array, responsibilities: Array) -> bool:
    """Whether low values are the dark end of a scale of expected values: pathology is dark.

    Diseases thin the cortex and fill it with tracer, so that values fall in one cohort and rise in
    another. Where some clusters fall and others rise, the brain as a whole decides: the mean over
    vertices of their changes.

    Parameters
    ----------
    changes : (n_clusters,)
        From before to after the disease, in the unit of the values.
    responsibilities : (n_vertices, n_clusters)
        Probability of each cluster at each vertex.

    Returns
    -------
    bool
        True where values fall as the disease goes on.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.palette import low_is_dark
    >>> changes = np.array([-3.0, 1.0])
    >>> low_is_dark(changes, np.array([[1.0, 0.0], [0.0, 1.0]]))
    True
    >>> low_is_dark(changes, np.array([[1.0, 0.0]] + 9 * [[0.0, 1.0]]))
    False
    """
    shares = responsibilities.mean(axis=0)
    return bool(shares @ changes < 0)


def _colour_at(position: float) -> str:
    lightness, chroma, hue = (
        first + position * (last - first) for first, last in zip(_FIRST, _LAST, strict=True)
    )
    chroma -= _DIP * math.sin(math.pi * position)
    while (channels := _linear_rgb(lightness, chroma, hue)) and not all(
        -1e-4 <= channel <= 1 + 1e-4 for channel in channels
    ):
        chroma *= 0.98  # leave the hue and the lightness alone: they carry the order
    return "#" + "".join(f"{round(255 * _gamma(channel)):02x}" for channel in channels)


def _linear_rgb(lightness: float, chroma: float, hue: float) -> tuple[float, float, float]:
    """OKLCH to linear sRGB (Ottosson's matrices)."""
    a = chroma * math.cos(math.radians(hue))
    b = chroma * math.sin(math.radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )


def _gamma(channel: float) -> float:
    channel = min(max(channel, 0.0), 1.0)
    if channel <= 0.0031308:
        return 12.92 * channel
    return float(1.055 * channel ** (1 / 2.4) - 0.055)
