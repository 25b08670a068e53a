"""Time leaspy on a table of visits. Run by the interpreter of an environment that has leaspy 2.

Usage: python leaspy_fit.py TABLE.csv ITERATIONS; prints the seconds on the last line.
"""

from __future__ import annotations

import sys
import time

import pandas as pd
from leaspy.io.data import Data
from leaspy.models import LogisticModel


def main(table: str, iterations: int) -> None:
    data = Data.from_dataframe(pd.read_csv(table))
    model = LogisticModel(name="benchmark", source_dimension=2)
    start = time.perf_counter()
    model.fit(data, "mcmc_saem", n_iter=iterations, seed=0, progress_bar=False)
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
