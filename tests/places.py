"""Where things are, for all Python tests: absolute paths, so that a test can run in any folder."""

import os
import pathlib

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("LEEWAY_BUILD", REPOSITORY / "build")).resolve()
SHARED = REPOSITORY.parent / "shared" / "data"  # third-party data, which may be absent
LEEWAY = BUILD / "leeway"


def probe_path(name):
    """The program from tests/golden that runs our side of a comparison."""
    return BUILD / "tests" / name
