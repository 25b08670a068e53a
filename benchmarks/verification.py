"""What the checksums of a packed cohort cost: the first pass of an opening, and every later one.

    python benchmarks/verification.py --visits 400 --vertices 40000 --repeats 7

Passes with and without checksums, by turns, in CPU time; a pass is the read of all values with the
products of an iteration, and the first of an opening compares every chunk with its checksum.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd

import braindive as bd
from braindive.values.backends import open_products
from braindive.values.chunks import Chunks


def make_store(folder: Path, n_visits: int, n_vertices: int) -> Path:
    random = np.random.default_rng(0)
    values = random.standard_normal((n_visits, n_vertices), dtype=np.float32)
    table = pd.DataFrame(
        {"participant_id": np.arange(n_visits) // 4, "age": 60 + np.arange(n_visits) % 4}
    ).astype(str)
    measured = pd.DataFrame(values, columns=[f"vertex_{i}" for i in range(n_vertices)])
    return bd.pack_cohort(pd.concat([table, measured], axis=1), folder / "study.zarr")


def time_pass(products: object, responsibilities: np.ndarray) -> float:
    begin = time.process_time()
    products.pool(responsibilities)  # type: ignore[attr-defined]
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--visits", type=int, default=400)
    parser.add_argument("--vertices", type=int, default=40000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = make_store(Path(folder), options.visits, options.vertices)
        checked: Chunks = bd.open_packed(path).stored  # type: ignore[assignment]
        shares = np.full((options.vertices, 3), 1 / 3)
        times: dict[str, list[float]] = {"first": [], "later": [], "plain": []}
        for _ in range(options.repeats):
            fresh = Chunks(
                checked._files, checked.shape, checked.chunks[1], checked.dtype,
                checksums=checked.checksums,
            )  # fmt: skip
            plain = Chunks(checked._files, checked.shape, checked.chunks[1], checked.dtype)
            unit = open_products(plain, n_jobs=1).unit
            with_sums = open_products(fresh, n_jobs=1, unit=unit)
            without = open_products(plain, n_jobs=1, unit=unit)
            times["first"].append(time_pass(with_sums, shares))
            times["plain"].append(time_pass(without, shares))
            times["later"].append(time_pass(with_sums, shares))
            times["plain"].append(time_pass(without, shares))
        usual = median(times["plain"])
        print(f"{options.visits} visits x {options.vertices:,} vertices, {options.repeats} turns")
        print(f"a pass without checksums: {usual * 1e3:.1f} ms of CPU time")
        for name in ("first", "later"):
            print(f"the {name} pass with checksums: {median(times[name]) / usual - 1:+.1%}")


if __name__ == "__main__":
    main()
