"""The ten lines of docs/deploy.md on three machines: network namespaces with a bridge between them.

Everything is in a sandbox of its own (user, mount, PID and network namespaces), which ends with its
first process: no address, file or process is left, however a test ends.
"""

import json
import os
import pathlib
import re
import selectors
import signal
import subprocess
import time

import pytest
from places import BUILD, REPOSITORY
from test_nothing_lost import events

SITES = ("berlin", "paris", "tokyo")  # the first one coordinates
RECIPE = """
[run]
updates = 30
seed = 3
threads_per_worker = 1
evaluate_every = 15
evaluate_windows = 4
checkpoint_every = 20
[model]
layers = 4
width = 32
heads = 2
context = 32
[data]
batch = 4
valid_share = 0.2
[mesh]
stages = 4
replicas = 2
[optimizer]
warmup = 2
[network]
heartbeat_ms = 2500  # only who is cut off is to be silent for four of them
"""
SET_UP = """set -e
mount -t tmpfs none /run
mount --bind "$1" /etc/hosts
ip link add lines type bridge
ip link set lines up
number=1
for site in berlin paris tokyo; do
  ip netns add $site
  ip link add $site type veth peer name eth0 netns $site
  ip link set $site master lines up
  ip -n $site addr add 10.77.0.$number/24 dev eth0
  ip -n $site link set eth0 up
  ip -n $site link set lo up
  number=$((number + 1))
done
echo ready
exec cat
"""


