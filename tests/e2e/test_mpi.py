"""`mpirun -n K leeway train --driver mpi`: the bits of one process, signals, and ranks that die."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading

import pytest
from fleets import newest_update, until
from mpi_settings import MPI_SETTINGS
from places import LEEWAY, probe_path

SETTINGS = {**MPI_SETTINGS, "OMP_WAIT_POLICY": "passive"}
MESH = {"mesh__stages": 2, "mesh__replicas": 2, "averaging__merge": "fixed_lag"}
LONG = {**MESH, "run__updates": 100_000, "run__evaluate_every": 0, "run__checkpoint_every": 20}


@pytest.fixture(autouse=True)
def has_mpi():
    if not probe_path("mpi_post").exists() or shutil.which("mpirun") is None:
        pytest.skip("this build has no MPI, or mpirun is not installed: see tools/setup")


SECONDS_MAX = 300  # for a job; whoever reads what a job says would wait for ever


def start(place, ranks, *words, **settings):
    process = subprocess.Popen(
        ["mpirun", "--oversubscribe", "-n", str(ranks), LEEWAY, *map(str, words)],
        cwd=place.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **SETTINGS, **settings},
    )
    ends = threading.Timer(SECONDS_MAX, process.terminate)  # mpirun then ends its ranks
    ends.daemon = True
    ends.start()
    return process


def mpirun(place, ranks, *words, **settings):
    """The exit status, what went to standard output, and to standard error."""
    process = start(place, ranks, *words, **settings)
    out, errors = process.communicate()
    return process.returncode, out, errors


def train(place, ranks, out, *words):
    command = ("train", "tiny.toml", "--driver", "mpi", "--out", out, "--json")
    status, printed, errors = mpirun(place, ranks, *command, *words)
    assert status == 0, errors
    summary = json.loads(printed)
    assert summary == json.loads((place.folder / out / "summary.json").read_text())
    return summary


def sentences(errors):
    return [line for line in errors.splitlines() if line.startswith("leeway: ")]


def wait_for(process, beginning):
    """The first line on standard error with this beginning."""
    said = ""
    for line in process.stderr:
        said += line
        if line.startswith(beginning):
            return line
    raise AssertionError(said)


def pids_of(process):
    """The ranks of a job, in order: mpirun's children."""
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in children.read_text().split()]


@pytest.mark.parametrize("stages, replicas, ranks", [(2, 2, 4), (2, 2, 3), (4, 2, 2), (4, 2, 8)])
def test_ranks_threads_and_the_simulator_give_the_same_bits(place, stages, replicas, ranks):
    mesh = {**MESH, "mesh__stages": stages, "mesh__replicas": replicas, "model__layers": 4}
    sets = place.sets(**mesh)
    real = train(place, ranks, "mpi", *sets)
    threads = place.train("threads", *sets)
    simulated = place.train("sim", *sets, *place.sets(run__driver="sim"))
    assert real["weights_hash"] == threads["weights_hash"] == simulated["weights_hash"]
    assert real["valid_loss"] == threads["valid_loss"]
    logs = sorted(map(str, (place.folder / "mpi/processes").glob("*/process-*")))
    assert len(logs) == ranks
    place.ok("merge", "mpi", *logs, "--out", "merged")
    assert place.ok("replay", "merged").stdout.startswith("identical: 12 updates")


def test_a_process_that_nobody_started_is_the_only_rank(place):
    done = place.ok(
        "train", "tiny.toml", "--driver", "mpi", "--out", "r", *place.sets(**MESH), env=SETTINGS
    )
    assert "this is the only rank; mpirun or srun starts more\n" in done.stderr
    summary = json.loads((place.folder / "r/summary.json").read_text())
    assert summary["weights_hash"] == place.train("t", *place.sets(**MESH))["weights_hash"]


def test_mistakes_are_said_once_and_end_all_ranks(place):
    for words, sentence in [
        (("tiny.toml", *place.sets(**MESH)), "5 ranks are more than the 4 workers of "),
        (("nowhere.toml",), "cannot read nowhere.toml: "),
        (("tiny.toml", "--set", "model.widht=3"), "model.widht"),
    ]:
        status, out, errors = mpirun(place, 5, "train", *words, "--driver", "mpi", "--out", "r")
        assert (status, out) == (2, "")
        assert len(sentences(errors)) == 1 and sentence in sentences(errors)[0], errors
    assert not (place.folder / "r").exists()


def test_a_run_stops_and_goes_on_with_other_ranks(place):
    sets = place.sets(**MESH, run__checkpoint_every=6)  # stopping there changes no bits
    whole = train(place, 2, "whole", *sets)
    assert train(place, 4, "parts", *sets, "--stop-at", 6)["updates"] == 6
    # config.toml has the driver: the recipe alone is enough to know it.
    status, out, errors = mpirun(place, 3, "resume", "parts", "--json")
    assert status == 0, errors
    assert json.loads(out)["weights_hash"] == whole["weights_hash"]
    status, _, errors = mpirun(place, 2, "resume", "parts")
    assert status == 0 and "parts is finished" in errors
    status, _, errors = mpirun(place, 2, "resume", "parts", "--set", "run.seed=5")
    assert status == 2 and len(sentences(errors)) == 1


