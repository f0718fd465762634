"""Rows of `make bench` about processes that are killed: how long it takes until all is as before,
what it costs the others, and whether the model suffers."""

import contextlib
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

from programs import REPOSITORY, output_of, say

RECIPE = "recipes/quickstart.toml"
KILLS = 3
UPDATES_BETWEEN = 80
ALONE_S = 6
POLL_S = 0.004
WITHIN_S = 120


def begun(words, log):
    with open(log, "w") as file:
        return subprocess.Popen(
            [str(word) for word in words], cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=file,
            stderr=file,
        )  # fmt: skip


def stop(process):
    """A host's children end with it."""
    if process.poll() is None:
        process.terminate()
        process.wait()


class HostedRun:
    """`leeway launch` or `coordinate` in the background, and what its folder says meanwhile."""

    def __init__(self, build, command, out, sets):
        words = [build / "leeway", *command[:1], RECIPE, *command[1:]]
        words += ["--insecure", "--fresh", "--out", out]
        words += [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
        self.out = out
        self.log = out.with_suffix(".log")
        self.process = begun(words, self.log)
        self.read = 0  # bytes of the event log
        self.update = 0
        self.began_at = float("inf")  # when the run's own clock was 0

    def look(self):
        """Reads on in the event log. The line that was seen soonest tells when the run began."""
        with contextlib.suppress(FileNotFoundError), open(self.out / "events.jsonl", "rb") as log:
            log.seek(self.read)
            text = log.read()
            now = time.time()
            whole = text.rfind(b"\n") + 1
            self.read += whole
            for line in text[:whole].splitlines():
                if line.startswith(b'{"event":"update"'):
                    event = json.loads(line)
                    self.update = event["update"]
                    self.began_at = min(self.began_at, now - event["seconds"])

    def audited(self, kind):
        with contextlib.suppress(FileNotFoundError):
            lines = (self.out / "audit.jsonl").read_text().splitlines()
            return [event for event in map(json.loads, lines) if event["event"] == kind]
        return []

    def until(self, condition):
        by = time.monotonic() + WITHIN_S
        while not condition():
            self.look()
            if self.process.poll() is not None or time.monotonic() > by:
                sys.exit(f"leeway ended or stands still:\n{self.log.read_text()}")
            time.sleep(POLL_S)

    def until_update(self, update):
        self.until(lambda: self.update >= update)

    def children(self):
        """Of any of its threads."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return sorted(int(word) for task in tasks for word in task.read_text().split())

    def kill(self, victim):
        """When it was killed, once another process has its place."""
        seated = len(self.audited("seated"))
        now = time.time()
        os.kill(victim, signal.SIGKILL)
        self.until(lambda: len(self.audited("seated")) > seated)
        return now

    def end(self):
        try:
            if self.process.wait(timeout=WITHIN_S) != 0:
                sys.exit(f"leeway failed:\n{self.log.read_text()}")
        finally:
            stop(self.process)
        return json.loads((self.out / "summary.json").read_text())


def updates_done(run, began_at):
    """When each replica had done an update, by the wall clock."""
    done = {}
    with open(run / "events.jsonl") as log:
        for line in log:
            if '"kind":"update"' not in line:
                continue
            event = json.loads(line)
            done.setdefault(event["replica"], []).append(began_at + event["end"] * 1e-9)
    return {replica: sorted(times) for replica, times in done.items()}


def speed_within(times, begin, end):
    """Updates per second: whole ones, over the time that they took."""
    inside = [at for at in times if begin <= at <= end]
    return (len(inside) - 1) / (inside[-1] - inside[0]) if len(inside) > 2 else None


def replicas_filled(run):
    """Of `process 1.2 takes the place of replica 1, stage 0`."""
    said = [line for line in run.log.read_text().splitlines() if "takes the place of" in line]
    return [int(line.rsplit("replica ", 1)[1].split(",")[0]) for line in said]


# Large enough that its state takes a second or two at run.join_mbit, and no state on a disk.
TWO_REPLICAS = {
    "mesh.stages": 1, "mesh.replicas": 2, "averaging.merge": "on_arrival", "averaging.lag": "auto",
    "run.evaluate_every": 0, "run.evaluate_windows": 1, "run.checkpoint_every": 0,
    "run.threads_per_worker": 1, "run.log": "all", "optimizer.warmup": 0, "model.layers": 6,
    "model.width": 144, "data.batch": 2,
}  # fmt: skip


def recovery_row(build, data, folder):
    """Two processes, a replica each; one is killed, and its place filled, again and again."""
    say("kill -9 of a process")
    sets = TWO_REPLICAS | {"data.train": data, "run.updates": UPDATES_BETWEEN * (KILLS + 1)}
    run = HostedRun(build, ["launch"], folder / "killed", sets)
    killed = []
    try:
        for count in range(KILLS):
            run.until_update(UPDATES_BETWEEN * count + UPDATES_BETWEEN // 2)
            killed.append(run.kill(run.children()[-1]))
        run.end()
    finally:
        stop(run.process)
    gone, seated = run.audited("gone"), run.audited("seated")
    done = updates_done(run.out, run.began_at)
    back = []
    for at, replica in zip(killed, replicas_filled(run)):
        back.append(next(each for each in done[replica] if each > at + POLL_S) - at)
    noticed = statistics.median(event["time"] - at for event, at in zip(gone, killed))
    filled = statistics.median(event["time"] - at for event, at in zip(seated, killed))
    trains = statistics.median(back)
    return (
        f"kill -9 of a process, median of {KILLS}",
        f"noticed {noticed:.2f} s, seated {filled:.2f} s, trains {trains:.2f} s",
        "limit of silence 10 s", 10 / trains, "-", "-", "-",
    )  # fmt: skip


def joiner_row(build, data, folder):
    """A replica trains alone, then another one joins: on a core that nobody had used."""
    say("what one that joins costs the others")
    sets = TWO_REPLICAS | {"data.train": data, "run.updates": 100_000}
    run = HostedRun(build, ["coordinate", "--listen", "tcp://127.0.0.1:0"], folder / "joined", sets)
    guests = []

    def join():
        address = run.log.read_text().split("join at tcp://")[1].split()[0]
        words = ["join", address, "--workers", 1, "--listen", "tcp://127.0.0.1:0", "--out"]
        place = folder / f"guest-{len(guests)}"
        guests.append(begun([build / "leeway", *words, place], place.with_suffix(".log")))
        return guests[-1]

    try:
        run.until(lambda: "join at tcp://" in run.log.read_text())
        join()
        victim = join()
        run.until_update(10)
        victim.kill()
        run.until(lambda: run.audited("gone"))
        alone = time.time()
        run.until(lambda: time.time() > alone + ALONE_S)
        joins = time.time()
        join()
        run.until(lambda: "is back, and goes on" in run.log.read_text())
        run.until(lambda back=time.time(): time.time() > back + 1)
        run.process.send_signal(signal.SIGINT)
        run.process.wait(WITHIN_S)
    finally:
        for process in [run.process, *guests]:
            stop(process)
    done = updates_done(run.out, run.began_at)
    (replica,) = replicas_filled(run)
    trains = next(each for each in done[replica] if each > joins)
    before = speed_within(done[1 - replica], alone, joins)
    during = speed_within(done[1 - replica], joins, trains)
    return (
        f"a replica while another joins, {trains - joins:.1f} s", f"{during:.1f} updates/s",
        f"before {before:.1f}", during / before, ">= 0.95", "-", "-",
    )  # fmt: skip


def disturbed_loss_row(build, data, folder):
    """Four replicas of a small model; in some runs three of them are killed on the way."""
    sets = {
        "data.train": data, "mesh.stages": 1, "mesh.replicas": 4, "averaging.merge": "on_arrival",
        "averaging.lag": "auto", "run.updates": 400, "run.evaluate_every": 0,
        "run.evaluate_windows": 64, "run.checkpoint_every": 20, "model.layers": 2,
        "model.width": 64, "model.context": 64, "data.batch": 8,
    }  # fmt: skip
    calm = []
    for seed in range(1, 6):
        say(f"undisturbed run, seed {seed}")
        words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
        out = folder / f"calm-{seed}"
        command = [build / "leeway", "launch", RECIPE, "--insecure", "--json", "--fresh", "--out"]
        calm.append(json.loads(output_of([*command, out, "--set", f"run.seed={seed}", *words])))
    disturbed = []
    for seed in range(6, 9):
        say(f"disturbed run, seed {seed}")
        choose = random.Random(seed)
        run = HostedRun(build, ["launch"], folder / f"disturbed-{seed}", sets | {"run.seed": seed})
        try:
            for moment in sorted(choose.sample(range(40, 320), 3)):
                run.until_update(moment)
                run.kill(choose.choice(run.children()))
            disturbed.append(run.end())
        finally:
            stop(run.process)
    loss, mean = (statistics.mean(run["valid_loss"] for run in runs) for runs in (disturbed, calm))
    deviation = statistics.stdev(run["valid_loss"] for run in calm)
    # A replica that is away trains on nothing.
    share = statistics.mean(run["tokens"] for run in disturbed) / calm[0]["tokens"]
    return (
        f"loss after 3 kills, {len(disturbed)} seeds, {share:.1%} of the tokens", f"{loss:.4f}",
        f"{len(calm)} undisturbed seeds {mean:.4f} +- {deviation:.4f}",
        abs(loss - mean) / deviation, "<= 3 deviations", "-", "-",
    )  # fmt: skip
