"""The page about large cohorts: what was measured, the model of it, and what that predicts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from tables import describe_machine

# What is predicted: UK Biobank on the cortex of two hemispheres.
_TARGET = (50_000, 327_684)
_CORES = 4
_CLUSTERS = 3
# Bytes that a network of 10 Gbit/s carries in a second.
_NETWORK = 1.25e9


@dataclass(frozen=True)
class Store:
    """A fit from disk: seconds of every reading of all chunks, and of every pass.

    A pass is given as the whole, its reading and products, and its M-step.
    """

    n_visits: int
    n_vertices: int
    memory: str
    reads: list[float]
    load: float
    peak: int
    passes: list[tuple[float, float, float]]
    agreement: float
    from_disk: tuple[float, float] | None = None
    delivery: float = float("nan")
    products: float = float("nan")

    @property
    def reading(self) -> float:
        """Seconds to read all chunks."""
        return float(np.median(self.reads))

    @property
    def seconds(self) -> float:
        """Seconds of a pass."""
        return float(np.median(np.array(self.passes)[:, 0]))

    @property
    def shares(self) -> dict[str, float]:
        """Of the time of all passes, by what it goes to."""
        total, sweep, m_step = np.sum(self.passes, axis=0)
        return {"sweep": sweep / total, "m_step": m_step / total}

    @property
    def typical(self) -> tuple[float, float, float]:
        """Seconds in products, M-step and field: medians over the passes."""
        total, sweep, m_step = np.array(self.passes).T
        return tuple(float(np.median(x)) for x in (sweep, m_step, total - sweep - m_step))

    @property
    def gigabytes(self) -> float:
        """Size of the values."""
        return 4e-9 * self.n_visits * self.n_vertices

    def __str__(self) -> str:
        rest = 1 - sum(self.shares.values())
        return (
            f"{self.n_visits:,} visits x {self.n_vertices:,} vertices, {self.gigabytes:.1f} GB, "
            f"load {self.load:.1f}: reads {self.gigabytes / self.reading:.2f} GB/s, pass "
            f"{self.seconds:.2f} s = {self.gigabytes / self.seconds:.2f} GB/s = "
            f"{self.reading / self.seconds:.0%}; Zarr {self.gigabytes / self.delivery:.2f} GB/s; "
            f"from disk (reading, pass) {self.from_disk}; "
            f"products in memory {self.products:.2f} GB/s; "
            f"products {self.shares['sweep']:.0%}, M-step "
            f"{self.shares['m_step']:.0%}, field {rest:.0%}; peak {self.peak / 1e9:.2f} GB of "
            f"{self.memory}; agreement {self.agreement:.3f}"
        )


@dataclass(frozen=True)
class Workers:
    """Passes on one worker and on two, and the part of them that is done by the caller."""

    n_visits: int
    n_vertices: int
    n_clusters: int
    one: float
    two: float
    serial: float
    travelled: int
    load: float

    def __str__(self) -> str:
        return (
            f"{self.n_visits:,} visits x {self.n_vertices:,} vertices, {self.n_clusters} clusters, "
            f"load {self.load:.1f}: {self.one:.2f} s on one worker, {self.two:.2f} s on two: "
            f"{self.one / self.two:.2f} times; caller {self.serial:.3f} s; "
            f"{self.travelled / 1e6:.1f} MB over the loopback"
        )


@dataclass(frozen=True)
class Growth:
    """Seconds of a pass at sizes that grow in one direction at a time."""

    n_visits: NDArray[np.int64]
    n_vertices: NDArray[np.int64]
    parts: NDArray[np.float64]
    beside_visits: int
    beside_vertices: int

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Seconds of whole passes."""
        return self.parts.sum(axis=1)

    def model(self) -> NDArray[np.float64]:
        """Non-negative costs of a pass itself, of a value, of a vertex and of a visit.

        Products cost by the value, the M-step by the visit and the field by the vertex, each with
        something fixed. Relative errors count, so that small sizes matter as much as large ones.
        """
        terms = pass_terms(self.n_visits, self.n_vertices)
        costs = np.zeros(4)
        for part, term in zip(self.parts.T, (1, 3, 2), strict=True):
            design = np.stack([np.ones(len(part)), terms[:, term] / terms[:, term].max()], axis=1)
            fixed, slope = nnls(design / part[:, None], np.ones(len(part)))[0]
            costs[0] += fixed
            costs[term] = slope / terms[:, term].max()
        return costs

    def lines(self) -> list[tuple[str, NDArray[np.int64], NDArray[np.float64], float, float]]:
        """Direction, sizes, seconds, and intercept and log-log slope of each series."""
        found = []
        for name, sizes, chosen in (
            ("vertices", self.n_vertices, self.n_visits == self.beside_visits),
            ("visits", self.n_visits, self.n_vertices == self.beside_vertices),
        ):
            order = np.argsort(sizes[chosen])
            x, y = sizes[chosen][order], self.seconds[chosen][order]
            design = np.stack([np.ones(len(x)), x / x.max()], axis=1) / y[:, None]
            intercept = float(np.linalg.lstsq(design, np.ones(len(x)), rcond=None)[0][0])
            slope = float(np.polyfit(np.log(x), np.log(np.maximum(y - intercept, 1e-9)), 1)[0])
            found.append((name, x, y, intercept, slope))
        return found

    def __str__(self) -> str:
        return "\n".join(
            f"{name}: {1000 * intercept:.0f} ms and then slope {slope:.2f} "
            f"({np.polyfit(np.log(x), np.log(y), 1)[0]:.2f} with it) over {x[-1] / x[0]:.0f}-fold"
            for name, x, y, intercept, slope in self.lines()
        )


