"""`leeway coordinate` and `leeway join` on loopback: keys, an allow-list, and who is let in."""

import contextlib
import json
import re
import signal
import socket

import pytest
from fleets import ARRIVAL, FIXED, Fleet, fleet, newest_update
from test_nothing_lost import events

# Two machines that are stopped or disturbed, however many updates are made meanwhile.
TWO = {"mesh__stages": 1, "mesh__replicas": 2, "run__updates": 100_000, "run__evaluate_every": 0}


class Machines:
    """A coordinator with a key, and machines whose keys it knows."""

    def __init__(self, place, start, *names):
        self.place, self.start = place, start
        self.allow = place.folder / "machines.txt"
        self.keys = {name: self.new_key(name) for name in ("trainer", *names)}
        self.list(*names)
        self.host = None

    def new_key(self, name):
        return self.place.ok("keys", "new", f"{name}.key").stdout.strip()

    def list(self, *names):
        self.write_list("".join(f"{name} {self.keys[name]}\n" for name in names))

    def write_list(self, text):
        """In one step: on a busy disk, a file can be empty for seconds before it is written."""
        new = self.allow.with_suffix(".new")
        new.write_text(text)
        new.replace(self.allow)

    def coordinate(self, recipe, *arguments):
        # Only who is gone is to be silent for so long: a busy machine may stall for seconds.
        recipe = {**recipe, "network__heartbeat_ms": 2500}
        words = ("--listen", "tcp://127.0.0.1:0", "--key", "trainer.key", "--allow", "machines.txt")
        self.host = self.start(
            "coordinate", "tiny.toml", "--out", "r", *words, *self.place.sets(**recipe), *arguments
        )
        self.host.until_said("its public key is")
        self.port = re.search(r"listening at tcp://127.0.0.1:(\d+)", self.host.said()).group(1)
        return self.host

    def join(self, name, *arguments, key=None):
        return self.start(
            "join", f"127.0.0.1:{self.port}", "--name", name, "--key", f"{key or name}.key",
            "--host-key", "trainer.key.pub", "--out", f"join-{name}", *arguments,
        )  # fmt: skip

    def audit(self):
        lines = (self.place.folder / "r/audit.jsonl").read_text().splitlines()
        return [(event["event"], event.get("name")) for event in map(json.loads, lines)]


@pytest.fixture
def machines(place):
    with fleet(place) as start:
        yield lambda *names: Machines(place, start, *names)


def summary_of(place):
    return json.loads((place.folder / "r/summary.json").read_text())


def test_machines_with_keys_train_to_the_bits_of_threads(place, machines):
    ours = machines("berlin", "paris")
    host = ours.coordinate(FIXED)
    berlin, paris = (ours.join(name, "--workers", 2) for name in ("berlin", "paris"))
    assert host.end() == 0, host.said()
    assert berlin.end() == 0 and paris.end() == 0, berlin.said() + paris.said()
    threads = place.train("threads", *place.sets(**FIXED))
    assert summary_of(place)["weights_hash"] == threads["weights_hash"]
    assert {("joined", "berlin"), ("joined", "paris")} <= set(ours.audit())
    assert place.ok("replay", "r").stdout.startswith("identical")


def test_who_is_not_on_the_list_is_not_let_in(place, machines):
    ours = machines("berlin", "paris")
    ours.new_key("rome")
    host = ours.coordinate(FIXED)
    berlin = ours.join("berlin", "--workers", 2)
    rome = ours.join("rome", "--workers", 2)
    assert rome.end() == 2
    assert "does not let this process in: its allow-list has no line" in rome.sentence()
    wrong = ours.start(
        "join", f"127.0.0.1:{ours.port}", "--key", "paris.key", "--host-key", "rome.key.pub",
        "--out", "join-wrong", "--wait", 20,
    )  # fmt: skip
    wrong.until_said("probably --host-key is not the coordinator's public key")
    assert wrong.end() == 1
    assert "does not answer: it ends every connection" in wrong.sentence()
    paris = ours.join("paris", "--workers", 2)
    assert host.end() == 0 and berlin.end() == 0 and paris.end() == 0, host.said()


def test_other_data_is_refused_with_the_difference(place, machines):
    other = place.folder / "other"
    other.mkdir()
    for file in (place.folder / "corpus").iterdir():
        (other / file.name).write_text(file.read_text().replace("word", "term"))
    ours = machines("berlin", "paris")
    host = ours.coordinate(FIXED)
    berlin = ours.join("berlin", "--workers", 2)
    place.ok("data", "prepare", "other", "--tokenizer", "bytes", "--out", "prepared")
    paris = ours.join("paris", "--data", "prepared")
    assert paris.end() == 2
    said = re.search(r"refuses this process: its training data is (\w+), and", paris.sentence())
    assert f"train hash {said.group(1)}" in place.ok("data", "info", "prepared").stdout
    assert "refused paris: its training data is" in host.said()
    again = ours.join("paris", "--workers", 2, "--data", "corpus")
    assert host.end() == 0 and berlin.end() == 0 and again.end() == 0, host.said()


def test_a_process_has_a_worker_on_each_of_its_devices(place, machines):
    ours = machines("berlin", "paris")
    host = ours.coordinate(FIXED)
    berlin, paris = (ours.join(name, "--devices", "cpu,cpu") for name in ("berlin", "paris"))
    assert host.end() == 0, host.said()
    assert berlin.end() == 0 and paris.end() == 0, berlin.said() + paris.said()
    threads = place.train("threads", *place.sets(**FIXED))
    assert summary_of(place)["weights_hash"] == threads["weights_hash"]


