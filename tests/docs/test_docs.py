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


def blocks(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page, tmp_path):
    """Python blocks of a page share their names; console blocks run in the same empty folder."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "MPLBACKEND": "Agg",
    }
    script = []
    for language, text in blocks(page):
        if language == "python":
            script.append(text)
        elif language == "console":
            for line in text.replace("\\\n", " ").splitlines():
                command = shlex.split(line.removeprefix("$ "), comments=True)
                if command[:1] == ["braindive"]:
                    done = subprocess.run(
                        command, cwd=tmp_path, env=environment, capture_output=True, text=True
                    )
                    assert done.returncode == 0, f"{line}\n{done.stderr}"
    if script:
        (tmp_path / "page.py").write_text("\n".join(script), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-W", "error", "page.py"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr


def test_the_readme_has_code_to_run():
    languages = [language for language, _ in blocks(ROOT / "README.md")]
    assert "python" in languages
    assert "console" in languages
