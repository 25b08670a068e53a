"""`import braindive` brings the public names, and what they need only when they are used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import braindive as bd


def test_every_public_name_is_there_and_listed():
    stub = ast.parse(Path(bd.__file__).with_suffix(".pyi").read_text())
    (listed,) = (
        ast.literal_eval(part.value)
        for part in stub.body
        if isinstance(part, ast.Assign) and part.targets[0].id == "__all__"
    )
    assert sorted(listed) == sorted(bd.__all__)
    assert set(listed) <= set(dir(bd))
    for name in listed:
        assert getattr(bd, name).__name__ == name


def test_modules_are_found_and_other_names_are_not():
    assert bd.space.Surface is bd.Surface
    with pytest.raises(AttributeError, match="module 'braindive' has no attribute 'dvie'"):
        bd.dvie  # noqa: B018


def imported_with(statement):
    """Top-level packages that a new process has imported after a statement."""
    code = f"{statement}; import sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "spared"),
    [
        ("import braindive", {"numpy", "pandas", "scipy", "sklearn", "zarr", "matplotlib"}),
        ("import braindive.values.placement", {"pandas", "scipy", "sklearn", "zarr", "matplotlib"}),
        ("import braindive.cli.main", {"sklearn", "zarr", "matplotlib"}),
        ("from braindive import DIVE", {"zarr", "matplotlib", "nibabel"}),
    ],
    ids=["package", "worker of a cluster", "command line", "model"],
)
def test_what_is_not_used_is_not_imported(statement, spared):
    assert not imported_with(statement) & spared
