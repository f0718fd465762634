"""The table of docs/results/pipeline.md: what late gradients cost, by look-ahead and by rate.

    bench/pipeline_quality.py --train out/wiki --valid out/wiki-valid --out out/quality [--jobs N]

Runs `leeway train` on recipes/pipeline8.toml once for every row, rate and seed that the chosen
groups ask for, N at a time, and prints the tables as Markdown. What is done is kept in --out and
not run again. Equal tokens everywhere; rates are the recipe's times 1/2, 1 and 2.
"""
import argparse
import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
OPTIMIZERS = {"muon": {"matrix_rate": 0.02, "rate": 3e-3}, "adamw": {"rate": 3e-3}}
SYNC = {"pipeline.schedule": "1f1b"}
ROWS = {
    "synchronous": SYNC,
    "synchronous, k = 0.2": {**SYNC, "optimizer.gradient_share": 0.2},
    "none": {"pipeline.lookahead": "none"},
    "lr_discount": {"pipeline.lookahead": "lr_discount"},
    "nesterov": {"pipeline.lookahead": "nesterov"},
    "predict": {"pipeline.lookahead": "predict"},
    "matched": {"pipeline.lookahead": "matched"},
    "none, k = 0.2": {"pipeline.lookahead": "none", "optimizer.gradient_share": 0.2},
    "tentative, one guess": {"pipeline.lookahead": "tentative", "pipeline.refresh": 1},
    "tentative (default)": {"pipeline.lookahead": "tentative"},
}
HEADLINE = ["synchronous", "synchronous, k = 0.2", "none", "matched", "tentative (default)"]


def variant(row, optimizer, rate=1.0, seed=1, **extra):
    sets = {"optimizer.name": optimizer, "run.seed": seed, **ROWS[row]}
    sets |= {f"optimizer.{key}": value * rate for key, value in OPTIMIZERS[optimizer].items()}
    return {"row": row, "optimizer": optimizer, "rate": rate, "seed": seed, "sets": sets | extra}


def group_rates(seed=1):
    return [variant(row, o, rate, seed) for o in OPTIMIZERS for row in ROWS for rate in (0.5, 1, 2)]


def group_seeds():
    return [variant(r, o, seed=s) for s in (2, 3) for o in OPTIMIZERS for r in HEADLINE]


def group_length():
    rows = ["synchronous", "synchronous, k = 0.2", "none", "tentative (default)"]
    lengths = [{"run.updates": n} for n in (1200, 2400)]
    return [variant(row, o, **length) for length in lengths for o in OPTIMIZERS for row in rows]


def group_one():
    """K = 1: gradients 7 to 0 updates late."""
    rows = ["synchronous", "none", "lr_discount", "predict", "matched", "none, k = 0.2"]
    return [
        variant(row, o, rate, **{"pipeline.update_every": 1})
        for o in OPTIMIZERS
        for row in rows
        for rate in (0.5, 1)
    ]


def group_batch():
    """Synchronous at other batches, with the same tokens."""
    return [
        variant("synchronous, k = 0.2", o, rate, **{"data.batch": b, "run.updates": 9600 // b})
        for o in OPTIMIZERS
        for b in (8, 32)
        for rate in (0.5, 1, 2)
    ]


GROUPS = {
    "rates": group_rates, "seeds": group_seeds, "length": group_length, "one": group_one,
    "batch": group_batch,
}  # fmt: skip


def name_of(case):
    text = json.dumps(case["sets"], sort_keys=True)
    return "".join(c if c.isalnum() or c in ".=-" else "_" for c in text)[:180]


def run(case, arguments):
    folder = arguments.out / name_of(case)
    summary = folder / "summary.json"
    if not summary.is_file():
        data = {"data.train": arguments.train, "data.valid": arguments.valid}
        command = [arguments.leeway, "train", REPOSITORY / "recipes/pipeline8.toml"]
        command += ["--out", folder, "--fresh"]
        for key, value in {**data, **case["sets"]}.items():
            command += ["--set", f"{key}={value}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return {**case, "loss": None, "why": done.stderr.strip().splitlines()[-1]}
    return {**case, "loss": json.loads(summary.read_text())["valid_loss"]}


def extra_of(case):
    known = variant(case["row"], case["optimizer"], case["rate"], case["seed"])["sets"]
    return {k: v for k, v in case["sets"].items() if known.get(k) != v}


def print_table(title, results):
    """Rows by look-ahead, columns by rate; where there are several seeds, mean and half range."""
    def column_of(result):
        return json.dumps(extra_of(result)), result["rate"]

    columns = sorted({column_of(result) for result in results})
    heads = [f"x{rate:g} {extra[1:-1]}" for extra, rate in columns]
    print(f"\n{title}\n\n| | " + " | ".join(heads) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for row in [row for row in ROWS if any(r["row"] == row for r in results)]:
        cells = []
        for column in columns:
            here = [r for r in results if r["row"] == row and column_of(r) == column]
            losses = [r["loss"] for r in here if r["loss"] is not None]
            if losses and len(losses) == len(here):
                spread = f" ± {(max(losses) - min(losses)) / 2:.3f}" if len(losses) > 1 else ""
                cells.append(f"{statistics.mean(losses):.4f}{spread}")
            else:
                cells.append("diverged" if here else "")
        print(f"| {row} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=pathlib.Path, required=True)
    parser.add_argument("--valid", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--leeway", type=pathlib.Path, default=REPOSITORY / "build/leeway")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--groups", default="rates,seeds")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    cases = [case for group in arguments.groups.split(",") for case in GROUPS[group]()]
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
    for optimizer in OPTIMIZERS:
        print_table(optimizer, [r for r in results if r["optimizer"] == optimizer])


if __name__ == "__main__":
    main()
