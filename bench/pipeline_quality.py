"""The table of docs/results/pipeline.md: what late gradients cost, by look-ahead and by rate.

    bench/pipeline_quality.py --train out/wiki --valid out/wiki-valid --out out/quality [--jobs N]

Runs `leeway train` on recipes/pipeline8.toml once for every row, rate and seed that the chosen
groups ask for, N at a time, and prints the tables as Markdown. What is done is kept in --out and
not run again. Equal tokens everywhere; rates are the recipe's times 1/2, 1 and 2.
"""
import json

import quality

OPTIMIZERS = ["muon", "adamw"]
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
    return quality.case_of(row, {**ROWS[row], **extra}, optimizer, rate, seed)


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
            cells.append(quality.cell(here))
        print(f"| {row} | " + " | ".join(cells) + " |")


def main():
    parser = quality.parser_of(__doc__.splitlines()[0])
    parser.add_argument("--groups", default="rates,seeds")
    arguments = parser.parse_args()
    cases = [case for group in arguments.groups.split(",") for case in GROUPS[group]()]
    results = quality.run_all(cases, "recipes/pipeline8.toml", arguments)
    for optimizer in OPTIMIZERS:
        print_table(optimizer, [r for r in results if r["optimizer"] == optimizer])


if __name__ == "__main__":
    main()
