"""Replicas that are lost come back, and the run goes on as if little had happened."""

import json

import pytest
from fleets import PATIENT
from test_nothing_lost import events

MESH = {
    "mesh__stages": 2,
    "mesh__replicas": 3,
    "run__driver": "sim",
    "run__updates": 60,
    "run__evaluate_every": 10,
    "run__checkpoint_every": 5,
    "sim__flops": 1e7,
    "sim__notice_ms": 50,
}
STORY = (
    '["replica 1 lost at 20","replica 1 back at 30","replica 2 leaves at 40",'
    '"coordinator lost at 45"]'
)


def saved_after(run):
    return [event["update"] for event in events(run, "saved")]


def test_one_is_lost_and_back_another_leaves_and_the_coordinator_is_replaced(place):
    sets = {**MESH, "averaging__merge": "on_arrival", "run__faults": STORY}
    summary = place.train("r", *place.sets(**sets))
    run = place.folder / "r"
    assert summary["finished"] and summary["updates"] == 60
    members = {event["table"]: event for event in events(run, "members")}
    assert [members[n]["replicas"] for n in (1, 2, 3)] == ["0 2", "0 1 2", "0 1"]
    back = members[2]
    assert back["joined"] == 1 and 30 <= back["from"] <= 36
    updates = events(run, "update")
    assert [event["update"] for event in updates] == list(range(1, 61)), "each is logged once"
    who = {event["update"]: event.get("replicas", "0 1 2") for event in updates}
    assert who[19] == "0 1 2" and who[25] == who[back["from"]] == "0 2"
    assert who[back["from"] + 1] == "0 1 2" and who[60] == "0 1"
    assert summary["tokens"] == updates[-1]["tokens"] < 60 * updates[0]["tokens"]
    saved = saved_after(run)
    assert saved[-1] == 60 and any(update > back["from"] for update in saved if update < 40)
    assert sum(event["loss"] for event in updates[-10:]) < sum(e["loss"] for e in updates[:10])
    # The report shows who was there when.
    (row,) = json.loads(place.ok("report", "r", "--json").stdout)["runs"]
    there = {entry["replica"]: entry["updates"] for entry in row["members"]}
    assert there[0] == [[1, 60]] and len(there[1]) == 2 and there[2][0][1] in (39, 40)
    assert there[1][1][0] == back["from"] + 1
    refused = place.refused(1, "replay", "r")
    assert "cannot be replayed" in refused
    # What it was before, and the newest checkpoint, can be resumed.
    more = place.ok("resume", "r", "--set", "run.updates=64", "--json")
    assert json.loads(more.stdout)["updates"] == 64


@pytest.mark.parametrize("disk", ["", " with its disk"])
def test_a_replica_that_is_back_has_weights_of_the_fleet(place, disk):
    faults = f'["replica 0 lost at 25","replica 0 back{disk} at 28"]'
    sets = {**MESH, "averaging__merge": "on_arrival", "run__updates": 80, "run__faults": faults}
    sets["run__checkpoint_every"] = 20
    whole = place.train("whole", *place.sets(**{**sets, "run__faults": "[]"}))
    summary = place.train("r", *place.sets(**sets))
    assert summary["valid_replicas"] == [0, 1, 2]
    assert abs(summary["valid_loss"] - whole["valid_loss"]) < 0.15
    work = events(place.folder / "r", "work")
    transfers = [event for event in work if event["kind"] == "transfer"]
    sent = sum(event["bytes"] for event in transfers if event["replica"] != 0)
    assert (sent > 0) != bool(disk), "its own disk has what it needs"


@pytest.mark.parametrize("method", ["sparse", "allreduce", "lowbit"])
def test_replicas_that_wait_for_each_other_begin_again_together(place, method):
    faults = '["replica 1 lost at 20","replica 1 back at 30"]'
    sets = {**MESH, "averaging__method": method, "averaging__merge": "fixed_lag"}
    sets |= {"run__faults": faults}
    if method == "allreduce":
        sets["averaging__merge"] = "auto"
    done = place.ok("train", "tiny.toml", "--out", "r", *place.sets(**sets))
    assert "all replicas are there again, and go on together from update-" in done.stderr
    run = place.folder / "r"
    (resumed,) = events(run, "resumed")
    assert 30 <= resumed["update"] <= 38
    updates = events(run, "update")
    made = [event["update"] for event in updates]
    assert made == list(range(1, 61))
    who = [event.get("replicas", "0 1 2") for event in updates]
    assert who[24] == "0 2" and who[-1] == "0 1 2"
    summary = json.loads((run / "summary.json").read_text())
    assert summary["finished"] and summary["valid_replicas"] == [0, 1, 2]


@pytest.mark.parametrize("faults", [
    '["replica 1 lost at 20","replica 1 back at 30"]',
    '["replica 1 lost at 20","replica 1 back with its disk at 30"]',
    '["replica 1 lost at 20"]',
    '["replica 0 lost at 15","replica 0 back at 25","replica 2 lost at 35","replica 2 back at 45"]',
])  # fmt: skip
def test_one_that_is_back_takes_the_common_model_and_counts_at_once(place, faults):
    """Owners of chunks are lost with their replicas, and others take over."""
    sets = {**MESH, "averaging__method": "lowbit", "averaging__merge": "on_arrival"}
    done = place.ok("train", "tiny.toml", "--out", "r", "--json",
                    *place.sets(**sets, run__faults=faults))  # fmt: skip
    summary = json.loads(done.stdout)
    assert summary["finished"] and summary["agreement"] == "identical"
    assert "go on together" not in done.stderr, "the session goes on"
    assert summary["chunks_written_off"] > 0, "what their owners had left over"
    back = [event for event in events(place.folder / "r", "members") if "joined" in event]
    assert len(back) == faults.count("back")
    assert summary["valid_replicas"] == ([0, 1, 2] if back else [0, 2])


@pytest.mark.parametrize("merge", ["on_arrival", "fixed_lag"])
def test_threads_are_lost_and_replaced_as_well(place, merge):
    # Far apart: how many updates the others make until it is back depends on the machine.
    faults = STORY.replace("45", "450").replace("40", "400")
    sets = {"mesh__stages": 2, "mesh__replicas": 3, "run__updates": 500, "run__faults": faults}
    sets |= {"run__checkpoint_every": 0, "run__join_mbit": 1000, "averaging__merge": merge}
    if merge == "on_arrival":
        sets |= PATIENT
    summary = place.train("r", *place.sets(**sets))
    run = place.folder / "r"
    assert summary["finished"] and summary["updates"] == 500
    assert summary["valid_replicas"] == [0, 1]
    updates = events(run, "update")
    assert [event["update"] for event in updates] == list(range(1, 501)), "each is logged once"
    # Replicas that do not wait for each other are not at the same update when one is lost.
    who = [event.get("replicas", "0 1 2") for event in updates]
    changes = [one for one, before in zip(who, [None, *who]) if one != before]
    assert changes == ["0 1 2", "0 2", "0 1 2", "0 1"]
    assert saved_after(run)[-1] == 500
    (resumed,) = events(run, "resumed") if merge == "fixed_lag" else [None]
    assert resumed is None or 30 <= resumed["update"] < 400
