"""Measure braindive and write the tables of docs/performance.md.

Usage: python benchmarks/run.py [--write FILE] [--quick]

What needs other software, and is measured by comparison.py and authors.py, stays as it is in FILE.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

import tables
from cohorts import Size
from measurement import Result, in_fresh_process, measure, measure_basic
from parts import READS, measure_parts


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the time and memory of braindive.")
    parser.add_argument("--write", metavar="FILE", type=Path, help="write here, not to the screen")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    quick = arguments.quick
    sections = [
        large_cohort(quick),
        where_time_goes(quick),
        growth(quick),
        fast_and_exact(quick),
        scikit_learn(quick),
        basic_simulation(quick),
        *measured_apart(arguments.write),
    ]
    text = "\n\n".join([introduction(load), *sections, closing(arguments)]) + "\n"
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


@cache
def run(size: Size, estimator: str = "DIVE", **options: object) -> Result:
    """Measure once, for all the tables in which the same fit stands."""
    words = ", ".join(f"{name}={value!r}" for name, value in options.items())
    print(f"{estimator}({words}): {size}", file=sys.stderr, flush=True)
    return in_fresh_process(measure, size, estimator, options)


def large_cohort(quick: bool) -> str:
    size = Size(3, 10) if quick else Size(7, 454)
    # As many as the paper's fit of PET has.
    many = Size(3, 10, 4) if quick else Size(7, 454, 18)
    rows = {
        "without spatial field": run(size, spatial=None),
        "with estimated spatial field": run(size, spatial="auto"),
        "without spatial field, vertices taken for alike": run(
            size, spatial=None, vertices="alike"
        ),
        "with estimated spatial field, vertices taken for alike": run(
            size, spatial="auto", vertices="alike"
        ),
        "without spatial field, and how to predict": run(size, spatial=None, personal=True),
        "without spatial field, every vertex's own curve in the EM": run(
            size, spatial=None, vertices="differ"
        ),
        f"{many.n_clusters} clusters, without spatial field": run(many, spatial=None),
    }
    gigabytes = next(iter(rows.values())).data_bytes / 1e9
    return tables.section(
        "A cohort of the size of ADNI",
        f"{size} unless the row says so: {gigabytes:.2g} GB in single precision.",
        tables.render(rows, ("time", "sum", "products", "iterations", "passes", "memory", "found")),
    )


def where_time_goes(quick: bool) -> str:
    size = Size(3, 10) if quick else Size(7, 454)
    print(f"parts of a fit: {size}", file=sys.stderr, flush=True)
    parts = in_fresh_process(measure_parts, size)
    lines = [["", "reads", "time", "÷ one sum"]]
    for name, seconds in parts.seconds.items():
        reads = str(READS.get(name, ""))
        lines.append([name, reads, tables.seconds(seconds), f"{seconds / parts.sum_seconds:,.1f}"])
    total = sum(parts.seconds.values())
    ratio = f"{total / parts.sum_seconds:,.1f}"
    lines.append(["all", str(sum(READS.values())), tables.seconds(total), ratio])
    by_blas = parts.product_seconds / parts.sum_seconds
    return tables.section(
        "Where the time goes",
        f"The first row above, the fastest of three fits in one process. *Reads* say how often a "
        f"part goes through all values. A pass of the EM is two products of all values, and these "
        f"alone take {by_blas:.1f} sums by BLAS; the marginal fit knows nothing of vertices, and "
        "takes as long for a thousand of them.",
        tables.markdown(lines),
    )


def growth(quick: bool) -> str:
    if quick:
        by_vertices = [Size(n, 10) for n in (2, 3)]
        by_visits = [Size(3, n) for n in (10, 20)]
        by_clusters = [Size(3, 10, k) for k in (2, 3)]
    else:
        by_vertices = [Size(n, 200) for n in (5, 6, 7)]
        by_visits = [Size(6, n) for n in (100, 300, 900)]
        by_clusters = [Size(6, 200, k) for k in (3, 10, 20)]
    columns = ("time", "sum", "products", "iterations", "passes", "pass", "memory")
    parts = []
    for name, plural, sizes in (
        ("n_vertices", "vertices", by_vertices),
        ("n_visits", "visits", by_visits),
        ("n_clusters", "clusters", by_clusters),
    ):
        amounts = [getattr(size, name) for size in sizes]
        results = [run(size, spatial=None) for size in sizes]
        rows = {f"{n:,} {plural}": result for n, result in zip(amounts, results, strict=True)}
        whole = tables.log_log_slope(amounts, [result.seconds for result in results])
        one_pass = tables.log_log_slope(amounts, [result.fit.pass_seconds for result in results])
        fixed = [
            f"{getattr(sizes[0], other):,} {word}"
            for other, word in (
                ("n_vertices", "vertices"),
                ("n_visits", "visits"),
                ("n_clusters", "clusters"),
            )
            if other != name
        ]
        parts += [
            f"In {plural} (with {' and '.join(fixed)}):",
            tables.render(rows, columns),
            f"Slope of log time on log {plural}: {whole:.2f} for the whole fit, {one_pass:.2f} "
            "for one pass.",
        ]
    return tables.section(
        "How time grows",
        "Without spatial field. A slope of 1 is linear growth; below 1, what does not depend on "
        "the size still counts. More clusters in the same range overlap more, so that the number "
        "of iterations grows with them.",
        *parts,
    )


def fast_and_exact(quick: bool) -> str:
    size = Size(3, 10) if quick else Size(4, 50)
    rows = {
        'method="fast"': run(size, spatial=None),
        'method="exact"': run(size, spatial=None, method="exact"),
    }
    return tables.section(
        "Pooled means against the published sums",
        f"{size}, without spatial field. Both find the same; the sums over all vertices are kept "
        "to show it.",
        tables.render(rows, ("time", "sum", "iterations", "likelihood", "found")),
    )


def scikit_learn(quick: bool) -> str:
    size = Size(3, 10) if quick else Size(6, 200)
    rows = {
        "DIVE, without spatial field": run(size, spatial=None),
        "DIVE, with spatial field": run(size, spatial="auto"),
        "GaussianMixture, diagonal": run(size, "GaussianMixture"),
        "KMeans": run(size, "KMeans"),
    }
    return tables.section(
        "Beside scikit-learn",
        f"{size}. scikit-learn sees the same matrix with the vertices as samples and the visits "
        "as features, and has its default settings; it knows neither subjects nor time.",
        tables.render(rows, ("time", "sum", "iterations", "end", "memory", "found")),
    )


def basic_simulation(quick: bool) -> str:
    n_subjects, n_vertices = (30, 100) if quick else (300, 1000)
    print(f"basic simulation of {n_vertices:,} vertices", file=sys.stderr, flush=True)
    result = in_fresh_process(measure_basic, n_subjects, n_vertices, {})
    return tables.section(
        "The basic simulation of the paper",
        f"{n_vertices:,} vertices x {n_subjects} subjects x 4 visits, 3 clusters, double "
        "precision: `simulate_cohort()` as it is.",
        tables.render({"DIVE": result}, ("time", "sum", "iterations", "passes", "found")),
    )


def measured_apart(page: Path | None) -> list[str]:
    """Sections with marks, kept from the page as it was: other scripts fill them."""
    commands = {
        "leaspy": ("Beside leaspy", "comparison.py --leaspy PYTHON"),
        "authors": ("Beside the authors' code", "authors.py --code FOLDER"),
    }
    text = page.read_text(encoding="utf-8") if page and page.exists() else ""
    sections = []
    for mark, (title, command) in commands.items():
        part = tables.marked(text, mark) or "Not measured yet."
        how = f"Measured apart, by `python benchmarks/{command} --write docs/performance.md`."
        sections.append(tables.section(title, how, tables.between_marks(mark, part)))
    return sections


def introduction(load: float) -> str:
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("braindive", "numpy", "scipy", "scikit-learn")
    )
    return f"""# Performance

