"""Where things lie, for every test in Python: absolute, so that a test may run in any folder."""

import os
import pathlib

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("LEEWAY_BUILD", REPOSITORY / "build")).resolve()
SHARED = REPOSITORY.parent / "shared" / "data"  # data of others, which may be absent
LEEWAY = BUILD / "leeway"


def probe_path(name):
    """A program of tests/golden that runs our side of a comparison."""
    return BUILD / "tests" / name
