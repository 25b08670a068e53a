"""Covariance matrices as numbers that may take any value, for E and B of the marginal model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from braindive.arrays import Array, IntArray


@dataclass(frozen=True)
class Roots:
    """Any matrix, by what its Cholesky factor is in units of that from which a fit begins.

    Log-diagonals and unit triangles, whose information is nearly diagonal.

    Parameters
    ----------
    unit : (n, n)
        Cholesky factor.
    """

    unit: Array

    @classmethod
    def of(cls, matrix: Array) -> Roots:
        """In units of a matrix."""
        return cls(np.linalg.cholesky(matrix))

    @property
    def n_numbers(self) -> int:
        """How many: n (n + 1) / 2."""
        n = len(self.unit)
        return n * (n + 1) // 2

    def pack(self, matrix: Array) -> Array:
        """Numbers of a matrix."""
        root = np.linalg.solve(self.unit, np.linalg.cholesky(matrix))
        size = np.diag(root)
        return np.concatenate([np.log(size), (root / size[:, None])[_triangle(len(root))]])

    def unpack(self, numbers: Array) -> Array:
        """Return the matrix of the numbers."""
        root = self.unit @ self._relative(numbers)
        return np.asarray(root @ root.T)

    def gradients(self, by_matrix: Array, numbers: Array) -> Array:
        """From gradients by the matrix (..., n, n) to those by its numbers."""
        n, unit, root = len(self.unit), self.unit, self._relative(numbers)
        by_root = 2 * (unit.T @ by_matrix @ unit) @ root
        rows, columns = _triangle(n)
        scale = np.exp(numbers[:n])
        return np.concatenate(
            [np.sum(by_root * root, axis=-1), by_root[..., rows, columns] * scale[rows]], axis=-1
        )

    def derivatives(self, numbers: Array) -> Array:
        """Of the matrix by each of its numbers, (n_numbers, n, n)."""
        half = self.unit @ self._of_root(numbers) @ (self.unit @ self._relative(numbers)).T
        return np.asarray(half + half.swapaxes(1, 2))

    def second_derivatives(self, by_matrix: Array, numbers: Array) -> Array:
        """Of a function by the numbers, as far as they come from those of the matrix by them.

        Parameters
        ----------
        by_matrix : (n, n)
            Gradient of the function by the matrix.
        numbers : (n_numbers,)
            Of the matrix.

        Returns
        -------
        (n_numbers, n_numbers) array
        """
        n, root, of_root = len(self.unit), self._relative(numbers), self._of_root(numbers)
        by_product = self.unit.T @ by_matrix @ self.unit
        flat = of_root.reshape(len(of_root), -1)
        found = 2 * (by_product @ of_root).reshape(len(of_root), -1) @ flat.T
        # The root itself bends with the log-diagonals alone.
        by_root = 2 * (by_product @ root) * root
        rows, columns = _triangle(n)
        places = n + np.arange(len(rows))
        found[np.arange(n), np.arange(n)] += by_root.sum(axis=1)
        mixed = 2 * (by_product @ root)[rows, columns] * np.exp(numbers[:n])[rows]
        found[rows, places] += mixed
        found[places, rows] += mixed
        return np.asarray(found)

    def _of_root(self, numbers: Array) -> Array:
        """Derivatives of the relative root by its numbers, (n_numbers, n, n)."""
        n, (rows, columns) = len(self.unit), _triangle(len(self.unit))
        found = np.zeros((self.n_numbers, n, n))
        found[np.arange(n), np.arange(n)] = self._relative(numbers)
        found[n + np.arange(len(rows)), rows, columns] = np.exp(numbers[:n])[rows]
        return found

    def prior_curvature(self, worth: float) -> Array:
        """2 for a log-diagonal and 1 for another number of every observation."""
        found = np.full(self.n_numbers, worth)
        found[: len(self.unit)] *= 2
        return found

    def _relative(self, numbers: Array) -> Array:
        n = len(self.unit)
        root = np.eye(n)
        root[_triangle(n)] = numbers[n:]
        return np.asarray(root * np.exp(numbers[:n])[:, None])


@cache
def _triangle(n: int) -> tuple[IntArray, IntArray]:
    """Rows and columns below the diagonal: asked for at every step."""
    return np.tril_indices(n, -1)