Times depend on the machine; ratios do so less. Each fit therefore stands beside what the
same machine does with the same values in the same process: one `values.sum()` on one core, and
the two matrix products of one pass of the EM, `F.T @ values` and `values @ Z`, on all cores. Both
are the best of several calls right before and after the fit. A sum waits for memory and half of a
fit for arithmetic: on a busy machine the first fit below once took 37 sums, and 24 on a quiet one,
by the same code (10 and 11 times the two products).

- *Time* is that of the whole fit, with all starts, convergence and learning how to stage, but
  without learning how to predict (`personal=False`) unless the row says so; the best of three
  where it takes less than a second.
- *Iterations* are those of the fit that is kept, *passes* those of all its starts; the time of
  one pass is the median.
- *Memory* is the peak of a fresh process beyond the values themselves, as a share of them. All
  that the `Cohort` and the fit bring is in it; the imports and the mesh are not.
- *Agreement* is the mean probability given to the true cluster.
- By default every vertex's own curve is found too, after the fit of the clusters; not so where
  vertices are *taken for alike*.

Values are simulated on the mesh of a sphere with the settings of the paper's basic simulation:
clusters in patches, each vertex with a curve of its own, noise of the size of the whole change.

Machine: {tables.describe_machine()}; load of other work when the run began: {load:.1f}.
Python {sys.version.split()[0]}, {packages}."""


def closing(arguments: argparse.Namespace) -> str:
    flags = " --quick" if arguments.quick else ""
    flags += f" --write {arguments.write}" if arguments.write else ""
    made_by = "`make bench`" if flags == " --write docs/performance.md" else "This command"
    return f"""## The command

{made_by} makes this page, but for what is measured apart:

    python benchmarks/run.py{flags}"""


if __name__ == "__main__":
    main()
