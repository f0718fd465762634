"""A coordinator that is killed: training goes on, and the next one finds the session again."""

import re

import pytest
from fleets import ARRIVAL, FIXED, fleet, newest_update
from test_join import Machines, summary_of
from test_nothing_lost import events

# However many updates are made while a coordinator is killed and started: the runs are stopped.
ENDLESS = {
    "run__updates": 100_000,
    "run__checkpoint_every": 50,
    "model__width": 64,
    "model__context": 64,
    "data__batch": 8,
}
FIXED = {**FIXED, **ENDLESS}
ARRIVAL = {**ARRIVAL, **ENDLESS}


@pytest.fixture
def machines(place):
    with fleet(place) as start:
        yield Machines(place, start, "berlin", "paris")


def logged_by(place, name):
    """Bytes in the logs of a machine: they grow while it trains."""
    logs = (place.folder / f"join-{name}").rglob("events.jsonl")
    return sum(log.stat().st_size for log in logs)


def begin(machines, recipe, kill_at=80):
    """Both machines train, and the coordinator is gone."""
    host = machines.coordinate(recipe)
    guests = [machines.join(name, "--workers", 2) for name in ("berlin", "paris")]
    host.until_update("r", kill_at)
    host.until_said("saved r/checkpoints/")
    host.kill()
    return guests


def again(machines, *arguments):
    """It listens where the first one did, by what that one has kept."""
    words = ("--key", "trainer.key", "--allow", "machines.txt", *arguments)
    return machines.start("coordinate", "--resume", "--out", "r", *words)


def stop(place, host, guests):
    """After some more updates. Everybody ends, and knows that the run is not finished."""
    host.until_update("r", newest_update(place.folder / "r") + 20)
    host.interrupt()
    assert host.end() == 130 and "everything is saved" in host.said(), host.said()
    assert [guest.end() for guest in guests] == [1, 1], guests[0].said() + guests[1].said()
    assert "has stopped before the end of the run" in guests[0].sentence()


def test_the_session_goes_on_to_the_same_bits(place, machines):
    guests = begin(machines, FIXED)
    killed_at = newest_update(place.folder / "r")
    before = logged_by(place, "berlin")
    guests[0].until_said("is silent; training goes on without it")
    guests[0].until(lambda: logged_by(place, "berlin") > before)
    host = again(machines)
    host.until_said("2 of 2 processes have come back")
    stop(place, host, guests)
    assert "is back\n" in guests[0].said()
    summary = summary_of(place)
    threads = place.train("threads", *place.sets(**FIXED), "--stop-at", summary["updates"])
    assert summary["weights_hash"] == threads["weights_hash"]
    assert summary["valid_loss"] == threads["valid_loss"]
    assert summary["tokens"] == threads["tokens"]
    for purpose in ("activations", "gradients", "averaging", "evaluation"):
        assert summary[f"bytes_{purpose}"] == threads[f"bytes_{purpose}"], purpose
    # One session: nobody joined again, and nothing was done twice.
    assert [what for what, _ in machines.audit()].count("joined") == 2
    assert machines.audit().count(("back", "berlin")) == 1
    assert not events(place.folder / "r", "resumed")
    assert len(events(place.folder / "r", "taken_over")) == 1
    updates = [event["update"] for event in events(place.folder / "r", "update")]
    assert updates == sorted(set(updates)) and updates[-1] == summary["updates"]
    assert len([u for u in updates if u <= killed_at]) == killed_at
    place.ok("report", "r")
    place.ok("timeline", "r")


def test_who_died_meanwhile_is_replaced(place, machines):
    berlin, paris = begin(machines, ARRIVAL)
    paris.kill()
    host = again(machines)
    host.until_said("1 of 2 processes have come back")
    new = machines.join("paris", "--workers", 2)
    # Whose replica is 0 depends on who joined first.
    host.until(lambda: re.search(r"replica [01] is back, and goes on after update", host.said()))
    stop(place, host, [berlin, new])
    back = [event for event in events(place.folder / "r", "members") if "joined" in event]
    assert len(back) == 1 and back[0]["from"] <= summary_of(place)["updates"]
    assert not events(place.folder / "r", "resumed")


def test_it_may_die_more_than_once(place, machines):
    guests = begin(machines, ARRIVAL)
    run = place.folder / "r"
    for times in (1, 2, 3):
        host = again(machines)
        host.until(lambda times=times: len(events(run, "taken_over")) == times)
        host.until_update("r", newest_update(run) + 20)
        if times < 3:
            host.kill()
    stop(place, host, guests)
    assert not events(run, "resumed")


def test_if_nobody_comes_back_a_checkpoint_does(place, machines):
    for guest in begin(machines, FIXED):
        guest.kill()
    host = again(machines)
    host.until_said("nobody has come back")
    guests = [machines.join(name, "--workers", 2) for name in ("berlin", "paris")]
    host.until(lambda: events(place.folder / "r", "resumed"))
    stop(place, host, guests)
    assert len(events(place.folder / "r", "resumed")) == 1


def test_a_mistake_at_the_start_does_not_end_training(place, machines):
    guests = begin(machines, ARRIVAL)
    sentence = place.refused(
        2, "coordinate", "tiny.toml", "--out", "r", "--key", "trainer.key",
        "--allow", "machines.txt", "--listen", f"tcp://127.0.0.1:{machines.port}",
    )  # fmt: skip
    assert "--resume" in sentence
    other = again(machines, "--set", "run.seed=77")
    assert other.end() == 2 and "run.seed was 3" in other.sentence()
    early = again(machines, "--stop-at", "90")
    assert early.end() == 2 and "resume it without --stop-at" in early.sentence()
    assert all(guest.process.poll() is None for guest in guests)
    host = again(machines)
    host.until_said("2 of 2 processes have come back")
    stop(place, host, guests)
