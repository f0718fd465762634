"""Helpers that the rows of `make bench` use to call programs."""

import os
import pathlib
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
SHARED = REPOSITORY.parent / "shared" / "data"


def say(text):
    print(text, file=sys.stderr, flush=True)


def output_of(command, **environment):
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, **environment},
    )
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stderr}")
    return done.stdout


def megabytes(count):
    return f"{count / 1e6:.0f}"
