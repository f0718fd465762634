"""Parcels between the ranks of an MPI job: mpirun starts the program that checks them."""

import os
import shutil
import subprocess

import pytest
from mpi_settings import MPI_SETTINGS
from places import probe_path

PROGRAM = probe_path("mpi_post")
RANKS = 3


def mpirun(mode, **settings):
    if not PROGRAM.exists() or shutil.which("mpirun") is None:
        pytest.skip("this build has no MPI, or mpirun is not installed: see tools/setup")
    return subprocess.run(
        ["mpirun", "--oversubscribe", "-n", str(RANKS), PROGRAM, mode],
        env={**os.environ, **MPI_SETTINGS, **settings},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("ways", ["self,vader", "self,tcp"])
def test_all_parcels_arrive_once_and_in_order(ways):
    done = mpirun("mix", OMPI_MCA_btl=ways)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = sorted(done.stdout.splitlines())
    assert len(lines) == RANKS
    for rank, line in enumerate(lines):
        assert line.startswith(f"rank {rank} of {RANKS}: ") and "false" not in line


def test_one_rank_ends_the_job_with_a_sentence():
    done = mpirun("abort")
    assert done.returncode == 1
    assert "leeway: rank 1 has had enough\n" in done.stderr


def test_bytes_that_do_not_fit_end_the_job_with_a_sentence():
    done = mpirun("unlike")
    assert done.returncode == 1
    assert "; start the same build on all machines\n" in done.stderr
