"""run.log: what the event log keeps, and what can still be made of it."""

import json
import os
import subprocess

import pytest
from fleets import PATIENT
from hand_made_run import work, write_run
from places import LEEWAY

# Replicas that merge on arrival: which means were merged when is in the log alone.
ARRIVAL = {
    "model__layers": 2, "model__width": 16, "model__context": 16, "mesh__stages": 2,
    "mesh__replicas": 2, "run__updates": 145, "run__evaluate_every": 0, "run__checkpoint_every": 60,
}  # fmt: skip


def events(folder):
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def kinds(folder):
    counts = {}
    for event in events(folder):
        kind = event.get("kind", event["event"])
        counts[kind] = counts.get(kind, 0) + 1
    return counts


@pytest.mark.parametrize(("level", "updates"), [("auto", 60), ("updates", 0), ("all", 145)])
def test_weights_replay_at_every_level(place, level, updates):
    summary = place.train("r", *place.sets(run__log=level, **ARRIVAL))
    counts = kinds(place.folder / "r")
    microbatches = 2 * 2 * 2  # two per update, stages and replicas
    assert counts.get("backward", 0) == updates * microbatches
    # Of the updates ahead as well, as far as a worker did them in a logged update.
    assert 0 <= counts.get("forward", 0) - updates * microbatches <= 8
    assert counts["merge"] > 0 and counts["contribute"] > 0
    assert 1 <= counts["saved"] <= 3, "a busy disk skips some, but not the last one"
    done = place.ok("replay", "r")
    assert done.stdout.startswith("identical: 145 updates")
    assert summary["weights_hash"] in done.stdout
    last = [event for event in events(place.folder / "r") if event["event"] == "update"][-1]
    assert last["bytes_averaging"] > 0 and last["bytes_gradients"] == summary["bytes_gradients"]


def test_a_session_may_log_more_or_less_than_the_one_before(place):
    sets = place.sets(**{**ARRIVAL, **PATIENT, "run__updates": 12, "run__checkpoint_every": 0})
    place.train("r", *sets, *place.sets(run__log="updates"), "--stop-at", 6)
    place.train("r", *sets, *place.sets(run__log="all"), "--resume")
    assert place.ok("replay", "r").stdout.startswith("identical: 12 updates")
    done = place.ok("timeline", "r")
    assert "note: the work of updates 7 to 12 is logged (run.log); the numbers cover" in done.stderr
    # A record that its level keeps must be there.
    log = place.folder / "r/events.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    gone = next(i for i, line in enumerate(lines) if '"forward"' in line and '"update":9' in line)
    log.write_text("".join(lines[:gone] + lines[gone + 1 :]))
    assert "differs from the run" in place.refused(1, "replay", "r")


def test_readers_say_what_they_cover(place):
    summary = place.train("r", *place.sets(**ARRIVAL))
    stretches = "the work of updates 1 to 50, 131 to 140 is logged (run.log)"
    done = place.ok("timeline", "r", "--trace", "t.json")
    assert stretches in done.stderr and "145 updates" in done.stdout
    assert "drawn: updates 1 to" in done.stdout and " and updates 13" in done.stdout
    shares = [line.split() for line in done.stdout.splitlines() if line.startswith("all ")][0]
    assert all(0 < float(share) <= 100 for share in (shares[1], shares[3], shares[5]))
    assert "not logged" in (place.folder / "r/timeline.svg").read_text()
    assert "the log has that of updates 1 to 50, 131 to 140" in place.refused(
        2, "timeline", "r", "--updates", "60:70"
    )
    place.ok("report", "r", "--csv", "csv")
    assert stretches in (place.folder / "r/report.html").read_text()
    runs = (place.folder / "csv/runs.csv").read_text().splitlines()
    row = dict(zip(runs[0].split(","), runs[1].split(",")))
    for key in ("bytes_averaging", "bytes_activations", "bytes_gradients"):
        assert int(row[key]) == summary[key]
    place.train("u", *place.sets(**{**ARRIVAL, "run__updates": 4, "run__log": "updates"}))
    assert "train with run.log=auto or run.log=all" in place.refused(1, "timeline", "u")
    place.ok("report", "u")


def peak_bytes(place, *arguments):
    with subprocess.Popen(
        [LEEWAY, *arguments], cwd=place.folder, stdout=subprocess.DEVNULL
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024


def steady(updates):
    """Eight stages of one microbatch an update."""
    lines = []
    for n in range(updates):
        for stage in range(8):
            at = (n * 16 + stage) * 1000
            lines.append(work("forward", stage, at, at + 900, n + 1, n, bytes=4096))
            lines.append(work("backward", stage, at + 4000, at + 4900, n + 1, n, bytes=4096))
            lines.append(work("update", stage, at + 5000, at + 5100, n + 1))
    return sorted(lines, key=lambda line: line["end"])


@pytest.mark.parametrize("command", [["timeline"], ["timeline", "--trace", "t.json"], ["report"]])
def test_a_long_log_needs_no_more_memory_than_a_short_one(place, command):
    write_run(place, steady(50), "short")
    log = write_run(place, steady(5000), "long") / "events.jsonl"
    verb, *rest = command
    grown = peak_bytes(place, verb, "long", *rest) - peak_bytes(place, verb, "short", *rest)
    assert log.stat().st_size > 18_000_000
    assert grown < 12_000_000
