"""Run the published DIVE code, https://github.com/mrazvan22/dive, in a process of its own.

Usage: python authors_fit.py draw CODE SETTINGS.json ARRAYS.npz
       python authors_fit.py fit  CODE SETTINGS.json ARRAYS.npz ESTIMATES.npz

Run in an empty folder, into which the published code writes. `draw` makes a cohort with its own
generator, as in its synth.py; `fit` fits its model 8, which its README recommends, with the
options of its `make synthAll`.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np

# As in synth.py, where they stand inside a function.
N_VERTICES, N_VISITS = 1000, 4
YOUNGEST, OLDEST = 40, 80
FIRST_MIDPOINT, USUAL_INTERVAL = -1, 3
LOWEST, SLOPE = -5, -2
SPEED_AND_SHIFT_COVARIANCE = np.array([[0.05, 0], [0, 10]])
OPTIONS = ["--cluster", "--agg", "1", "--nrOuterIt", "10", "--nrInnerIt", "1", "--nrClust", "3"]
OPTIONS += ["--rangeFactor", "0", "--informPrior", "1", "--initClustering", "k-means"]


class NoFigures:
    """A plotter of which every method draws nothing, and a figure that is never saved."""

    def __init__(self, *_: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: NoFigures()


def load_code(folder: str) -> types.ModuleType:
    """Import the published synth.py, and let it run on current releases of its requirements."""
    import matplotlib
    import scipy.optimize
    import sklearn.experimental.enable_halving_search_cv  # noqa: F401

    matplotlib.use("Agg")
    warnings.simplefilter("ignore")
    # Names that numpy no longer has.
    for name, new in {
        "in1d": np.isin,
        "trapz": getattr(np, "trapezoid", None),
        "float": float,
        "int": int,
        "bool": bool,
    }.items():
        if name not in vars(np):
            setattr(np, name, new)
    # scipy no longer knows `xtol`, which would silently leave the wider default.
    minimize = scipy.optimize.minimize

    def minimize_as_then(*arguments: Any, **keywords: Any) -> Any:
        options = keywords.get("options") or {}
        if "xtol" in options:
            options = {("xatol" if key == "xtol" else key): x for key, x in options.items()}
            keywords["options"] = options | {"disp": False}
        return minimize(*arguments, **keywords)

    scipy.optimize.minimize = minimize_as_then

    sys.path.insert(0, folder)
    sys.argv = ["synth.py", *OPTIONS]
    # The modules import each other in a circle, which ends well only if this one comes first.
    importlib.import_module("evaluationFramework")
    aux, plotter = importlib.import_module("aux"), importlib.import_module("PlotterVDPM")
    models = [importlib.import_module(name) for name in ("voxelDPM", "VDPMMean", "VDPM_MRF")]
    for module in models:
        for name in vars(aux):
            if not name.startswith("_"):
                setattr(module, name, getattr(module, name, getattr(aux, name)))
    plotter.PlotterVDPM = plotter.PlotterVDPMSynth = NoFigures
    models[0].VoxelDPM.postFitAnalysis = lambda *_: None
    return importlib.import_module("synth")


def draw(code: types.ModuleType, settings: dict[str, Any]) -> dict[str, np.ndarray]:
    """Draw a cohort as synth.py does, with its own functions and its own seed."""
    n_clusters, interval = settings["n_clusters"], settings["interval"]
    np.random.seed(1)  # noqa: NPY002 (as synth.py does)
    curves = code.generateThetas(n_clusters, LOWEST, 0, SLOPE, 0, FIRST_MIDPOINT, interval)
    spread = [np.diag([0, b**2 / 15, USUAL_INTERVAL / 70, 0]) for b in curves[:, 1]]
    labels, vertex_curves = code.genClustAssThetasPerturb(N_VERTICES, n_clusters, curves, spread)
    drawn = code.generateClustData(
        settings["n_subjects"],
        N_VERTICES,
        n_clusters,
        N_VISITS,
        code.sigmoidFunc,
        curves,
        vertex_curves,
        labels,
        YOUNGEST,
        OLDEST,
        SPEED_AND_SHIFT_COVARIANCE,
        1,
        "cohort.pickle",
        True,
        code.VoxelDPM.makeThetasIdentif,
        {"plotTrajParams": {}},
    )
    truth = drawn["trueParams"]
    speeds, shifts = truth["subShiftsCross"].T
    return {
        "values": drawn["data"],
        "diagnoses": drawn["diag"],
        "visits": drawn["scanTimepts"],
        "subjects": drawn["partCode"],
        "ages": drawn["ageAtScan"],
        "labels": labels,
        "vertex_curves": vertex_curves,
        "scores": speeds * drawn["ageAtScan"] + shifts,
        "speeds": truth["subShiftsLong"][:, 0],
    }


def fit(code: types.ModuleType, settings: dict[str, Any], arrays: Any) -> dict[str, np.ndarray]:
    """Fit the published model, with its time on all cores and its memory beyond the arrays."""
    from measurement import peak_memory, resident_memory

    every_vertex = np.arange(N_VERTICES)
    parameters: dict[str, Any] = {
        "nrOuterIter": 10,
        "nrInnerIter": 1,
        "nrClust": settings["n_clusters"],
        "initClustering": "k-means",
        "rangeFactor": 0.0,
        "fixSpeed": False,
        "biomkDir": code.DECR,
        "patientID": code.AD,
        "pointIndices": every_vertex,
        "initClustSubsetInd": every_vertex,
        "nearNeighInitClust": every_vertex,
        "plotTrajParams": {},
        "trajFunc": code.sigmoidFunc,
        "data": arrays["values"],
        "diag": arrays["diagnoses"],
        "scanTimepts": arrays["visits"],
        "partCode": arrays["subjects"],
        "ageAtScan": arrays["ages"],
    }
    code.setPrior(parameters, 1)
    Path("resfiles/fit").mkdir(parents=True)
    builder = sys.modules["VDPMMean"].VDPMMeanBuilder(False)
    every_visit = np.ones(len(arrays["ages"]), dtype=bool)
    before, start = resident_memory(), time.process_time()
    model = builder.generate(every_visit, "fit", parameters)
    found = model.runStd(["R", "R", "R", "I", "I"])
    seconds = time.process_time() - start
    return {
        "responsibilities": model.clustProb,
        "curves": model.thetas,
        "scores": found["dpsCross"],
        "speeds": model.subShifts[:, 0],
        "seconds": np.array(seconds),
        "memory": np.array(peak_memory() - before),
    }


def main(task: str, folder: str, settings: str, arrays: str, estimates: str = "") -> None:
    given = json.loads(Path(settings).read_text(encoding="utf-8"))
    code = load_code(folder)
    if task == "draw":
        np.savez(arrays, **draw(code, given))
    else:
        with np.load(arrays) as stored:
            opened = dict(stored)
        np.savez(estimates, **fit(code, given, opened))


if __name__ == "__main__":
    main(*sys.argv[1:])