def goes_on_like_threads(place, stop_at):
    """The unfinished run in r, resumed from the same checkpoint by ranks and by one process."""
    shutil.copytree(place.folder / "r", place.folder / "copy")
    words = ("--resume", *place.sets(**LONG), "--stop-at", stop_at)
    resumed = train(place, 2, "r", *words)
    assert resumed["updates"] == stop_at
    assert resumed["weights_hash"] == place.train("copy", *words)["weights_hash"]


# Asked to end, Open MPI's mpirun waits for some seconds, sends SIGTERM to all ranks, waits as long
# again and kills them; its own status is then 1.
@pytest.mark.parametrize("to, seconds, status", [("mpirun", "40", 1), ("rank 0", "1", 143)])
def test_sigterm_saves_and_the_run_goes_on(place, to, seconds, status):
    command = ("train", "tiny.toml", "--driver", "mpi", "--out", "r", *place.sets(**LONG))
    process = start(place, 3, *command, OMPI_MCA_odls_base_sigkill_timeout=seconds)
    wait_for(process, "saved ")
    os.kill(process.pid if to == "mpirun" else pids_of(process)[0], signal.SIGTERM)
    _, errors = process.communicate()
    assert process.returncode == status, errors
    assert len(sentences(errors)) == 1 and "everything is saved" in sentences(errors)[0]
    stopped = json.loads((place.folder / "r/summary.json").read_text())
    assert 20 <= stopped["updates"] < 100_000 and not stopped["finished"]
    goes_on_like_threads(place, stopped["updates"] + 3)


def test_sigusr1_saves_and_training_goes_on(place):
    sets = place.sets(**{**LONG, "run__checkpoint_every": 0})
    process = start(place, 2, "train", "tiny.toml", "--driver", "mpi", "--out", "r", *sets)
    until(process, lambda: newest_update(place.folder / "r") > 0)
    process.send_signal(signal.SIGUSR1)  # mpirun passes it on to all ranks
    wait_for(process, "saved ")
    os.kill(pids_of(process)[0], signal.SIGTERM)
    process.communicate()
    assert process.returncode == 143


@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_rank_ends_the_job_and_its_checkpoint_goes_on(place, victim):
    sets = place.sets(**LONG)
    process = start(place, 3, "train", "tiny.toml", "--driver", "mpi", "--out", "r", *sets)
    wait_for(process, "saved ")
    ranks = pids_of(process)
    assert len(ranks) == 3
    os.kill(ranks[victim], signal.SIGKILL)
    _, errors = process.communicate()
    assert process.returncode == 137
    assert re.search(r"process rank \d .* exited on signal 9", errors), errors
    # Not a folder that it was about to make.
    made = (place.folder / "r/checkpoints").glob("update-" + "[0-9]" * 8)
    saved = max(int(path.name[-8:]) for path in made)
    goes_on_like_threads(place, saved + 2)


def test_rank_0_fails_before_the_others_are_ready(place):
    """They still read their data when they hear that there is nothing to do."""
    train(place, 2, "r", *place.sets(**MESH), "--stop-at", 3)
    for shard in (place.folder / "r/checkpoints").glob("*/*.safetensors"):
        shard.write_bytes(b"damaged")
    status, out, errors = mpirun(place, 4, "resume", "r")
    assert (status, out) == (1, "")
    assert len(sentences(errors)) == 1 and "checkpoint" in sentences(errors)[0], errors


def test_a_rank_that_fails_ends_the_job_with_its_sentence(place):
    """Rank 1 has no such device; rank 0 does not need one."""
    status, _, errors = mpirun(
        place, 2, "train", "tiny.toml", "--driver", "mpi", "--out", "r",
        *place.sets(**MESH, run__device="cuda:0"),
    )  # fmt: skip
    assert status == 1
    assert re.search(r"^leeway: rank \d: cuda:0 was requested, but ", errors, re.MULTILINE), errors


def test_wrong_words_are_said_once(place):
    status, printed, errors = mpirun(place, 3, "train", "tiny.toml", "--driver", "mpi", "--frob")
    assert status == 2 and printed == ""
    assert len(sentences(errors)) == 1 and "--frob" in sentences(errors)[0], errors
    for name in ("PMIX_RANK", "PMI_RANK", "SLURM_PROCID"):
        assert place.ok("train", "--frob", env={name: "1"}).stderr == ""
        assert "--frob" in place.refused(2, "train", "--frob", env={name: "0"})
        assert "--frob" in place.refused(2, "join", "a:1", "--frob", env={name: "1"}), "own words"
