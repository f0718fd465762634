"""`leeway launch` while its processes are killed, stopped, interrupted or cannot start."""

import json
import math
import os
import random
import shutil
import signal

import pytest
from fleets import (
    ARRIVAL,
    FIXED,
    PATIENT,
    children,
    descriptors,
    fleet,
    listening,
    newest_update,
    open_ports,
    resident,
    runs,
)
from test_nothing_lost import events

ENDLESS = 1_000_000  # updates: there is time to disturb a run, which is stopped then
# Processes that are killed, in several runs; `make test-long` kills more. Not more in each:
# `launch` gives up if the same one is killed ten times in a row.
KILLS = int(os.environ.get("LEEWAY_KILLS", "21"))
RUNS = max(3, KILLS // 10)


def summary_of(place, run="r"):
    return json.loads((place.folder / run / "summary.json").read_text())


def present(place):
    """How many processes have come and not gone."""
    audit = (place.folder / "r/audit.jsonl").read_text()
    return audit.count('"event":"joined"') - audit.count('"event":"gone"')


def furthest(place):
    """The most updates that a replica had done at the newest checkpoint."""
    newest = max((place.folder / "r/checkpoints").glob("update-*/checkpoint.json"))
    shards = json.loads(newest.read_text())["shards"]
    return max(shard["update"] for shard in shards)


def is_back(place):
    """Whether a replica was lost and has come back."""
    return any("joined" in event for event in events(place.folder / "r", "members"))


def ends_well(place, run):
    """Stopped after some more updates, and then finished: how many are made while processes come
    and go depends on the machine."""
    run.until_update("r", newest_update(place.folder / "r") + 20)
    run.interrupt()
    assert run.end() == 130, run.said()
    updates = furthest(place) + 20
    place.ok("launch", "--resume", "--out", "r", *place.sets(run__updates=updates))
    assert summary_of(place)["finished"] and summary_of(place)["updates"] == updates
    assert [event["update"] for event in events(place.folder / "r", "update")][-1] == updates


def begin(place, start, recipe, *arguments, **more):
    sets = place.sets(**{**recipe, "run__updates": ENDLESS, "run__evaluate_every": 0, **more})
    return start("launch", "tiny.toml", "--out", "r", *sets, *arguments)


def test_others_go_on_and_a_killed_process_comes_back(place):
    with fleet(place) as start:
        run = begin(place, start, ARRIVAL)
        run.until_update("r", 20)
        os.kill(children(run.pid)[-1], signal.SIGKILL)
        run.until_said("takes the place of replica")
        run.until(lambda: is_back(place))
        ends_well(place, run)
    assert "was ended by signal 9" in run.said()
    tables = [event["replicas"] for event in events(place.folder / "r", "members")]
    assert tables[0] in ("0", "1") and tables[-1] == "0 1", "the loss, and the return"


def test_replicas_that_wait_for_each_other_regroup(place):
    with fleet(place) as start:
        run = begin(place, start, FIXED)
        run.until_update("r", 20)
        os.kill(children(run.pid)[0], signal.SIGKILL)
        # All go on from one checkpoint.
        run.until(lambda: events(place.folder / "r", "resumed"))
        ends_well(place, run)


@pytest.mark.parametrize("seed", range(1, 1 + RUNS))
def test_a_run_survives_random_kills(place, seed):
    """At random moments, of random processes. Each is a replica, and at most two of four are away
    at a time: a run that has lost its last replica is over. One is spared, and must not grow."""
    print("seed", seed)
    choose = random.Random(seed)
    kills = KILLS // RUNS
    mesh = {"mesh__stages": 1, "mesh__replicas": 4}
    mesh["network__heartbeat_ms"] = 1000  # nobody counts as silent who only waits for a core
    with fleet(place) as start:
        run = begin(place, start, FIXED if seed % 2 == 0 else ARRIVAL, **mesh)
        run.until_update("r", 10)
        port, spared = listening(run.pid), choose.choice(children(run.pid))
        sizes, seen = [], set(children(run.pid))
        for _ in range(kills):
            run.until_update("r", newest_update(place.folder / "r") + choose.randrange(1, 30))
            run.until(lambda: present(place) >= 3)
            run.until(lambda: len(children(run.pid)) == 4)
            seen.update(children(run.pid))
            sizes.append([resident(run.pid), resident(spared), descriptors(run.pid)])
            victim = choose.choice([pid for pid in children(run.pid) if pid != spared])
            os.kill(victim, signal.SIGKILL)
            run.until(lambda victim=victim: not runs(victim))
        run.until(lambda: len(children(run.pid)) == 4)
        run.until(lambda: present(place) == 4)
        seen.update(children(run.pid))
        assert listening(run.pid) == port
        ends_well(place, run)
    summary = summary_of(place)
    losses = [event["loss"] for event in events(place.folder / "r", "update")]
    assert math.isfinite(summary["train_loss"]) and summary["train_loss"] < losses[0]
    assert len(port) == 1 and not port & open_ports()
    assert len(seen) == 4 + kills and not [pid for pid in seen if runs(pid)], "no process is left"
    host, guest, files = zip(*sizes, strict=True)
    assert host[-1] < 1.25 * host[1] and guest[-1] < 1.25 * guest[1], sizes
    assert files[-1] < files[1] + 20, "a few are of connections that are about to close"


def test_a_stopped_process_is_replaced(place):
    with fleet(place) as start:
        run = begin(place, start, ARRIVAL)
        run.until_update("r", 20)
        victim = children(run.pid)[1]
        os.kill(victim, signal.SIGSTOP)
        run.until_said("is gone (it is silent)")
        run.until(lambda: not runs(victim))
        run.until_said("takes the place of replica")
        ends_well(place, run)


def test_ctrl_c_saves_everything_and_the_run_resumes(place):
    with fleet(place) as start:
        run = begin(place, start, {**ARRIVAL, **PATIENT}, run__checkpoint_every=0)
        run.until_update("r", 20)
        own = children(run.pid)
        run.interrupt()
        assert run.end() == 130, run.said()
        assert "everything is saved, resume with: leeway" in run.said()
        assert "is missing" not in run.said()
        assert not [pid for pid in own if runs(pid)]
    assert summary_of(place)["updates"] >= 20
    assert "identical" in place.ok("replay", "r").stdout
    stop_at = furthest(place) + 20
    place.ok("launch", "--resume", "--out", "r", "--stop-at", stop_at)
    assert summary_of(place)["updates"] == stop_at
    assert "identical" in place.ok("replay", "r").stdout


def test_sigusr1_saves(place):
    with fleet(place) as start:
        run = begin(place, start, ARRIVAL, run__checkpoint_every=0)
        run.until_update("r", 20)
        run.process.send_signal(signal.SIGUSR1)
        saved = run.until(lambda: events(place.folder / "r", "saved"))
        assert saved[0]["update"] >= 20
        run.interrupt()
        assert run.end() == 130, run.said()


def test_children_that_fail_end_the_run_and_say_why(place):
    place.ok("launch", "tiny.toml", "--out", "r", *place.sets(**FIXED), "--stop-at", 3)
    own = [path for path in (place.folder / "r/processes").iterdir() if path.is_dir()]
    assert len(own) == 1
    shutil.rmtree(own[0])
    own[0].write_text("a file where the processes keep their logs\n")
    done = place.run("launch", "--resume", "--out", "r")
    assert done.returncode == 1, done.stderr
    assert "ended with status 1: leeway: " in done.stderr and own[0].name in done.stderr


def test_children_that_cannot_be_prepared_end_the_run(place):
    place.ok("launch", "tiny.toml", "--out", "r", *place.sets(**FIXED), "--stop-at", 3)
    shutil.rmtree(place.folder / "r/processes")
    (place.folder / "r/processes").write_text("a file where their folder should be\n")
    assert "processes" in place.refused(1, "launch", "--resume", "--out", "r")


def test_a_child_that_cannot_be_started_ends_the_run(place):
    place.ok("launch", "tiny.toml", "--out", "r", *place.sets(**FIXED), "--stop-at", 3)
    log = place.folder / "r/processes/process-0.log"
    log.unlink()
    log.mkdir()
    place.refused(1, "launch", "--resume", "--out", "r")


def test_a_device_that_is_not_there_is_said_by_the_child(place):
    sets = place.sets(**FIXED, run__device="cuda")
    sentence = place.refused(2, "launch", "tiny.toml", "--out", "r", *sets)
    assert "ended with status 2: leeway: " in sentence and "without CUDA" in sentence
