"""Rows of `make bench` about runs of many processes: what carries parcels, a mesh of processes
beside one of threads, and slow lines."""

import json
import resource
import statistics

from disturbed_rows import disturbed_loss_row, joiner_row, recovery_row
from programs import REPOSITORY, megabytes, output_of, say

QUICKSTART = "recipes/quickstart.toml"
SLOW_LINE = "recipes/slow-line.toml"
UNDISTURBED = {  # nothing but updates
    "run.evaluate_every": 0, "run.evaluate_windows": 1, "run.checkpoint_every": 0,
    "optimizer.warmup": 0,
}  # fmt: skip
SYNCHRONOUS = {
    "pipeline.schedule": "1f1b", "pipeline.extra_per_hop": 0, "pipeline.update_every": 4,
    "averaging.method": "allreduce",
}  # fmt: skip


def set_words(sets):
    return [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]


def lines_of(command):
    return [json.loads(line) for line in output_of(command).splitlines()]


def post_rows(build, rounds):
    """4 MB parcels from one process to another over loopback."""
    say("parcels between two processes")
    rates, costs = {}, {}
    for line in lines_of([build / "bench/post_bench", "speed", rounds]):
        rates.setdefault(line["way"], []).append(line["bytes_per_second"] / 1e9)
        costs.setdefault(line["way"], []).append(line["processor_seconds_per_gb"])
    rate = {way: statistics.median(each) for way, each in rates.items()}
    cost = {way: statistics.median(each) for way, each in costs.items()}

    def row(way, beside, name, target):
        # Within a round: the machine's speed changes from one to the next.
        ratio = statistics.median(a / b for a, b in zip(rates[way], rates[beside]))
        return (
            f"parcels of 4 MB, {way}", f"{rate[way]:.2f} GB/s", f"{name} {rate[beside]:.2f}",
            ratio, target, "-", "-",
        )  # fmt: skip

    yield row("plain", "bare pair", "bare libzmq pair", ">= 0.9")
    yield row("plain", "bare frames", "bare pair, 256 KiB messages", "-")
    yield row("plain", "tcp", "raw TCP", "-")
    yield row("curve", "bare curve", "bare CURVE pair", "-")
    for way, beside, name in (
        ("plain", "bare pair", "bare pair"),
        ("curve", "bare curve", "bare CURVE pair"),
    ):
        yield (
            f"processor time, both processes, {way}", f"{cost[way]:.2f} s/GB",
            f"{name} {cost[beside]:.2f}", cost[way] / cost[beside], "-", "-", "-",
        )  # fmt: skip


def trip_rows(build):
    """A small control parcel there and back, while a round is on the same link."""
    say("round trips beside a round")
    times = {}
    for line in lines_of([build / "bench/post_bench", "trips", 1]):
        times[line["link"], line["loaded"]] = line
    for link in ("loopback", "100 Mbit/s, 80 ms"):
        loaded, idle = times[link, True], times[link, False]

        def text(line):
            return f"{1e3 * line['median']:.2f} ms, p99 {1e3 * line['p99']:.2f}"

        yield (
            f"control there and back beside a round, {link}", text(loaded),
            f"idle link {text(idle)}", loaded["median"] / idle["median"], "-", "-", "-",
        )  # fmt: skip


def summary_of(build, command, recipe, sets, out):
    words = [build / "leeway", *command[:1], recipe, *command[1:], "--json", "--fresh"]
    return json.loads(output_of([*words, "--out", out, *set_words(sets)]))


def processor_seconds():
    """Of all programs that have ended, with their children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def mesh_rows(build, data, folder, rounds):
    """The quickstart's eight workers in eight processes, beside eight threads of one."""
    sets = UNDISTURBED | {"data.train": data, "run.updates": 100}
    sides = {
        "threads": ["train"],
        "plain": ["launch", "--processes", "8", "--insecure"],
        "curve": ["launch", "--processes", "8"],
    }
    runs, costs = {side: [] for side in sides}, {side: [] for side in sides}
    for round_number in range(rounds):
        for side, command in sides.items():
            say(f"4 x 2 mesh, {side}, round {round_number + 1}")
            out = folder / f"mesh-{side}-{round_number}"
            before = processor_seconds()
            runs[side].append(summary_of(build, command, QUICKSTART, sets, out))
            costs[side].append(processor_seconds() - before)
    speeds = {side: [run["tokens_per_second"] for run in each] for side, each in runs.items()}
    for side, target in ("plain", ">= 0.9"), ("curve", "-"):
        ratio = statistics.median(a / b for a, b in zip(speeds[side], speeds["threads"]))
        yield (
            f"4 x 2 mesh, 8 processes, {side}",
            f"{statistics.median(speeds[side]):,.0f} tokens/s",
            f"8 threads {statistics.median(speeds['threads']):,.0f}", ratio, target,
            "-", megabytes(runs["threads"][0]["peak_rss_bytes"]),
        )  # fmt: skip
        # From start to end, which includes starting eight programs.
        cost, reference = statistics.median(costs[side]), statistics.median(costs["threads"])
        yield (
            f"its processor time, 100 updates, {side}", f"{cost:.1f} s",
            f"8 threads {reference:.1f}", cost / reference, "-", "-", "-",
        )  # fmt: skip


