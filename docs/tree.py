"""List every module of the package with the first line of its docstring.

python docs/tree.py            prints the listing of contributing.md
python docs/tree.py --write    puts it into contributing.md, between its two marks

Floors come in the order of the import contract in pyproject.toml, from the top of the house down.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "braindive"
PAGE = ROOT / "docs" / "contributing.md"
MARKS = "<!-- tree -->\n", "<!-- end of tree -->\n"


def floors() -> list[list[str]]:
    """Names of the import contract, one list for each floor, from the top down."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (house,) = [one for one in contracts if one.get("containers") == ["braindive"]]
    return [[name.strip() for name in floor.split("|")] for floor in house["layers"]]


def first_line(module: Path) -> str:
    """First line of a module's docstring."""
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
    if not text:
        raise ValueError(f"{module.relative_to(ROOT)} has no docstring; give it one.")
    return text.splitlines()[0]


def listing() -> str:
    """One line for each folder and module, grouped by floor, as Markdown."""
    lines = []
    for floor in floors():
        for name in floor:
            folder = PACKAGE / name
            if not folder.is_dir():
                lines.append(f"- `{name}.py`: {first_line(folder.with_suffix('.py'))}")
                continue
            lines.append(f"- `{name}/`: {first_line(folder / '__init__.py')}")
            for module in sorted(folder.rglob("*.py")):
                if module != folder / "__init__.py":
                    path = module.relative_to(folder).as_posix()
                    lines.append(f"  - `{path}`: {first_line(module)}")
    return "\n".join(lines) + "\n"


def written() -> str:
    """The listing that contributing.md holds."""
    return PAGE.read_text(encoding="utf-8").split(MARKS[0])[1].split(MARKS[1])[0]


def main() -> None:
    """Print the listing, or put it into the page."""
    if "--write" not in sys.argv:
        print(listing(), end="")
        return
    before, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    PAGE.write_text(before + MARKS[0] + listing() + MARKS[1] + after, encoding="utf-8")


if __name__ == "__main__":
    main()
