"""The table of docs/results/averaging.md: what replicas that do not wait for each other cost.

    bench/averaging_quality.py --train out/wiki --valid out/wiki-valid --out out/four [--jobs N]

Runs `leeway train` on recipes/averaging4.toml (4 replicas) once for every row, rate and seed that
the chosen groups ask for, N at a time, in the simulator with real arithmetic, and prints the table
as Markdown. What is done is kept in --out and not run again. Equal tokens and updates everywhere;
rates are the recipe's times 1/2, 1 and 2. Cells that the stability check warns of are not run.
"""
import argparse
import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
RATES = {"muon": {"matrix_rate": 0.02, "rate": 3e-3}, "adamw": {"rate": 3e-3}}


def method(name, **keys):
    return {"averaging.method": name, **{f"averaging.{key}": value for key, value in keys.items()}}


def late(lag, **keys):
    """The method around which one factor at a time is changed; its means arrive `lag` late."""
    return method("sparse", merge="fixed_lag", lag=lag, **keys)


def few_bits(lag, **keys):
    return method("lowbit", merge="fixed_lag", lag=lag, **keys)


SMOOTH = {"smoothing": 0.95, "gain": 1, "gain_smoothing": 0.95}
SHARE = {"optimizer.gradient_share": 0.2}  # what an asynchronous pipeline has by default
ONE_STAGE = {"mesh.stages": 1, **SHARE}
MESH = {"mesh.stages": 4}
SYNCHRONOUS = {"mesh.stages": 4, "pipeline.schedule": "1f1b"}

# name: what is set, over the recipe
ROWS = {
    "allreduce": {**ONE_STAGE, **method("allreduce")},
    "weights (FullSync)": {**ONE_STAGE, **method("weights")},
    "sparse 5 %, lag 0 (SPARTA)": {**ONE_STAGE, **late(0, correction="none", outer_momentum=0)},
    "diloco, every 50": {**ONE_STAGE, **method("diloco")},
    "diloco, every 50, lag 10": {**ONE_STAGE, **method("diloco", lag=10)},
    "none": {**ONE_STAGE, **method("none")},
    "sparse (center)": {**ONE_STAGE, **late(10)},
    "correction none": {**ONE_STAGE, **late(10, correction="none")},
    "correction delta": {**ONE_STAGE, **late(10, correction="delta")},
    "outer momentum 0": {**ONE_STAGE, **late(10, outer_momentum=0)},
    "outer momentum .8": {**ONE_STAGE, **late(10, outer_momentum=0.8)},
    "lag 1": {**ONE_STAGE, **late(1)},
    "lag 50": {**ONE_STAGE, **late(50)},
    "fraction 1 %": {**ONE_STAGE, **late(10, fraction=0.01)},
    "fraction 25 %": {**ONE_STAGE, **late(10, fraction=0.25)},
    "lowbit, lag 1": {**ONE_STAGE, **few_bits(1)},
    "lowbit, lag 10": {**ONE_STAGE, **few_bits(10)},
    "lowbit, smooth, lag 10": {**ONE_STAGE, **few_bits(10, **SMOOTH)},
    "lowbit in int4, lag 1": {**ONE_STAGE, **few_bits(1, wire="int4")},
    "1f1b + allreduce": {**SYNCHRONOUS, **method("allreduce")},
    "1f1b + allreduce, k = 0.2": {**SYNCHRONOUS, **SHARE, **method("allreduce")},
    "async + allreduce": {**MESH, **method("allreduce")},
    "mesh, lag 1": {**MESH, **late(1)},
    "mesh, lag 10": {**MESH, **late(10)},
    "mesh, lowbit, lag 1": {**MESH, **few_bits(1)},
    "mesh, lowbit, lag 10": {**MESH, **few_bits(10)},
    "mesh, lowbit in int4, lag 1": {**MESH, **few_bits(1, wire="int4")},
    "mesh, K = 1, lag 10": {**MESH, **late(10), "pipeline.update_every": 1},
}
GROUPS = {
    "methods": list(ROWS)[: list(ROWS).index("correction none")],
    "factors": list(ROWS)[list(ROWS).index("correction none") :][:12],
    "mesh": list(ROWS)[list(ROWS).index("1f1b + allreduce") :],
    "head": [
        "allreduce", "sparse (center)", "1f1b + allreduce", "1f1b + allreduce, k = 0.2",
        "mesh, lag 1", "mesh, lowbit, lag 1",
    ],
}  # fmt: skip