def work_seconds(run):
    """What the workers spent on microbatches and on updates, and how many updates there were."""
    spent = {"microbatches": 0.0, "update": 0.0}
    with open(run / "events.jsonl") as log:
        for line in log:
            event = json.loads(line)
            if event["event"] != "work":
                continue
            kind = event["kind"]
            took = (event["end"] - event["begin"]) * 1e-9
            if kind in ("forward", "backward"):
                spent["microbatches"] += took
            elif kind == "update":
                spent["update"] += took
    return spent


def scenario_text(workers, tflops, update_tflops, line):
    return f"""recipe = "{REPOSITORY / SLOW_LINE}"
[[site]]
name = "here"
{line}
[[machine]]
name = "worker"
count = {workers}
site = "here"
tflops = {tflops}
update_tflops = {update_tflops}
memory_gb = 32
[[method]]
name = "one"
set = []
"""


def simulated(build, folder, text, sets):
    scenario = folder / "slow.toml"
    scenario.write_text(text)
    answer = output_of([build / "leeway", "simulate", scenario, "--json", *set_words(sets)])
    return json.loads(answer)["methods"][0]


def predicted(build, folder, run, summary, sets):
    """What the simulator makes of eight machines that take as long for a piece of work as the
    processes of this run did: here they share two cores, and the wait for one is part of it."""
    alone = {"mesh.stages": 1, "mesh.replicas": 1, "averaging.method": "none"}
    million, tokens = 1e6, summary["tokens"]
    # At 1e12 operations a second, and the other kind of work a million times as fast.
    unit = {}
    for kind, speeds in ("microbatches", (1, million)), ("update", (million, 1)):
        text = scenario_text(1, *speeds, "")
        one = simulated(build, folder, text, sets | {"pipeline.extra_per_hop": 0} | alone)
        unit[kind] = 1 / one["tokens_per_second"]
    spent = work_seconds(run)
    replicas = summary["replicas"]
    tflops = unit["microbatches"] * tokens / spent["microbatches"]
    # An update is the work of all replicas, each on its share of the tokens.
    update_tflops = unit["update"] * tokens / spent["update"]
    line = "latency_ms = 40\nbandwidth_mbit = 100"
    text = scenario_text(4 * replicas, tflops, update_tflops, line)
    return simulated(build, folder, text, sets)


def slow_line_rows(build, data, folder):
    """Eight processes on lines of 100 Mbit/s with 80 ms round trip, with and without waiting."""
    common = UNDISTURBED | {"data.train": data}
    sides = {
        "asynchronous": common | {"run.updates": 60},
        "synchronous": common | {"run.updates": 24} | SYNCHRONOUS,
    }
    busy, speed, told = {}, {}, {}
    command = ["launch", "--processes", "8", "--insecure"]
    for side, sets in sides.items():
        say(f"slow line, {side}")
        run = folder / f"slow-{side}"
        summary = summary_of(build, command, SLOW_LINE, sets, run)
        busy[side] = statistics.mean(stage["busy"] for stage in summary["stages"])
        speed[side] = summary["tokens_per_second"]
        told[side] = predicted(build, folder, run, summary, sets)
    one, other = sides
    line = "100 Mbit/s, 80 ms"
    yield (
        f"busy share of the stages, {line}, asynchronous", f"{busy[one]:.0%}",
        f"1F1B and all-reduce {busy[other]:.0%}", busy[one] / busy[other], "-", "-", "-",
    )  # fmt: skip
    yield (
        f"tokens/s, {line}, asynchronous", f"{speed[one]:,.0f}",
        f"1F1B and all-reduce {speed[other]:,.0f}", speed[one] / speed[other], "-", "-", "-",
    )  # fmt: skip
    for side in sides:
        yield (
            f"predicted busy share, {line}, {side}", f"{told[side]['busy']:.0%}",
            f"measured {busy[side]:.0%}", told[side]["busy"] / busy[side], "0.85 to 1.15", "-",
            "-",
        )  # fmt: skip
        yield (
            f"predicted tokens/s, {line}, {side}", f"{told[side]['tokens_per_second']:,.0f}",
            f"measured {speed[side]:,.0f}", told[side]["tokens_per_second"] / speed[side], "-",
            "-", "-",
        )  # fmt: skip


def fleet_rows(build, data, folder, rounds):
    rows = [*post_rows(build, rounds), *trip_rows(build)]
    rows += mesh_rows(build, data, folder, rounds)
    rows += slow_line_rows(build, data, folder)
    rows += [recovery_row(build, data, folder), joiner_row(build, data, folder)]
    rows.append(disturbed_loss_row(build, data, folder))
    return rows
