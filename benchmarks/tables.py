"""Results as Markdown."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from measurement import Result

COLUMNS = {
    "time": ("time", lambda r: seconds(r.seconds)),
    "sum": ("÷ one sum", lambda r: f"{r.seconds / r.sum_seconds:,.1f}"),
    "products": ("÷ two products", lambda r: f"{r.seconds / r.product_seconds:,.1f}"),
    "iterations": ("iterations", lambda r: f"{r.fit.iterations}"),
    "passes": ("passes", lambda r: f"{r.fit.passes}"),
    "pass": ("one pass", lambda r: seconds(r.fit.pass_seconds)),
    "memory": ("memory beyond the values", lambda r: f"{r.memory / r.data_bytes:.0%}"),
    "end": ("ended", lambda r: r.fit.end),
    "found": ("agreement", lambda r: f"{r.agreement:.3f}"),
    "likelihood": ("log-likelihood per value", lambda r: f"{r.fit.log_likelihood:.9f}"),
}


def render(rows: Mapping[str, Result], columns: Sequence[str]) -> str:
    """Table with one line for each result."""
    lines = [["", *(COLUMNS[column][0] for column in columns)]]
    lines += [[name, *(COLUMNS[c][1](result) for c in columns)] for name, result in rows.items()]
    return markdown(lines)


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Table whose first line is its head and whose first column is text."""
    rule = ["---", *("---:" for _ in lines[0][1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:]))


def section(title: str, *paragraphs: str) -> str:
    """Headline and paragraphs."""
    return "\n\n".join([f"## {title}", *paragraphs])


def marked(page: str, mark: str) -> str | None:
    """What stands between the marks of a page; None where the page has no such marks."""
    begin, end = _marks(mark)
    if begin not in page or end not in page:
        return None
    return page.split(begin, 1)[1].split(end, 1)[0].strip()


def put_marked(page: str, mark: str, part: str) -> str:
    """Put another part between the marks of a page."""
    begin, end = _marks(mark)
    if marked(page, mark) is None:
        raise ValueError(f"the page has no marks {begin.strip()} and {end}.")
    before, rest = page.split(begin, 1)
    return before + between_marks(mark, part) + rest.split(end, 1)[1]


def between_marks(mark: str, part: str) -> str:
    """Part with its marks, by which it can be found and replaced."""
    begin, end = _marks(mark)
    return f"{begin}\n{part.strip()}\n\n{end}"


def _marks(mark: str) -> tuple[str, str]:
    return f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"


def seconds(time: float) -> str:
    """Time with a unit and three digits, or more where they are whole seconds."""
    if time >= 100:
        return f"{time:,.0f} s"
    return f"{time:.3g} s" if time >= 1 else f"{1000 * time:.3g} ms"


def log_log_slope(amounts: Sequence[float], times: Sequence[float]) -> float:
    """P in time = constant * amount ** p, by least squares on the logs."""
    return float(np.polyfit(np.log(amounts), np.log(times), 1)[0])


def describe_machine() -> str:
    """Cores and processor in general words."""
    available = getattr(os, "sched_getaffinity", None)
    n_cores = len(available(0)) if available else os.cpu_count()
    model = platform.processor() or platform.machine()
    cpu_info = Path("/proc/cpuinfo")
    if cpu_info.exists():
        names = [line for line in cpu_info.read_text().splitlines() if "model name" in line]
        model = names[0].split(":")[1].strip() if names else model
    return f"{n_cores} cores, {model}"
