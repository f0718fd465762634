"""What the tables of quality share: one `leeway train` for every case, several at a time.

A case is a row of a table, an optimizer, a factor of its rates, a seed, and what is set over the
table's recipe. What is done is kept in --out and not run again.
"""
import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import statistics
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
RATES = {
    "muon": {"matrix_rate": 0.02, "rate": 3e-3},
    "adamw": {"rate": 3e-3},
    "nadamw": {"rate": 3e-3},
}


def case_of(row, sets, optimizer, rate=1.0, seed=1):
    rates = {f"optimizer.{key}": value * rate for key, value in RATES[optimizer].items()}
    sets = {"optimizer.name": optimizer, "run.seed": seed, **rates, **sets}
    return {"row": row, "optimizer": optimizer, "rate": rate, "seed": seed, "sets": sets}


def parser_of(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--train", type=pathlib.Path, required=True)
    parser.add_argument("--valid", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--leeway", type=pathlib.Path, default=REPOSITORY / "build/leeway")
    parser.add_argument("--jobs", type=int, default=2)
    return parser


def name_of(case):
    """For a person the row and the rate, for the rest a hash of all that is set."""
    text = f"{case['row']}-{case['optimizer']}-x{case['rate']:g}-seed{case['seed']}"
    sets = hashlib.sha256(json.dumps(case["sets"], sort_keys=True).encode()).hexdigest()
    return "".join(c if c.isalnum() or c in ".=-" else "_" for c in text) + "-" + sets[:8]


def run(case, recipe, arguments):
    folder = arguments.out / name_of(case)
    summary = folder / "summary.json"
    if not summary.is_file():
        data = {"data.train": arguments.train, "data.valid": arguments.valid}
        command = [arguments.leeway, "train", REPOSITORY / recipe, "--out", folder, "--fresh"]
        for key, value in {**data, **case["sets"]}.items():
            command += ["--set", f"{key}={value}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return {**case, "loss": None, "why": done.stderr.strip().splitlines()[-1]}
    read = json.loads(summary.read_text())
    return {**case, "loss": read["valid_loss"], "summary": read}


def run_all(cases, recipe, arguments):
    """The cases with their losses, in the order in which they ended; also in results.json."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    results = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        futures = [pool.submit(run, case, recipe, arguments) for case in cases]
        for future in concurrent.futures.as_completed(futures):
            last = future.result()
            results.append(last)
            (arguments.out / "results.json").write_text(json.dumps(results))
            what = f"{last['optimizer']} {last['row']} x{last['rate']:g} seed {last['seed']}"
            outcome = last["loss"] or last.get("why")
            print(f"{len(results)}/{len(cases)} {what}: {outcome}", file=sys.stderr)
    return results


def cell(results):
    """Of one row and column: the loss; where there are several seeds, mean and half range."""
    losses = [result["loss"] for result in results if result["loss"] is not None]
    if not results or len(losses) < len(results):
        return "diverged" if results else ""
    spread = f" ± {(max(losses) - min(losses)) / 2:.3f}" if len(losses) > 1 else ""
    return f"{statistics.mean(losses):.4f}{spread}"
