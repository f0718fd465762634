"""Shared by the end-to-end tests: the real binary, a tiny corpus, a tiny recipe."""

import json
import os
import subprocess

import pytest
from browser import CHROMIUM, Browser
from places import LEEWAY

RECIPE = """
[run]
updates = 12
seed = 3
threads_per_worker = 1
evaluate_every = 6
evaluate_windows = 4
[model]
layers = 2
width = 32
heads = 2
context = 32
[data]
train = ["corpus"]
batch = 4
valid_share = 0.2
[optimizer]
warmup = 2
"""


class Workplace:
    """A folder with a corpus and a recipe, in which to run the binary."""

    def __init__(self, folder):
        self.folder = folder
        corpus = folder / "corpus"
        corpus.mkdir()
        for i in range(12):
            words = " ".join(f"word{(i * j) % 17}" for j in range(120))
            (corpus / f"text{i:02}.txt").write_text(f"document {i}\n{words}\n")
        (folder / "tiny.toml").write_text(RECIPE)

    def run(self, *arguments, **options):
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive", **options.pop("env", {})}
        return subprocess.run(
            [LEEWAY, *map(str, arguments)],
            cwd=options.pop("cwd", self.folder),
            capture_output=True,
            text=options.pop("text", True),
            env=environment,
            timeout=300,
            **options,
        )

    def ok(self, *arguments, **options):
        done = self.run(*arguments, **options)
        assert done.returncode == 0, done.stderr
        return done

    def train(self, out, *arguments, **options):
        done = self.ok("train", "tiny.toml", "--out", out, "--json", *arguments, **options)
        return json.loads(done.stdout)

    def sets(self, **values):
        """Overrides as arguments: sets(run__seed=2) is --set run.seed=2."""
        return [
            word
            for key, value in values.items()
            for word in ("--set", f"{key.replace('__', '.')}={value}")
        ]

    def refused(self, status, *arguments, **options):
        """One sentence on standard error, nothing on standard output; returns the sentence."""
        done = self.run(*arguments, **options)
        assert done.returncode == status, (done.returncode, done.stderr)
        assert done.stdout == ""
        lines = [line for line in done.stderr.splitlines() if line.startswith("leeway: ")]
        assert len(lines) == 1, done.stderr
        return lines[0]


@pytest.fixture
def place(tmp_path):
    return Workplace(tmp_path)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: `tools/setup tests` installs it")
    found = Browser(tmp_path_factory.mktemp("chromium"))
    yield found
    found.close()