def test_a_device_that_is_not_there_is_said_before_anybody_is_asked(place):
    def refused(devices, *words):
        return place.refused(2, "join", "--devices", devices, "127.0.0.1:1", *words)

    assert "cuda:99 was requested, but" in refused("cpu,cuda:99")
    assert "gpu0 is no device" in refused("cpu,gpu0")
    assert "--workers" in refused("cpu,cpu", "--workers", 2)


def test_a_machine_is_named_as_the_list_names_it(place, machines):
    ours = machines("berlin", "paris")
    host = ours.coordinate({**ARRIVAL, **TWO})
    berlin = ours.join("berlin")
    other = ours.join("vm-12", key="paris")
    host.until_update("r", 20)
    other.interrupt()
    host.until_said("vm-12 (listed as paris) is gone (it was stopped)")
    host.interrupt()
    assert host.end() == 130 and berlin.end() == 1 and other.end() == 130, host.said()
    lines = (place.folder / "r/audit.jsonl").read_text().splitlines()
    joined = [event for event in map(json.loads, lines) if event["event"] == "joined"]
    names = {(event["name"], event["listed_as"]) for event in joined}
    assert names == {("berlin", "berlin"), ("vm-12 (listed as paris)", "paris")}


def test_all_addresses_of_a_machine_are_a_star(place):
    with fleet(place) as start:
        words = ("--out", "r", "--insecure", "--listen", "tcp://*:0")
        host = start("coordinate", "tiny.toml", *words)
        host.until_said("places are empty")
        host.interrupt()
        assert host.end() == 130, host.said()
    assert re.search(rf"listening at tcp://\*:\d+ on {socket.gethostname()}\n", host.said())
    assert re.search(r"processes that join at tcp://\*:\d+\n", host.said())


def test_a_finished_run_invites_nobody(place):
    place.ok("launch", "tiny.toml", "--out", "r", *place.sets(run__updates=2))
    listen = ("--listen", "tcp://127.0.0.1:0")
    done = place.ok("coordinate", "--resume", "--out", "r", *listen)
    assert "r is finished" in done.stderr and "listening" not in done.stderr


def test_a_port_that_is_in_use_is_said(place):
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        sentence = place.refused(1, "coordinate", "tiny.toml", "--out", "r", "--listen", listen)
    assert listen in sentence and "in use" in sentence


def test_a_host_that_does_not_resolve_is_said_within_seconds(place):
    start = Fleet(place, "join", "nowhere.invalid:7070", "--insecure", "--wait", "60")
    try:
        assert start.end(55) in (1, 2)
        assert "nowhere.invalid" in start.sentence()
    finally:
        start.kill()


def test_nobody_at_the_port_is_said_after_the_wait(place):
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))  # bound, but nobody listens
        port = free.getsockname()[1]
        sentence = place.refused(1, "join", f"127.0.0.1:{port}", "--wait", 2)
    assert f"127.0.0.1:{port} does not answer: is the coordinator running" in sentence


def test_a_spare_takes_the_place_of_one_that_is_killed(place, machines):
    ours = machines("berlin", "paris", "rome")
    host = ours.coordinate({**ARRIVAL, **TWO})
    berlin, paris = ours.join("berlin"), ours.join("paris")
    host.until_update("r", 20)
    rome = ours.join("rome")
    ours.host.until(lambda: ("joined", "rome") in ours.audit())
    assert ("seated", "rome") not in ours.audit(), "it waits"
    berlin.process.send_signal(signal.SIGKILL)
    host.until_said("rome takes the place of replica")
    host.until(lambda: any("joined" in event for event in events(place.folder / "r", "members")))
    host.interrupt()
    assert host.end() == 130 and paris.end() == 1 and rome.end() == 1, host.said()
    assert [e["replicas"] for e in events(place.folder / "r", "members")][-1] == "0 1"


def test_ctrl_c_of_one_leaves_the_others_training(place, machines):
    ours = machines("berlin", "paris")
    host = ours.coordinate({**ARRIVAL, **TWO})
    berlin, paris = ours.join("berlin"), ours.join("paris")
    host.until_update("r", 20)
    berlin.interrupt()
    assert berlin.end() == 130
    assert "the others go on without this process" in berlin.sentence()
    host.until_said("berlin is gone (it was stopped)")
    at = newest_update(place.folder / "r")
    host.until_update("r", at + 20)
    host.interrupt()
    assert host.end() == 130 and paris.end() == 1, paris.said()


def test_whoever_is_taken_off_the_list_has_to_go(place, machines):
    ours = machines("berlin", "paris")
    host = ours.coordinate({**ARRIVAL, **TWO})
    berlin, paris = ours.join("berlin"), ours.join("paris")
    host.until_update("r", 20)
    ours.write_list("a list that somebody is writing\n")
    at = newest_update(place.folder / "r")
    host.until_update("r", at + 20)
    ours.list("paris")
    host.until_said("berlin is gone (its key is not allowed any more)")
    assert berlin.end() == 2
    assert "its allow-list has no line" in berlin.sentence()
    assert ("revoked", "berlin") in ours.audit()
    at = newest_update(place.folder / "r")
    host.until_update("r", at + 20)
    host.interrupt()
    assert host.end() == 130 and paris.end() == 1, paris.said()


def test_join_says_what_is_wrong_with_its_words(place):
    assert "has no port" in place.refused(2, "join", "berlin", "--insecure")
    assert "plain text" in place.refused(2, "join", "berlin.example.org:7070")
    place.ok("keys", "new", "a.key")
    assert "go together" in place.refused(2, "join", "127.0.0.1:1", "--key", "a.key")
    listen = ("coordinate", "tiny.toml", "--out", "r", "--listen")
    assert "anybody could join" in place.refused(2, *listen, "tcp://*:0")
    assert "go together" in place.refused(2, *listen, "tcp://127.0.0.1:0", "--key", "a.key")