def variant(row, optimizer, rate, seed, extra):
    sets = {"optimizer.name": optimizer, "run.seed": seed, **ROWS[row], **extra}
    sets |= {f"optimizer.{key}": value * rate for key, value in RATES[optimizer].items()}
    return {"row": row, "optimizer": optimizer, "rate": rate, "seed": seed, "sets": sets}


def name_of(case):
    words = [case["row"], case["optimizer"], f"x{case['rate']:g}", f"seed{case['seed']}"]
    text = "-".join(words)
    return "".join(c if c.isalnum() or c in ".=-" else "_" for c in text)


def run(case, arguments):
    folder = arguments.out / name_of(case)
    summary = folder / "summary.json"
    if not summary.is_file():
        data = {"data.train": arguments.train, "data.valid": arguments.valid}
        command = [arguments.leeway, "train", REPOSITORY / "recipes/averaging4.toml"]
        command += ["--out", folder, "--fresh"]
        for key, value in {**data, **case["sets"]}.items():
            command += ["--set", f"{key}={value}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return {**case, "loss": None, "why": done.stderr.strip().splitlines()[-1]}
    read = json.loads(summary.read_text())
    share = read["bytes_averaging"] / max(1, read["bytes_allreduce"])
    return {**case, "loss": read["valid_loss"], "share": share, "consensus": read["consensus"]}


def print_table(title, results):
    rates = sorted({result["rate"] for result in results})
    print(f"\n{title}\n\n| | " + " | ".join(f"x{rate:g}" for rate in rates) + " | bytes |")
    print("|---" * (len(rates) + 2) + "|")
    for row in [row for row in ROWS if any(r["row"] == row for r in results)]:
        cells, share = [], ""
        for rate in rates:
            here = [r for r in results if r["row"] == row and r["rate"] == rate]
            losses = [r["loss"] for r in here if r["loss"] is not None]
            if losses and len(losses) == len(here):
                spread = f" ± {(max(losses) - min(losses)) / 2:.3f}" if len(losses) > 1 else ""
                cells.append(f"{statistics.mean(losses):.4f}{spread}")
                share = f"{100 * here[0]['share']:.1f} %"
            else:
                cells.append("diverged" if here else "")
        print(f"| {row} | " + " | ".join(cells) + f" | {share} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=pathlib.Path, required=True)
    parser.add_argument("--valid", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--leeway", type=pathlib.Path, default=REPOSITORY / "build/leeway")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--groups", default="methods,factors,mesh")
    parser.add_argument("--rows", default="", help="names, separated by semicolons, for --groups")
    parser.add_argument("--rates", default="0.5,1,2")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--optimizers", default="muon")
    parser.add_argument("--set", action="append", default=[], dest="sets", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = [row for group in arguments.groups.split(",") for row in GROUPS[group]]
    if arguments.rows:
        rows = arguments.rows.split(";")
    extra = dict(pair.split("=", 1) for pair in arguments.sets)
    cases = [
        variant(row, optimizer, float(rate), int(seed), extra)
        for seed in arguments.seeds.split(",")
        for rate in arguments.rates.split(",")
        for optimizer in arguments.optimizers.split(",")
        for row in rows
    ]
    results = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        futures = [pool.submit(run, case, arguments) for case in cases]
        for future in concurrent.futures.as_completed(futures):
            last = future.result()
            results.append(last)
            (arguments.out / "results.json").write_text(json.dumps(results))
            what = f"{last['optimizer']} {last['row']} x{last['rate']:g} seed {last['seed']}"
            outcome = last["loss"] or last.get("why")
            print(f"{len(results)}/{len(cases)} {what}: {outcome}", file=sys.stderr)
    for optimizer in arguments.optimizers.split(","):
        print_table(optimizer, [r for r in results if r["optimizer"] == optimizer])


if __name__ == "__main__":
    main()
