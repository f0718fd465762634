"""`leeway launch`: one machine, many processes, the same training."""

import json
import re
import stat

import pytest
from fleets import ARRIVAL, FIXED
from test_nothing_lost import events


def launch(place, out, *arguments):
    done = place.ok("launch", "tiny.toml", "--out", out, "--json", *arguments)
    return json.loads(done.stdout)


@pytest.mark.parametrize("how", [["--processes", "4"], ["--processes", "3"], ["--insecure"]])
def test_processes_train_to_the_bits_of_threads(place, how):
    sets = place.sets(**FIXED)
    threads = place.train("threads", *sets)
    run = launch(place, "r", *sets, *how)
    assert run["finished"] and run["weights_hash"] == threads["weights_hash"]
    assert run["valid_loss"] == threads["valid_loss"]
    losses = [[e["loss"] for e in events(place.folder / r, "update")] for r in ("threads", "r")]
    assert losses[0] == losses[1]


def test_more_processes_than_workers_are_refused(place):
    sentence = place.refused(
        2, "launch", "tiny.toml", "--out", "r", "--processes", 5, *place.sets(**FIXED)
    )
    assert "--processes 5 is more than the 4 workers" in sentence
    assert not (place.folder / "r").exists()


def test_a_run_on_arrival_can_be_read_and_replayed(place):
    launch(place, "r", *place.sets(**ARRIVAL))
    run = place.folder / "r"
    assert place.ok("replay", "r").stdout.startswith("identical: 60 updates")
    place.ok("report", "r")
    place.ok("timeline", "r")
    assert (run / "report.html").exists() and (run / "timeline.svg").exists()
    audit = [json.loads(line) for line in (run / "audit.jsonl").read_text().splitlines()]
    joined = [line for line in audit if line["event"] == "joined"]
    assert sorted(line["name"] for line in joined) == [f"process {i}" for i in range(4)], audit
    assert all(line["key"] and line["host"] == "127.0.0.1" for line in joined)
    work = events(run, "work")
    assert {(e["replica"], e["stage"]) for e in work} == {(r, s) for r in (0, 1) for s in (0, 1)}


def test_the_secret_key_is_in_its_file_alone(place):
    launch(place, "r", *place.sets(**FIXED))
    run = place.folder / "r"
    key = run / "processes/key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    secret = re.search(r'^secret = "(.{40})"$', key.read_text(), re.MULTILINE).group(1)
    read = [file for file in run.rglob("*") if file.is_file() and file != key]
    assert len(read) > 10
    assert not [file for file in read if secret.encode() in file.read_bytes()]
