"""Generated pages: the modules that exist, on the floors where they are, and the commands."""

import difflib
import importlib.util
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from braindive.cli.main import app

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "contributing.md"


def load(name):
    """A program of the folder of the documentation, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tree():
    return load("tree")


@pytest.fixture(scope="module")
def commands():
    return load("commands")


def test_the_listing_is_that_of_the_tree(tree):
    changes = difflib.ndiff(tree.written().splitlines(), tree.listing().splitlines())
    told = [line for line in changes if line[0] in "+-"]
    assert not told, (
        "docs/contributing.md does not list the modules as they are; `python docs/tree.py --write` "
        "removes the lines with - and adds those with +:\n" + "\n".join(told)
    )


def test_every_module_is_listed_once(tree):
    """The contract of pyproject.toml leaves nothing out, so neither does the listing."""
    package = ROOT / "src" / "braindive"
    modules = {path.relative_to(package).as_posix() for path in package.rglob("*.py")}
    listed, folder = [], ""
    for indent, name in re.findall(r"^( *)- `([^`]+)`", tree.written(), re.MULTILINE):
        if name.endswith("/"):
            folder = name
            listed.append(f"{name}__init__.py")
        else:
            listed.append(folder + name if indent else name)
    missing, extra = modules - {*listed, "__init__.py"}, set(listed) - modules
    assert len(listed) == len(set(listed))
    assert not missing, f"name {sorted(missing)} in the import contract of pyproject.toml"
    assert not extra, f"{sorted(extra)} do not exist; run `python docs/tree.py --write`"


def test_floors_are_in_the_order_of_the_import_contract(tree):
    table = PAGE.read_text(encoding="utf-8").split("| floor |")[1].split("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines()[2:]]
    named = [re.findall(r"`(\w+)(?:/|\.py)`", row) for row in rows]
    missing = [floor for floor in tree.floors() if floor not in named]
    extra = [floor for floor in named if floor not in tree.floors()]
    assert named == tree.floors(), (
        "the table of floors in docs/contributing.md follows the layers in pyproject.toml, one row "
        f"for each, from the top down; rows to add: {missing}, to remove: {extra}, else reorder."
    )


def test_the_page_of_commands_is_what_they_say(commands):
    written = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    changes = difflib.ndiff(written.splitlines(), commands.page().splitlines())
    told = [line for line in changes if line[0] in "+-"]
    assert not told, (
        "docs/commands.md does not show the commands as they are; run `python docs/commands.py "
        "--write`, which removes the lines with - and adds those with +:\n" + "\n".join(told)
    )


def test_the_page_of_commands_has_every_option_of_the_help(commands):
    """Told by the text that people see, whatever the program that writes the page looks at."""
    for name, command in commands.commands().items():
        text = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "300"}).output
        shown = set(re.findall(r"^│ *\*? *(--[a-z-]+)", text, re.MULTILINE)) - {"--help"}
        listed = set(re.findall(r"`(--[a-z-]+)`", commands.section(name, command)))
        assert shown, name
        assert shown <= listed, f"{name} lacks {sorted(shown - listed)}"
        assert all(option in text for option in listed), name