def pass_terms(n_visits: NDArray | int, n_vertices: NDArray | int) -> NDArray[np.float64]:
    """What the time of a pass is a sum of."""
    n_visits, n_vertices = np.asarray(n_visits, float), np.asarray(n_vertices, float)
    return np.stack([np.ones_like(n_visits), n_visits * n_vertices, n_vertices, n_visits], axis=-1)


def draw(path: Path, growth: Growth) -> None:
    """Seconds of a pass against the size, with the straight lines."""
    from matplotlib import pyplot as plt

    plt.switch_backend("agg")
    figure, panels = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
    costs = growth.model()
    for panel, (name, x, y, _, _) in zip(panels, growth.lines(), strict=True):
        fine = np.geomspace(x[0], x[-1])
        here = (
            (growth.beside_visits, fine) if name == "vertices" else (fine, growth.beside_vertices)
        )
        terms = pass_terms(*np.broadcast_arrays(*here))
        panel.loglog(fine, terms @ costs, color="0.6", label="the model of the page")
        panel.loglog(x, y, "o", color="C0", label="measured")
        panel.set_xlabel(name)
        panel.set_xticks(x, [f"{n:,}" for n in x], rotation=30)
        panel.minorticks_off()
    panels[0].set_ylabel("seconds for one pass")
    panels[0].legend(frameon=False)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def write_page(
    path: Path, store: Store | None, workers: Workers | None, growth: Growth | None
) -> None:
    """Fill in what was measured between the marks of the page, and draw its figure."""
    parts = {"machine": f"Machine: {describe_machine()}."}
    if store:
        parts["store"] = _store(store)
    if workers:
        parts["workers"] = _workers(workers)
    if growth:
        draw(path.parent / "images" / "scale.png", growth)
        parts |= {"growth": _growth(growth), "prediction": _prediction(growth)}
        if store:
            parts["model"] = _model(store, growth)
    text = path.read_text()
    for mark, part in parts.items():
        begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
        before, rest = text.split(begin)
        text = before + begin + part.strip() + "\n" + end + rest.split(end, 1)[1]
    path.write_text(text)


def _facts(intro: str, facts: dict[str, str]) -> str:
    return "\n".join(
        [intro, "", "| | |", "|---|---:|", *(f"| {k} | {v} |" for k, v in facts.items())]
    )


def _store(store: Store) -> str:
    speed, reads = store.gigabytes / store.seconds, store.gigabytes / store.reading
    reading, cold = store.from_disk or (np.nan, np.nan)
    sweep = store.gigabytes / store.typical[0]
    intro = (
        f"{store.n_visits:,} visits x {store.n_vertices:,} vertices, {store.gigabytes:.1f} GB in "
        f'single precision, 3 clusters, with spatial field, two threads, `memory="{store.memory}"`;'
        f" load of other work when the fit began: {store.load:.1f}."
    )
    return _facts(
        intro,
        {
            "the disk delivers (`read` by two threads, the page cache made to forget all chunks)": (
                f"{store.gigabytes / reading:.2f} GB/s"
            ),
            "a whole pass of the fit from disk, by turns with that": (
                f"{cold:.2f} s, {store.gigabytes / cold:.2f} GB/s"
            ),
            "**speed of a pass as a share of that of the disk**": f"**{reading / cold:.0%}**",
            "Zarr delivers the blocks from the page cache as arrays": (
                f"{store.gigabytes / store.delivery:.2f} GB/s"
            ),
            "**speed of a pass as a share of that of Zarr's blocks**": (
                f"**{store.delivery / store.seconds:.0%}**"
            ),
            "the page cache copies (`read` of every chunk into one buffer for each of two "
            "threads)": f"{reads:.2f} GB/s",
            "a whole pass of the fit from the page cache": (
                f"{store.seconds:.2f} s, {speed:.2f} GB/s"
            ),
            "**speed of a pass as a share of that of such copies**": f"**{speed / reads:.0%}**",
            "the two products of a pass, values in memory (an eighth of the vertices)": (
                f"{store.products:.2f} GB/s"
            ),
            "the same in a pass from the page cache": f"{sweep:.2f} GB/s",
            "of a pass: reading and products": f"{store.shares['sweep']:.0%}",
            "of a pass: M-step": f"{store.shares['m_step']:.0%}",
            "of a pass: spatial field and its strength": f"{1 - sum(store.shares.values()):.0%}",
            "peak memory of the process, everything included": f"{store.peak / 1e9:.2f} GB",
            "agreement with the truth": f"{store.agreement:.3f}",
        },
    )


