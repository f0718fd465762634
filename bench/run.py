"""`make bench`: every speed that the project claims, beside its reference, in one table.

Ratios are taken within one run, the two sides taking turns, because machines are noisy. The
reference is the strongest we know: PyTorch eager written for speed, the `tokenizers` package or
memcpy.

    bench/run.py BUILD [--rounds 3] [--only fleet]
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from fleet_rows import fleet_rows
from long_log import write_long_run
from programs import REPOSITORY, megabytes, output_of, say
from text_rows import reading_row, tokenizer_row

THREADS = len(os.sched_getaffinity(0))
TOKEN_FILE_PAYLOAD = 64  # bytes before the first id
QUICKSTART = "recipes/quickstart.toml"

MODELS = {  # name: layers, width, heads, hidden, context, batch, updates
    "0.4M, context 128": (4, 80, 4, 224, 128, 16, 60),
    "1.6M, context 128": (6, 144, 4, 384, 128, 16, 25),
    "10M, context 256": (8, 320, 5, 864, 256, 8, 6),
}


def train(build, sets, out):
    """The summary of a run of the quickstart recipe with one replica and these changes."""
    sets = {"mesh.replicas": 1} | sets
    command = [build / "leeway", "train", QUICKSTART, "--json", "--fresh", "--out", out]
    for key, value in sets.items():
        command += ["--set", f"{key}={value}"]
    return json.loads(output_of(command))


def training_rows(build, data, folder, rounds):
    tokens = data / "train.tokens"
    for name, (layers, width, heads, hidden, context, batch, updates) in MODELS.items():
        say(f"training {name}")
        sets = {
            "data.train": data, "run.updates": updates, "run.evaluate_every": 0,
            "run.evaluate_windows": 1, "run.threads_per_worker": THREADS, "model.layers": layers,
            "model.width": width, "model.heads": heads, "model.hidden": hidden,
            "model.context": context, "data.batch": batch, "optimizer.name": "adamw",
            "optimizer.rate": 1e-3, "optimizer.warmup": 0, "run.checkpoint_every": 0,
            "mesh.stages": 1,
        }  # fmt: skip
        reference = {
            "tokens": str(tokens), "offset": TOKEN_FILE_PAYLOAD, "vocabulary": 257,
            "layers": layers, "width": width, "heads": heads, "hidden": hidden,
            "context": context, "batch": batch, "updates": updates, "threads": THREADS,
        }  # fmt: skip
        ours, theirs = [], []
        for round_number in range(rounds):
            out = folder / f"run-{width}-{round_number}"
            ours.append(train(build, sets, out))
            theirs.append(
                json.loads(
                    output_of([sys.executable, "bench/torch_eager.py", json.dumps(reference)])
                )
            )
        assert ours[0]["parameters"] == theirs[0]["parameters"], "not the same model"
        speed = statistics.median(run["tokens_per_second"] for run in ours)
        speed_theirs = statistics.median(run["tokens_per_second"] for run in theirs)
        yield (
            f"train {name}", f"{speed:,.0f} tokens/s", f"PyTorch eager {speed_theirs:,.0f}",
            speed / speed_theirs, ">= 0.95", megabytes(ours[0]["peak_rss_bytes"]),
            megabytes(theirs[0]["peak_rss_bytes"]),
        )  # fmt: skip


def optimizer_rows(build):
    say("optimizer pass")
    for line in output_of([build / "bench/optim_bench"]).splitlines():
        if not line.startswith("AdamW"):
            continue
        name, speed, copy, ratio, peak = line.rsplit(None, 4)
        yield (
            f"{name} (64M)", f"{speed} GB/s", f"plain copy {copy}", float(ratio), ">= 0.70",
            peak, "-",
        )  # fmt: skip


def averaging_rows(build):
    """The work of a round, 5 % of 100M parameters, against a copy of as many bytes."""
    say("averaging")
    for line in output_of([build / "bench/averaging_bench"]).splitlines():
        asked = line.startswith("runs of 64")  # single coordinates are the paper's way, not ours
        if line.endswith("ns a coordinate"):
            name, cost = line.removesuffix(" ns a coordinate").rsplit(None, 1)
            yield (
                f"{name} (100M)", f"{cost} ns a coordinate", "limit 1 ns", 1 / float(cost),
                ">= 1" if asked else "-", "-", "-",
            )  # fmt: skip
        elif line.startswith("runs of"):
            name, speed, copy, ratio, peak = line.rsplit(None, 4)
            yield (
                f"{name} (100M)", f"{speed} GB/s", f"plain copy {copy}", float(ratio),
                ">= 0.50" if asked else "-", peak, "-",
            )  # fmt: skip
        elif line.startswith("ternary, threshold"):
            name, packed, unpacked, copied = line.rsplit(None, 3)
            for verb, rate in ("pack", float(packed)), ("unpack", float(unpacked)):
                yield (
                    f"{verb} {name}", f"{rate:.0f}M numbers/s a core",
                    f"limit 250M, copy {float(copied):.0f}M", rate / 250, ">= 1", "-", "-",
                )  # fmt: skip


def simulator_row(build):
    say("simulator")
    result = json.loads(output_of([build / "bench/sim_bench"]))
    speed, seconds = result["events_per_second"] / 1e6, result["seconds"]
    return (
        f"simulator, {result['workers']:,} workers, no arithmetic",
        f"{speed:.2f}M events/s, {seconds:.1f} s", "limits 60 s, 4 GB",
        min(60 / seconds, 4e9 / result["peak_rss_bytes"]), ">= 1",
        megabytes(result["peak_rss_bytes"]), "-",
    )  # fmt: skip


def plan_row(build, folder):
    """The largest cluster for which `plan` promises a time: 64 machines at two sites."""
    say("plan")
    text = (REPOSITORY / "recipes/scenarios/two-sites.toml").read_text()
    scenario = folder / "sixty-four.toml"
    scenario.write_text(text.replace("count = 8", "count = 32"))
    begin = time.perf_counter()
    output_of([build / "leeway", "plan", scenario])
    seconds = time.perf_counter() - begin
    return ("plan for 64 machines", f"{seconds:.1f} s", "limit 60 s", 60 / seconds, ">= 1",
            "-", "-")  # fmt: skip


def mesh_bench(build, what, folder, sets):
    sets = {
        "mesh.replicas": 1, "run.updates": 20, "run.checkpoint_every": 0, "optimizer.warmup": 0,
        **sets,
    }  # fmt: skip
    words = [f"{key}={value}" for key, value in sets.items()]
    return json.loads(output_of([build / "bench/mesh_bench", what, QUICKSTART, folder, *words]))


def loop_row(build, data, folder, optimizer):
    say(f"1x1 mesh, {optimizer}")
    sets = {"data.train": data, "mesh.stages": 1, "optimizer.name": optimizer}
    result = mesh_bench(build, "loop", folder / "loop", sets)
    return (
        f"1x1 mesh, {optimizer}", f"{result['tokens_per_second']:,.0f} tokens/s",
        f"loop over Stage {result['reference_tokens_per_second']:,.0f}", result["ratio"], ">= 0.98",
        megabytes(result["peak_rss_bytes"]), "-",
    )  # fmt: skip


def log_rows(build, data, folder):
    say("event log")
    result = mesh_bench(build, "log", folder / "log", {"data.train": data, "mesh.stages": 4})
    share, peak = result["log_share"], megabytes(result["peak_rss_bytes"])
    yield (
        "4 stages with the event log", f"{result['tokens_per_second']:,.0f} tokens/s",
        f"without {result['reference_tokens_per_second']:,.0f}", result["ratio"], ">= 0.98", peak,
        "-",
    )  # fmt: skip
    yield (
        f"event log, {result['bytes_per_update'] / 1000:.1f} kB an update",
        f"{share:.2%} of processor time", "limit 2 %", 0.02 / share, ">= 1", peak, "-",
    )  # fmt: skip


def measured_row(what, result, reference):
    """Speeds of both sides, as mesh_bench measured them in turn."""
    return (
        what, f"{result['tokens_per_second']:,.0f} tokens/s",
        f"{reference} {result['reference_tokens_per_second']:,.0f}", result["ratio"], ">= 0.95",
        megabytes(result["peak_rss_bytes"]), "-",
    )  # fmt: skip


def saves_row(build, data, folder):
    """Checkpoints on a disk that takes seconds for each, while updates go on."""
    say("slow saves")
    sets = {"data.train": data, "mesh.stages": 4, "run.updates": 60, "run.checkpoint_every": 10}
    result = mesh_bench(build, "saves", folder / "saves", sets)
    return measured_row("4 stages, saves of 4 s", result, "saves of 0 s")


def joins_row(build, data, folder):
    """A worker that joins and never has all of the state costs its donor little."""
    say("state for one that joins")
    sets = {
        "data.train": data, "mesh.stages": 2, "mesh.replicas": 2, "averaging.method": "none",
        "run.updates": 30,
    }  # fmt: skip
    result = mesh_bench(build, "joins", folder / "joins", sets)
    return measured_row("2 stages, one loads", result, "nobody loads")


def report_row(build, folder):
    """The page of a long run: read in one pass, and small enough to send."""
    say("report of a million events")
    run, page = folder / "long", folder / "long.html"
    write_long_run(run, 1_000_000)
    begin = time.monotonic()
    with open(os.devnull, "w") as nowhere:
        child = subprocess.Popen(
            [build / "leeway", "report", run, "--out", page], stdout=nowhere, stderr=nowhere
        )
        _, status, used = os.wait4(child.pid, 0)
    seconds = time.monotonic() - begin
    if status != 0:
        sys.exit("leeway report failed")
    size = page.stat().st_size
    return (
        "report of 1M events", f"{seconds:.1f} s, {size / 1e6:.1f} MB", "limits 5 s, 10 MB",
        min(5 / seconds, 10e6 / size), ">= 1", megabytes(used.ru_maxrss * 1024), "-",
    )  # fmt: skip


def thread_seconds(process):
    """Processor time of a process's live threads, by name and number."""
    times = {}
    for task in pathlib.Path(f"/proc/{process.pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            nanos = int((task / "schedstat").read_text().split()[0])
            times[(task / "comm").read_text().strip(), task.name] = nanos * 1e-9
    return times


def dashboard_row(build, data, folder):
    """The share of a core that the server takes with one reader, until its last snapshot."""
    say("dashboard")
    sets = {
        "data.train": data, "run.updates": 300, "mesh.replicas": 1, "run.evaluate_every": 0,
        "run.evaluate_windows": 1, "run.checkpoint_every": 0, "optimizer.warmup": 0,
    }  # fmt: skip
    command = [build / "leeway", "train", QUICKSTART, "--out", folder / "watched"]
    command += [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    process = subprocess.Popen(
        [*command, "--dashboard", "0"], cwd=REPOSITORY, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    address = next(line for line in process.stderr if line.startswith("dashboard: ")).split()[1]
    snapshots, times = 0, {}
    with urllib.request.urlopen(address + "events") as stream:
        for line in stream:
            if line.startswith(b"data: {"):
                snapshots += 1
                times |= thread_seconds(process)
    _, errors = process.communicate()
    if process.returncode != 0:
        sys.exit(f"leeway train failed:\n{errors}")
    own = sum(seconds for (name, _), seconds in times.items() if name == "dashboard")
    share = own / json.loads((folder / "watched/summary.json").read_text())["seconds"]
    return (
        f"4 stages with a dashboard, {snapshots} snapshots", f"{share:.2%} of run time",
        "limit 1 %", 0.01 / share, ">= 1", "-", "-",
    )  # fmt: skip


def prediction_rows(build, data, folder, rounds):
    """What `simulate --calibrate` predicts for this machine against what it then does."""
    scenario = REPOSITORY / "recipes/scenarios/one-machine.toml"
    for stages, replicas in (2, 1), (1, 2), (4, 1), (2, 2), (4, 2):
        say(f"prediction of {stages} x {replicas}")
        sets = {
            "data.train": data, "run.updates": 60, "run.evaluate_every": 0,
            "run.evaluate_windows": 1, "run.checkpoint_every": 0, "mesh.stages": stages,
            "mesh.replicas": replicas,
        }  # fmt: skip
        words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
        ratios, told, done = [], 0, 0
        for round_number in range(rounds):
            answer = output_of(
                [build / "leeway", "simulate", scenario, "--calibrate", "--json", *words]
            )
            *_, own = json.loads(answer)["methods"]  # the last is asynchronous and sparse
            told = own["tokens_per_second"]
            out = folder / f"told-{stages}-{replicas}-{round_number}"
            done = train(build, sets, out)["tokens_per_second"]
            ratios.append(told / done)
        yield (
            f"predicted tokens/s, {stages} x {replicas}", f"{told:,.0f}", f"measured {done:,.0f}",
            statistics.median(ratios), "0.85 to 1.15", "-", "-",
        )  # fmt: skip


def pipeline_rows(build, data, folder, rounds):
    """Four stages on threads against one process that has all cores and the batch in one piece."""
    common = {
        "data.train": data, "run.updates": 120, "run.evaluate_every": 0, "run.evaluate_windows": 1,
        "run.checkpoint_every": 0, "optimizer.warmup": 0,
    }  # fmt: skip
    sides = {
        "one": {"mesh.stages": 1, "pipeline.update_every": 1},
        "tentative": {"mesh.stages": 4},
        "none": {"mesh.stages": 4, "pipeline.lookahead": "none"},
    }
    rows, notes = [], []
    for optimizer in "adamw", "muon":
        say(f"4 stages, {optimizer}")
        runs = {side: [] for side in sides}
        for round_number in range(rounds):
            for side, sets in sides.items():
                out = folder / f"stages-{optimizer}-{side}-{round_number}"
                sets = common | sets | {"optimizer.name": optimizer}
                runs[side].append(train(build, sets, out))
        speeds = {
            side: statistics.median(run["tokens_per_second"] for run in all_runs)
            for side, all_runs in runs.items()
        }
        for side, asked in ("tentative", ">= 0.9"), ("none", "-"):
            rows.append((
                f"4 stages, {optimizer}, {side}", f"{speeds[side]:,.0f} tokens/s",
                f"one process {speeds['one']:,.0f}", speeds[side] / speeds["one"], asked,
                megabytes(runs[side][0]["peak_rss_bytes"]),
                megabytes(runs["one"][0]["peak_rss_bytes"]),
            ))  # fmt: skip
        notes.append(memory_note(optimizer, runs["tentative"][0]))
    return rows, notes


def memory_note(optimizer, summary):
    """What the versions of the weights take beside the parameters themselves."""
    stages = summary["stages"]
    versions = sum(stage["versions_peak"] * stage["version_bytes"] for stage in stages)
    parameters = 4 * summary["parameters"]
    each = ", ".join(
        f"{stage['versions_peak']} x {stage['version_bytes'] / 1e6:.2f}" for stage in stages
    )
    return (
        f"versions of the weights, 4 stages, {optimizer}: {each} MB, together "
        f"{versions / 1e6:.2f} MB beside {parameters / 1e6:.2f} MB of parameters"
    )


def print_table(rows):
    heads = ("what", "ours", "reference", "ratio", "target", "peak MB", "its peak MB")
    text = [[*row[:3], f"{row[3]:.2f}", *row[4:]] for row in rows]
    widths = [max(len(str(line[i])) for line in [heads, *text]) for i in range(len(heads))]
    rule = ["-" * width for width in widths]
    for line in [heads, rule, *text]:
        print("| " + " | ".join(str(cell).ljust(w) for cell, w in zip(line, widths)) + " |")


def rows_of_one_process(build, data, folder, rounds):
    rows = [*training_rows(build, data, folder, rounds)]
    rows += [*optimizer_rows(build), *averaging_rows(build)]
    rows += [tokenizer_row(build, folder), reading_row(build, data)]
    rows += [loop_row(build, data, folder, optimizer) for optimizer in ("adamw", "muon")]
    pipeline, notes = pipeline_rows(build, data, folder, rounds)
    rows += [*pipeline, *log_rows(build, data, folder), saves_row(build, data, folder)]
    rows += [joins_row(build, data, folder), report_row(build, folder)]
    rows += [dashboard_row(build, data, folder), simulator_row(build), plan_row(build, folder)]
    rows += prediction_rows(build, data, folder, rounds)
    return rows, notes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side, taking turns")
    parser.add_argument("--only", choices=["fleet"], help="only the rows about many processes")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = folder / "data"
        corpus = next(REPOSITORY.glob(".venv/lib/python3*/site-packages/torch"))
        output_of(
            [build / "leeway", "data", "prepare", corpus, "--include", "*.py",
             "--tokenizer", "bytes", "--out", data]
        )  # fmt: skip
        rows, notes = [], []
        if arguments.only is None:
            rows, notes = rows_of_one_process(build, data, folder, arguments.rounds)
        rows += fleet_rows(build, data, folder, arguments.rounds)
    print(f"{THREADS} threads; ratio: ours over the reference; medians of {arguments.rounds}\n")
    print_table(rows)
    print("", *notes, sep="\n")


if __name__ == "__main__":
    main()
