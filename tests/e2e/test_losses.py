"""A run that loses a replica or its coordinator goes on, and says so; stops can be replayed."""

import json

import pytest
from fleets import PATIENT
from test_nothing_lost import end, events, training

MESH = {
    "mesh__stages": 2,
    "mesh__replicas": 3,
    "run__driver": "sim",
    "run__updates": 40,
    "run__evaluate_every": 5,
    "run__evaluate_mean_every": 10,
    "run__checkpoint_every": 10,
    "sim__flops": 1e7,
    "sim__notice_ms": 50,
}


@pytest.mark.parametrize("merge", ["fixed_lag", "on_arrival"])
@pytest.mark.parametrize("lost", [0, 2])
def test_the_others_go_on_without_a_lost_replica(place, merge, lost):
    faults = {"run__faults": f"replica {lost} lost at 20", "averaging__merge": merge}
    summary = place.train("r", *place.sets(**MESH, **faults))
    run = place.folder / "r"
    assert summary["updates"] == 40 and summary["finished"]
    updates = events(run, "update")
    assert [event["update"] for event in updates] == list(range(1, 41))
    left = " ".join(str(r) for r in range(3) if r != lost)
    assert updates[-1]["replicas"] == left and "replicas" not in updates[0]
    assert summary["tokens"] == updates[-1]["tokens"] < 40 * updates[0]["tokens"]
    assert [event["replicas"] for event in events(run, "members")] == [left]
    means, own = events(run, "evaluated"), events(run, "evaluated_own")
    assert means[-1]["update"] == 40 and means[-1]["replicas"] == left
    assert len(means) + len(own) >= 7, "one may be lost with its replica"
    assert own[0]["replicas"] == "0" and own[-1]["replicas"] == left[0]
    assert (run / "checkpoints/update-00000040").exists()
    assert "identical" in place.ok("replay", "r").stdout
    more = place.ok("resume", "r", "--set", "run.updates=44", "--json")
    assert json.loads(more.stdout)["updates"] == 44, "resumed with all replicas"


def test_the_run_is_the_same_without_its_coordinator_for_a_while(place):
    averaging = {"averaging__merge": "fixed_lag"}
    whole = place.train("whole", *place.sets(**MESH, **averaging))
    faults = {"run__faults": "coordinator lost at 15"}
    replaced = place.train("r", *place.sets(**MESH, **averaging, **faults))
    assert replaced["weights_hash"] == whole["weights_hash"]
    assert replaced["valid_loss"] == whole["valid_loss"]
    updates = [[e["loss"] for e in events(place.folder / run, "update")] for run in ("whole", "r")]
    assert len(updates[0]) == 40 and updates[0] == updates[1], "no report is lost"


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("replica 3 lost at 3", "counted from 0"),
        ("replica 1 back at 3", "is lost first"),
        ("replica 1 vanishes at 3", "not a fault that Leeway knows"),
        ("replica 1 lost at 0", "not a fault that Leeway knows"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(place, fault, says):
    assert says in place.refused(
        2, "train", "tiny.toml", *place.sets(**{**MESH, "run__faults": fault})
    )


@pytest.mark.parametrize("updates", [3, 17, 31])
def test_a_stopped_run_of_replicas_that_do_not_wait_is_replayed(place, updates):
    sets = place.sets(
        **PATIENT,
        mesh__stages=2,
        mesh__replicas=3,
        averaging__merge="on_arrival",
        run__updates=1_000_000,
        run__evaluate_every=20,
        run__checkpoint_every=0,
    )
    with training(place, "r", *sets, updates=updates) as process:
        _, err = end(process)
    assert process.returncode == 130, err
    done = events(place.folder / "r", "ended")[-1]["update"]
    place.ok("resume", "r", "--stop-at", done + 300)
    assert "identical" in place.ok("replay", "r").stdout


def test_a_run_that_loses_its_last_replica_says_so(place):
    alone = {**MESH, "mesh__replicas": 1, "run__faults": "replica 0 lost at 12"}
    sentence = place.refused(1, "train", "tiny.toml", "--out", "r", *place.sets(**alone))
    assert "no replica is left after update 1" in sentence and "resumed from" in sentence


@pytest.mark.parametrize("driver", ["sim", "threads"])
def test_replicas_that_all_diverge_end_the_run(place, driver):
    sets = place.sets(
        mesh__replicas=2,
        run__driver=driver,
        averaging__method="allreduce",
        optimizer__name="sgd",
        optimizer__rate=100,
        optimizer__clip=0,
        optimizer__warmup=0,
        run__updates=20,
    )
    sentence = place.refused(1, "train", "tiny.toml", "--out", "r", *sets)
    assert "training diverged at update" in sentence
