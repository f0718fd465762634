"""`torchrun --no-python leeway train --driver zmq`: rank 0 coordinates and trains, others join."""

import json
import os
import signal
import subprocess
import threading

import pytest
from places import LEEWAY, REPOSITORY

TORCHRUN = REPOSITORY / ".venv/bin/torchrun"
SECONDS_MAX = 280
MESH = {"mesh__stages": 2, "mesh__replicas": 2, "averaging__merge": "fixed_lag"}


@pytest.fixture(autouse=True)
def has_torchrun():
    if not TORCHRUN.exists():
        pytest.skip("torchrun is not installed: `tools/setup tests` installs it")


def start(place, ranks, *words):
    return subprocess.Popen(
        [TORCHRUN, "--no-python", "--nproc-per-node", str(ranks), LEEWAY, *map(str, words)],
        cwd=place.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # On a slow disk, the last save takes longer than the 30 s before torchrun kills.
        env={**os.environ, "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1",
             "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "200"},
    )  # fmt: skip


def train(place, ranks, out, *words):
    """The exit status, what went to standard output, and to standard error."""
    process = start(
        place, ranks, "train", "tiny.toml", "--driver", "zmq", "--out", out, "--json", *words
    )
    printed, errors = ended(process)
    return process.returncode, printed, errors


def ended(process):
    """What it has printed. A job that hangs is killed with its ranks, which hold a port."""
    try:
        return process.communicate(timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def sentences(errors):
    return [line for line in errors.splitlines() if line.startswith("leeway: ")]


@pytest.mark.parametrize("ranks, security", [(2, ()), (3, ("--key", "job.key"))])
def test_ranks_give_the_bits_of_threads(place, ranks, security):
    place.ok("keys", "new", "job.key")
    status, printed, errors = train(place, ranks, "job", *place.sets(**MESH), *security)
    assert status == 0, errors
    threads = place.train("threads", *place.sets(**MESH))
    assert json.loads(printed)["weights_hash"] == threads["weights_hash"]
    logs = list((place.folder / "job/processes").glob("*/process-*"))
    assert len(logs) == ranks


def test_too_many_ranks(place):
    status, printed, errors = train(place, 5, "job", *place.sets(**MESH))
    assert (status, printed) == (1, "")  # torchrun's own
    assert "leeway: 5 ranks are more than the 4 workers of " in errors
    assert not (place.folder / "job").exists()


def test_ranks_that_wait_end_with_rank_0(place):
    """Rank 0 finds an unfinished run; nobody has heard of it, so torchrun's SIGTERM ends them."""
    place.train("job", *place.sets(**MESH), "--stop-at", 3)
    status, _, errors = train(place, 2, "job", *place.sets(**MESH))
    assert status == 1
    assert any("job has an unfinished run" in line for line in sentences(errors)), errors
    assert "SIGKILL" not in errors  # torchrun's, for those that do not heed SIGTERM


def test_a_run_that_cannot_go_on_says_why(place):
    """Before any rank has joined."""
    place.train("job", *place.sets(**MESH), "--stop-at", 3)
    for shard in (place.folder / "job/checkpoints").glob("*/*.safetensors"):
        shard.write_bytes(b"damaged")
    status, _, errors = train(place, 2, "job", "--resume", *place.sets(**MESH))
    assert status == 1
    assert any("has no intact checkpoint" in line for line in sentences(errors)), errors


def test_sigterm_saves_and_the_run_goes_on(place):
    values = {**MESH, "run__updates": 100_000, "run__evaluate_every": 0}
    sets = place.sets(**values, run__checkpoint_every=20)
    process = start(place, 2, "train", "tiny.toml", "--driver", "zmq", "--out", "r", *sets)
    watchdog = threading.Timer(SECONDS_MAX, os.killpg, (process.pid, signal.SIGKILL))
    watchdog.start()
    for line in process.stderr:
        if line.startswith("saved "):
            break
    watchdog.cancel()
    process.send_signal(signal.SIGTERM)
    _, errors = ended(process)
    assert "everything is saved, resume with: torchrun" in errors
    assert "leeway train --driver zmq --resume --out r" in errors
    stopped = json.loads((place.folder / "r/summary.json").read_text())["updates"]
    assert stopped >= 20
    status, printed, errors = train(place, 2, "r", "--resume", *sets, "--stop-at", stopped + 3)
    assert status == 0, errors
    assert json.loads(printed)["updates"] == stopped + 3


def test_other_machines_need_a_key(place):
    job = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "node7", "MASTER_PORT": "29500"}
    sentence = place.refused(2, "train", "tiny.toml", "--driver", "zmq", env=job)
    assert "without --key anybody could join at node7" in sentence


def test_without_torchrun_the_driver_is_refused(place):
    sentence = place.refused(2, "train", "tiny.toml", "--driver", "zmq")
    assert "is for many processes: use `leeway launch`" in sentence
