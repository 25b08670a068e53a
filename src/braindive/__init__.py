"""Disease progression on the brain itself, from short longitudinal maps."""

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

__version__ = "0.1.0"


def _public_names() -> dict[str, str]:
    """Module of each public name, as the imports of the stub `__init__.pyi` say."""
    stub = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    return {
        alias.name: str(statement.module)
        for statement in ast.parse(stub).body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


_MODULES = _public_names()
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used.

    Importing everything takes seconds, which a command, or a worker process that only multiplies
    matrices, need not wait for. This is the way of SPEC 1 of Scientific Python, lazy loading.
    """
    if name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value
    if not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
