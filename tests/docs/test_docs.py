"""Every code block of the README and the documentation runs."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Commands run in the process of the page, since importing takes longer than most of them; that
# each of them works in a process of its own is shown by tests/cli.
RUN_COMMANDS = """
import sys
import warnings
from braindive.cli.main import run
for command in {commands!r}:
    sys.argv = command
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # as in a process of its own
        try:
            run()
        except SystemExit as end:
            if end.code:
                sys.exit(f"{{' '.join(command)}} ended with {{end.code}}")
"""


def blocks(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def commands_of(text):
    """Commands of braindive in a console block, as lists of words."""
    lines = text.replace("\\\n", " ").splitlines()
    words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
    return [command for command in words if command[:1] == ["braindive"]]


def script_of(page):
    """The page as a program: its Python blocks as they are, its commands as calls."""
    parts = []
    for language, text in blocks(page):
        if language == "python":
            parts.append(text)
        elif language == "console" and commands_of(text):
            parts.append(RUN_COMMANDS.format(commands=commands_of(text)))
    return "\n".join(parts)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page, tmp_path):
    """Blocks run in the order of the page, in one empty folder, and share their names."""
    script = script_of(page)
    if not script:
        return
    (tmp_path / "page.py").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "page.py"],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_a_command_that_fails_would_be_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```console\nbraindive fit nowhere.tsv -o fit.dive   # no such file\n```\n")
    with pytest.raises(AssertionError, match=r"there is no cohort nowhere\.tsv"):
        test_code_blocks_run(page, tmp_path)


def test_the_readme_has_code_to_run():
    languages = [language for language, _ in blocks(ROOT / "README.md")]
    assert "python" in languages
    assert "console" in languages


PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)|^```\{(?:figure|image)\} (\S+)", re.MULTILINE)


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "docs" / "evidence").glob("*.md"))])
def test_pictures_of_a_page_are_in_the_repository(page):
    shown = [a or b for a, b in PICTURE.findall(page.read_text(encoding="utf-8"))]
    shown = [name for name in shown if not name.startswith("http")]
    # The gallery is drawn when the site is built, and is in nobody's clone.
    missing = [
        name
        for name in shown
        if name.startswith(("gallery/", "generated/")) or not (page.parent / name).is_file()
    ]
    assert missing == []