def _workers(workers: Workers) -> str:
    expected = travelling(workers.n_visits, workers.n_vertices, 2, workers.n_clusters)
    intro = (
        f"{workers.n_visits:,} visits x {workers.n_vertices:,} vertices, {workers.n_clusters} "
        "clusters, one thread for each worker, values in the workers' memory; load when it ended, "
        f"this work included: {workers.load:.1f}."
    )
    return _facts(
        intro,
        {
            "a pass on one worker process": f"{workers.one:.2f} s",
            "a pass on two": f"{workers.two:.2f} s",
            "**two are faster by**": f"**{workers.one / workers.two:.2f} times**",
            "of a pass on two: assigning on the caller's side, which does not spread": (
                f"{workers.serial / workers.two:.0%}"
            ),
            "sent in a pass, as computed above": f"{expected / 1e6:.1f} MB",
            "seen on the loopback (what goes through the scheduler counts twice)": (
                f"{workers.travelled / 1e6:.1f} MB"
            ),
        },
    )


def _growth(growth: Growth) -> str:
    rows = [
        f"| {n:,} | {m:,} | {1000 * s:,.0f} ms |"
        for n, m, s in sorted(
            zip(
                growth.n_visits.tolist(),
                growth.n_vertices.tolist(),
                growth.seconds.tolist(),
                strict=True,
            )
        )
    ]
    lines = [
        f"- in {name}, {x[-1] / x[0]:.0f}-fold: slope of log time on log size "
        f"{np.polyfit(np.log(x), np.log(y), 1)[0]:.2f}; {slope:.2f} beyond an intercept of "
        f"{1000 * intercept:.0f} ms"
        for name, x, y, intercept, slope in growth.lines()
    ]
    head = "| visits | vertices | one pass |\n|---:|---:|---:|"
    return "\n".join([head, *rows, "", *lines])


def _model(store: Store, growth: Growth) -> str:
    fixed, value, vertex, visit = growth.model()
    terms = pass_terms(growth.n_visits, growth.n_vertices)
    errors = terms @ growth.model() / growth.seconds - 1
    predicted = float(pass_terms(store.n_visits, store.n_vertices) @ growth.model())
    times = store.n_visits * store.n_vertices / float((growth.n_visits * growth.n_vertices).max())
    return (
        f"On two cores, seconds = {fixed:.3f} + {value:.2e} x visits x vertices + {vertex:.2e} x "
        f"vertices + {visit:.2e} x visits,\nfitted to the {len(growth.seconds)} sizes of the table "
        f"(off by {np.abs(errors).max():.0%} at most).\n\n"
        f"Checked on a size it was not fitted to, the store above, {times:.0f} times the largest "
        f"of the table: predicted\n{predicted:.2f} s for a pass, measured {store.seconds:.2f} s: "
        f"**off by {predicted / store.seconds - 1:+.0%}**."
    )


def travelling(n_visits: int, n_vertices: int, n_workers: int, n_clusters: int) -> float:
    """Bytes of a pass: field and distances; curves and sums of every worker."""
    return 16.0 * n_clusters * (n_vertices + n_workers * n_visits)


def _prediction(growth: Growth) -> str:
    n_visits, n_vertices = _TARGET
    fixed, value, vertex, visit = growth.model()
    rows = []
    for n_workers in (1, 10, 100):
        products = value * n_visits * n_vertices * 2 / (_CORES * n_workers)
        caller = fixed + vertex * n_vertices + visit * n_visits
        sent = travelling(n_visits, n_vertices, n_workers, _CLUSTERS) if n_workers > 1 else 0.0
        seconds = products + caller + sent / _NETWORK
        held = 4e-9 * n_visits * n_vertices / n_workers
        rows.append(
            f"| {n_workers} | {products:.2f} s | {caller:.2f} s | {sent / 1e6:,.0f} MB, "
            f"{sent / _NETWORK:.2f} s | {seconds:.1f} s | {20 * seconds / 60:.1f} min | "
            f"{held:.1f} GB |"
        )
    head = (
        "| workers | products | caller | network | one pass | a fit of 20 passes | values of a "
        "worker |\n|---:|---:|---:|---:|---:|---:|---:|"
    )
    return "\n".join([head, *rows])
