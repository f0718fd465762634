"""Our side of a comparison: `leeway train` on a recipe, followed through its events."""

import json
import pathlib
import statistics
import subprocess
import tempfile
import time

POLL_SECONDS = 0.02


class Updates:
    """The updates of a run so far, as its events.jsonl has them."""

    def __init__(self, run_folder):
        self.path = pathlib.Path(run_folder) / "events.jsonl"
        self.place = 0
        self.events = []

    def read(self):
        if self.path.exists():
            with open(self.path, "rb") as file:
                file.seek(self.place)
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]  # the last line may not be complete
            self.place += len(whole)
            lines = [json.loads(line) for line in whole.splitlines() if b'"update"' in line]
            self.events += [event for event in lines if event["event"] == "update"]
        return self.events

    @property
    def done(self):
        return self.events[-1]["update"] if self.events else 0


def seconds_per_update(events):
    return (events[-1]["seconds"] - events[0]["seconds"]) / max(1, len(events) - 1)


def speeds_of(events, warmup, window):
    """tokens/s in each window after the warm-up, like torch_model.py's."""
    marks = [event for event in events if event["update"] >= warmup][::window]
    return [
        (end["tokens"] - begin["tokens"]) / (end["seconds"] - begin["seconds"])
        for begin, end in zip(marks, marks[1:])
    ]


def train_words(recipe, data, sets, out):
    """The words of the command line after the program."""
    words = ["train", recipe, "--json", "--fresh", "--out", out, "--set", f"data.train={data}"]
    words += [word for change in sets for word in ("--set", change)]
    return [str(word) for word in words]


def last_line(path):
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def train(leeway, recipe, data, sets, *, warmup, window, seconds):
    """Measures a run until its last update, or until the time is over; then ends it, because what
    comes after (the last evaluation and checkpoint) is not what is measured."""
    with tempfile.TemporaryDirectory(prefix="leeway-bench-") as place:
        folder = pathlib.Path(place)
        errors = folder / "stderr"
        command = [leeway, *train_words(recipe, data, sets, folder / "run")]
        with open(errors, "w") as stderr:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
        updates, events = Updates(folder / "run"), []
        total = None
        deadline = time.monotonic() + seconds
        try:
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
                events = updates.read()
                total = total or updates_of(folder / "run" / "config.toml")
                if total is not None and updates.done >= total:
                    break
            ended = process.poll()
        finally:
            process.kill()
            process.wait()
        events = updates.read()
        speeds = speeds_of(events, warmup, window)
        if ended not in (None, 0) or not speeds:
            raise RuntimeError(f"after {updates.done} updates: {last_line(errors)}")
    return {
        "tokens_per_second": statistics.median(speeds),
        "window_tokens_per_second": speeds,
        "losses": [event["loss"] for event in events],
        "first_update_seconds": events[0]["seconds"],
    }


def updates_of(config):
    """run.updates of a run that has begun; None: it has not."""
    if config.exists():
        for line in config.read_text().splitlines():
            if line.startswith("updates ="):
                return int(line.split("=")[1].split("#")[0])
    return None
