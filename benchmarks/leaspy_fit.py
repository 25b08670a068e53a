"""Time leaspy on a table of visits. Run by the interpreter of an environment that has leaspy 2.

Usage: python leaspy_fit.py TABLE.csv ITERATIONS...; for each number of iterations prints the CPU
seconds of a fit on one thread, on one line at the end.
"""

from __future__ import annotations

import sys
import time

import pandas as pd
import torch
from leaspy.io.data import Data
from leaspy.models import LogisticModel


def main(table: str, *iterations: str) -> None:
    torch.set_num_threads(1)
    visits = pd.read_csv(table)
    times = []
    for number in iterations:
        model = LogisticModel(name="benchmark", source_dimension=2)
        start = time.process_time()
        model.fit(
            Data.from_dataframe(visits),
            "mcmc_saem",
            n_iter=int(number),
            seed=0,
            progress_bar=False,
        )
        times.append(time.process_time() - start)
    print(*times)


if __name__ == "__main__":
    main(*sys.argv[1:])
