"""kill -9 while checkpoints are written: the newest that counts opens, each time."""

import json
import os
import random
import signal
import subprocess
import time

from fleets import until
from places import LEEWAY

KILLS = 20
KILLS_MIN = 8  # where the disk is slow
SECONDS = 300
MESH = {"model__layers": 2, "mesh__stages": 2, "mesh__replicas": 2, "averaging__merge": "fixed_lag",
        "averaging__lag": 1, "run__updates": 1_000_000, "run__checkpoint_every": 2,
        "run__evaluate_every": 0}  # fmt: skip


def newest(run):
    """The number of the newest folder with a manifest; -1: none."""
    found = (run / "checkpoints").glob("update-*/checkpoint.json")
    return max((int(path.parent.name[len("update-"):]) for path in found
                if path.parent.name[len("update-"):].isdigit()), default=-1)  # fmt: skip


def wait_for_saves(process, run, before, count):
    """Until this many checkpoints more have counted."""
    seen = set()

    def enough():
        if (number := newest(run)) > before:
            seen.add(number)
        return len(seen) >= count

    until(process, enough, every=0.005)


def kill_at_random(place, arguments, dice, before):
    run = place.folder / "r"
    process = subprocess.Popen(
        [LEEWAY, *map(str, arguments)], cwd=place.folder, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},
    )  # fmt: skip
    try:
        wait_for_saves(process, run, before, dice.randint(1, 3))
        # Somewhere in the next save: busy, because no clock is finer than a rename.
        for _ in range(dice.randint(0, 20000)):
            pass
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()


def test_the_newest_checkpoint_that_counts_opens_after_a_kill(place):
    seed = int(os.environ.get("LEEWAY_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"to repeat it: LEEWAY_SEED={seed}")
    dice = random.Random(seed)
    run = place.folder / "r"
    arguments = ["train", "tiny.toml", "--out", "r", *place.sets(**MESH)]
    before = -1
    end = time.monotonic() + SECONDS
    for kill in range(KILLS):
        if kill >= KILLS_MIN and time.monotonic() > end:
            break
        kill_at_random(place, arguments, dice, before)
        number = newest(run)
        assert number > before, (seed, kill)
        # Half of the time it is resumed and killed again, else it is opened and goes on a little.
        if kill % 2 == 0:
            done = place.run("resume", "r", "--json", "--stop-at", number + 3)
            assert done.returncode == 0, (seed, kill, done.stderr)
            assert "is damaged" not in done.stderr and "not a complete" not in done.stderr, seed
            assert json.loads(done.stdout)["updates"] >= number, (seed, kill)
            assert not list((run / "checkpoints").glob("shards/*")), "a session leaves no shards"
        if kill % 4 == 1:
            place.ok("eval", "r", "--data", "corpus")
        before = newest(run)
        arguments = ["resume", "r"]
