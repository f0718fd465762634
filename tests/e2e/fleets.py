"""Runs of many processes: starting them, waiting for what they do, and what they leave."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time

from places import LEEWAY

# Small enough that a run takes seconds, large enough that there is time to disturb it.
MESH = {
    "mesh__stages": 2,
    "mesh__replicas": 2,
    "run__updates": 60,
    "run__evaluate_every": 20,
    "run__checkpoint_every": 10,
    "network__heartbeat_ms": 500,  # `launch` waits for twenty
}
FIXED = {**MESH, "averaging__merge": "fixed_lag"}
ARRIVAL = {**MESH, "averaging__merge": "on_arrival"}


# Nobody is left out for being held up. And a stopped run whose last save takes longer than the
# deadline may not replay: what owners answer after their save is not repeated.
PATIENT = {"averaging__deadline_ms": 60_000}


def until(process, condition, said=None, seconds=300, every=0.02):
    """Waits until it is true, and returns it; fails if the process ends before, or the time is up.
    `said`: what to show then, if its standard error is no pipe."""
    by = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < by, f"it took too long:\n{said() if said else ''}"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=every)  # ends the wait at once if it has ended
            if found := condition():
                break
            text = said() if said else process.stderr.read()
            raise AssertionError(f"ended with {process.returncode}:\n{text}")
    return found


class Fleet:
    """One command, in the background, whose output goes to a file."""

    def __init__(self, place, *arguments):
        self.folder = place.folder
        self.words = [str(word) for word in arguments]
        Fleet.count = getattr(Fleet, "count", 0) + 1
        self.log = place.folder / f"{self.words[0]}-{Fleet.count}.log"
        self.out = place.folder / f"{self.words[0]}-{Fleet.count}.out"
        with open(self.log, "w") as log, open(self.out, "w") as out:
            self.process = subprocess.Popen(
                [LEEWAY, *self.words],
                cwd=place.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                env={**os.environ, "OMP_WAIT_POLICY": "passive"},
            )

    @property
    def pid(self):
        return self.process.pid

    def said(self):
        return self.log.read_text()

    def until(self, condition, seconds=240):
        """Waits until it is true; fails if the command ends before, or the time is up."""
        return until(self.process, condition, self.said, seconds)

    def until_said(self, text, seconds=240):
        self.until(lambda: text in self.said(), seconds)

    def until_update(self, run, update, seconds=240):
        log = self.folder / run
        self.until(lambda: newest_update(log) >= update, seconds)

    def end(self, seconds=240):
        """Its exit status."""
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end:\n{self.said()}") from None

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def sentence(self):
        """The one line that says why it ended."""
        lines = [line for line in self.said().splitlines() if line.startswith("leeway: ")]
        assert len(lines) == 1, self.said()
        return lines[0]

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def fleet(place):
    """Commands that are killed at the end of the block, if they still run."""
    running = []

    def start(*arguments):
        running.append(Fleet(place, *arguments))
        return running[-1]

    try:
        yield start
    finally:
        for each in reversed(running):
            each.kill()


def newest_update(run):
    """By the last lines of its log, which may be long."""
    with contextlib.suppress(FileNotFoundError), open(run / "events.jsonl", "rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - 20_000))
        updates = re.findall(rb'"event":"update","update":(\d+)', log.read())
        return int(updates[-1]) if updates else 0
    return 0


def children(pid):
    """Processes that this one has started and that run, the oldest first."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append((int(fields[19]), int(stat.parent.name)))
    return [child for _, child in sorted(found)]


def runs(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def listening(pid):
    """Ports at which this process listens."""
    inodes = set()
    for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            target = os.readlink(descriptor)
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    return {port for port, inode, state in tcp_table() if state == "0A" and inode in inodes}


def descriptors(pid):
    """How many files and connections a process has open."""
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


def open_ports():
    return {port for port, _, state in tcp_table() if state == "0A"}


def tcp_table():
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in pathlib.Path(table).read_text().splitlines()[1:]:
                words = line.split()
                yield int(words[1].rsplit(":", 1)[1], 16), words[9], words[3]


def resident(pid):
    """Bytes of memory that a process has now."""
    pages = pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