def lines_of_the_page():
    """(machine, command) for each of the ten lines."""
    page = (REPOSITORY / "docs/deploy.md").read_text()
    section = page.split("## Three machines in ten lines\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"^```text\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return re.findall(r"^(\w+)\$ +(.+)$", block, re.MULTILINE)


class Running:
    """A process whose output is read while it runs, with limits on every wait."""

    def __init__(self, command, folder):
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "OMP_WAIT_POLICY": "passive"},
        )
        self.said = ""

    def wait_for(self, pattern, seconds):
        """Until it has said this."""
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stderr, selectors.EVENT_READ)
            while not re.search(pattern, self.said):
                left = deadline - time.monotonic()
                assert left > 0 and selector.select(left), f"no {pattern} in:\n{self.said}"
                more = os.read(self.process.stderr.fileno(), 1 << 16)
                assert more, f"it ended without {pattern}:\n{self.said}"
                self.said += more.decode()

    def inner_pid(self):
        """That of the program, a child of the one that entered the sandbox."""
        pid = self.process.pid
        return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text())

    def end(self, seconds):
        """Its status."""
        try:
            _, rest = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as late:
            said = self.said + (late.stderr or b"").decode()
            pytest.fail(f"it still runs after {seconds} s:\n{said}")
        self.said += rest.decode()
        return self.process.returncode


class Machines:
    """Three folders in three network namespaces, each with the program, the recipe and texts."""

    def __init__(self, folder):
        self.folder = folder
        self.keys = {}
        for site in SITES:
            place = folder / site
            (place / "texts").mkdir(parents=True)
            (place / "recipes").mkdir()
            (place / "recipes/quickstart.toml").write_text(RECIPE)
            (place / "build").symlink_to(BUILD)
            for i in range(12):
                words = " ".join(f"word{(i * j) % 17}" for j in range(120))
                (place / f"texts/text{i:02}.txt").write_text(f"document {i}\n{words}\n")
        hosts = folder / "hosts"
        hosts.write_text("127.0.0.1 localhost\n10.77.0.1 berlin.example.org\n")
        self.sandbox = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork",
             "--kill-child", "--mount-proc", "sh", "-c", SET_UP, "sh", hosts],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def why_not(self):
        """What this system does not permit; none: the machines are there."""
        if self.sandbox.stdout.readline() == "ready\n":
            return None
        return self.sandbox.communicate(timeout=60)[1].strip() or "the sandbox ended"

    def enter(self, *words):
        """The words of a command, to be run in the sandbox."""
        pid = self.sandbox.pid
        first = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
        options = ["--user", "--mount", "--net", "--pid", "--preserve-credentials"]
        return ["nsenter", "--target", first, *options, *words]

    def network(self, *words):
        return subprocess.run(self.enter(*words), capture_output=True, text=True, timeout=60)

    def start(self, site, line):
        in_place = f"cd {self.folder / site} && exec {line}"
        return Running(self.enter("ip", "netns", "exec", site, "sh", "-c", in_place), self.folder)

    def type(self, site, line):
        """One line of the page, which ends at once."""
        done = subprocess.run(
            line, shell=True, cwd=self.folder / site, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, (line, done.stderr)
        if "leeway keys new" in line:
            self.keys[f"{site.upper()}_KEY"] = done.stdout.strip()

    def follow_the_page(self, more=""):
        """The coordinator and those who join, once all lines are typed."""
        running = {}
        for site, line in lines_of_the_page():
            for name, key in self.keys.items():
                line = line.replace(name, key)
            if "leeway coordinate" in line:
                running[site] = self.start(site, line + more)
            elif "leeway join" in line:
                running[site] = self.start(site, line)
            elif line.startswith("make "):
                assert line == "make build"
            elif "--resume" not in more:
                for each in SITES if site == "each" else [site]:
                    self.type(each, line)
        assert tuple(running) == SITES
        return running

    def train_and_cut_off(self, site):
        """A run without an end that has saved something, and its coordinator."""
        running = self.follow_the_page(" --set run.updates=1000000 --set run.evaluate_every=0")
        running["berlin"].wait_for("saved ", 120)
        self.network("ip", "link", "set", site, "down")
        return running, running["berlin"]

    def summary(self):
        return json.loads((self.folder / "berlin/out/first/summary.json").read_text())

    def ends_well(self, running):
        for site in SITES:
            assert running[site].end(120) == 0, {site: each.said for site, each in running.items()}
        assert self.summary()["finished"]


@pytest.fixture
def machines(tmp_path):
    made = Machines(tmp_path)
    try:
        if reason := made.why_not():
            pytest.skip(f"network namespaces are not permitted here: {reason}")
        yield made
    finally:
        made.sandbox.kill()  # and with it all that runs there
        made.sandbox.communicate(timeout=60)


def test_the_page_has_ten_lines():
    lines = lines_of_the_page()
    assert len(lines) == 10 and {site for site, _ in lines} == {"each", *SITES}


def test_three_machines_train_by_the_lines_of_the_page(machines):
    running = machines.follow_the_page()
    machines.ends_well(running)
    summary = machines.summary()
    assert summary["updates"] == 30 and summary["replicas"] == 2
    audit = (machines.folder / "berlin/out/first/audit.jsonl").read_text().splitlines()
    hosts = {event["host"] for event in map(json.loads, audit) if event["event"] == "joined"}
    assert hosts == {"10.77.0.2", "10.77.0.3"}


@pytest.mark.parametrize(
    "line", ["tbf rate 100mbit burst 64kb latency 100ms", "netem delay 20ms rate 100mbit"]
)
def test_slow_lines(machines, line):
    for site in SITES:
        for where in (["-n", site], []):
            device = "eth0" if where else site
            words = ["tc", *where, "qdisc", "add", "dev", device, "root", *line.split()]
            done = machines.network(*words)
            if done.returncode != 0:
                pytest.skip(f"tc cannot make a slow line here: {done.stderr.strip()}")
    machines.ends_well(machines.follow_the_page())
    counted = machines.network("tc", "-s", "qdisc", "show", "dev", "tokyo").stdout
    assert int(re.search(r"Sent (\d+) bytes", counted).group(1)) > 10_000, counted


def test_a_site_is_cut_off_and_comes_back(machines):
    """Its replica leaves, the other one trains on, and it is taken in again."""
    running, coordinator = machines.train_and_cut_off("tokyo")
    with pytest.raises(subprocess.TimeoutExpired):
        coordinator.process.wait(6)
    coordinator.wait_for(r"is gone \(it is silent\): replica \d", 120)
    machines.network("ip", "link", "set", "tokyo", "up")
    coordinator.wait_for(r"takes the place of replica \d", 120)
    run = machines.folder / "berlin/out/first"
    by = time.monotonic() + 120
    while not any("joined" in event for event in events(run, "members")):
        assert time.monotonic() < by, coordinator.said
        coordinator.said = ""
        coordinator.wait_for("saved ", 120)
    # Stopped and resumed, so that its length does not depend on the speed of this machine.
    os.kill(coordinator.inner_pid(), signal.SIGTERM)
    assert coordinator.end(120) == 143, coordinator.said
    assert [running[site].end(120) for site in SITES[1:]] == [1, 1]
    newest = max((run / "checkpoints").glob("update-*/checkpoint.json"))
    done = max(shard["update"] for shard in json.loads(newest.read_text())["shards"])
    more = f" --resume --set run.updates={done + 20} --set run.evaluate_every=0"
    machines.ends_well(machines.follow_the_page(more))
    members = [event["replicas"] for event in events(run, "members")]
    assert members[0] in ("0", "1") and "0 1" in members[1:]


def test_the_coordinators_own_line_is_cut_and_nothing_is_lost(machines):
    """It hears nobody, so it waits: the others train on, and need no place anew."""
    running, coordinator = machines.train_and_cut_off("berlin")
    coordinator.wait_for("nobody is heard any more: the line of this machine may be cut", 120)
    machines.network("ip", "link", "set", "berlin", "up")
    coordinator.wait_for("all are heard again", 120)
    coordinator.said = coordinator.said.replace("saved ", "")
    coordinator.wait_for("saved ", 120)
    os.kill(coordinator.inner_pid(), signal.SIGTERM)
    assert coordinator.end(120) == 143, coordinator.said
    assert [running[site].end(120) for site in SITES[1:]] == [1, 1]
    assert "is gone" not in coordinator.said, coordinator.said
    run = machines.folder / "berlin/out/first"
    assert not events(run, "members") and not events(run, "resumed")


def test_a_coordinator_that_hears_nobody_can_be_stopped(machines):
    _, coordinator = machines.train_and_cut_off("berlin")
    coordinator.wait_for("nobody is heard any more", 120)
    os.kill(coordinator.inner_pid(), signal.SIGTERM)
    assert coordinator.end(120) == 1, coordinator.said
    assert "no replica is left" in coordinator.said and "can be resumed from" in coordinator.said
