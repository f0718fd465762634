"""Lets the tests of every folder import places.py, which lies beside this file."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
