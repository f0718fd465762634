"""Every command in README.md and docs/ runs: `sh` blocks line by line, in one folder, in order.

Trainings get two updates, whatever the recipe says. `make` lines must name a target. Blocks marked
`text` are sketches for other machines.
"""

import os
import re
import shlex
import subprocess

import pytest
from places import BUILD, LEEWAY, REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


def commands_of(page):
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    for language, block in blocks:
        assert language in ("sh", "text", "toml", "cpp", "python", "json"), (page, language)
        if language == "sh":
            yield from (line for line in block.splitlines() if line.strip())


def shortened(line):
    """The same command with a two-update run."""
    if re.search(r"leeway train .*\.toml", line):
        return line + " --set run.updates=2 --set optimizer.warmup=0"
    return line


@pytest.fixture
def clone(tmp_path):
    """The files of the repository that commands need, without writing into it."""
    for name in ("README.md", "docs", "recipes", ".venv", "tools", "Makefile"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    (tmp_path / "build").symlink_to(BUILD)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_commands_run(page, clone):
    targets = set(re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    for line in commands_of(page):
        words = shlex.split(line)
        if words[0] == "make":
            assert set(words[1:]) <= targets, line
            continue
        done = subprocess.run(
            shortened(line),
            shell=True,
            cwd=clone,
            capture_output=True,
            text=True,
            errors="replace",  # a sample may end within a character
            timeout=300,
            env={**os.environ, "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, (line, done.stderr)


def test_commands_are_found():
    found = [line for page in PAGES for line in commands_of(page)]
    assert "make demo" in found and any("leeway train" in line for line in found)


def test_a_wrong_command_would_be_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\nbuild/leeway frobnicate\n```\n")
    assert list(commands_of(page)) == ["build/leeway frobnicate"]
    done = subprocess.run([LEEWAY, "frobnicate"], capture_output=True)
    assert done.returncode == 2
