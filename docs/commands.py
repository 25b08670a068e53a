"""Write the page of the command line from the commands themselves.

python docs/commands.py            prints commands.md
python docs/commands.py --write    writes it
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from braindive.cli.main import app

PAGE = Path(__file__).with_name("commands.md")
INTRODUCTION = """# The command line

Every command, as its `--help` says it. This page is generated: after changing a command, run
`python docs/commands.py --write` (a test compares).

A table is text with tabs, commas or semicolons, or an Excel sheet, with decimal points or commas;
its columns may be called `participant_id`, `Subject ID`, `PTID` or `RID`, `age`, `years` or a date,
in any case. What is wrong with it is told at once; `--skip-bad` goes on without the bad rows, and
lists them. Results go to the standard output, everything else beside it; bad input ends in one
message and the exit code 1, wrong usage in 2.
"""


def commands() -> dict[str, Any]:
    """Every command by its name."""
    found: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return found


def page() -> str:
    """The page, as Markdown."""
    return "\n".join([INTRODUCTION, *(section(*each) for each in commands().items())])


def section(name: str, command: Any) -> str:
    """One command: what it does, examples, arguments and options."""
    paragraphs = [" ".join(text.split()) for text in (command.help or "").split("\n\n")]
    examples = [text.removeprefix("Example: ") for text in paragraphs if text.startswith("Example")]
    words = [text for text in paragraphs if not text.startswith("Example")]
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    needed = [f"{one.opts[0]} {one.name.upper()}" for one in options if one.required]
    usage = " ".join([f"braindive {name}", *map(_argument, arguments), *needed, "[OPTIONS]"])
    lines = [f"## braindive {name}", "", *("\n".join(words[:1]), ""), "```text", usage, "```", ""]
    lines += [line for text in words[1:] for line in (text, "")]
    if examples:
        lines += ["For example:", "", "```text", *examples, "```", ""]
    panels: dict[str, list[Any]] = {"": arguments}
    for option in options:
        if option.name != "help" and not option.hidden:
            panels.setdefault(getattr(option, "rich_help_panel", None) or "", []).append(option)
    for title, members in panels.items():
        if members:
            lines += [f"**{title}**", ""] if title else []
            lines += ["| | |", "|---|---|", *map(_row, members), ""]
    return "\n".join(lines)


def _argument(argument: Any) -> str:
    name = (argument.metavar or argument.name).upper()
    return name if argument.required else f"[{name}]"


def _row(parameter: Any) -> str:
    """One line of a table: names, and what it says, with the default."""
    if parameter.param_type_name == "argument":
        names = f"`{(parameter.metavar or parameter.name).upper()}`"
    else:
        names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    text = " ".join((parameter.help or "").split()).replace("|", "\\|")
    default = parameter.default
    if getattr(parameter, "is_flag", False) or default in (None, "", (), []) or callable(default):
        return f"| {names} | {text} |"
    return f"| {names} | {text} By default `{default}`. |"


def main() -> None:
    """Print the page, or write it."""
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
