"""The table of docs/results/averaging.md: what replicas that do not wait for each other cost.

    bench/averaging_quality.py --train out/wiki --valid out/wiki-valid --out out/four [--jobs N]

Runs `leeway train` on recipes/averaging4.toml (4 replicas) once for every row, rate and seed that
the chosen groups ask for, N at a time, in the simulator with real arithmetic, and prints the table
as Markdown. What is done is kept in --out and not run again. Equal tokens and updates everywhere;
rates are the recipe's times 1/2, 1 and 2.
"""
import quality


def method(name, **keys):
    return {"averaging.method": name, **{f"averaging.{key}": value for key, value in keys.items()}}


def late(lag, **keys):
    """The method around which one factor at a time is changed; its means arrive `lag` late."""
    return method("sparse", merge="fixed_lag", lag=lag, **keys)


def few_bits(lag, **keys):
    return method("lowbit", merge="fixed_lag", lag=lag, **keys)


SMOOTH = {"smoothing": 0.95, "gain": 1, "gain_smoothing": 0.95}
PLAIN = {"correction": "none", "outer_momentum": 0}
SHARE = {"optimizer.gradient_share": 0.2}  # what an asynchronous pipeline has by default
ONE_STAGE = {"mesh.stages": 1, **SHARE}
MESH = {"mesh.stages": 4}
SYNCHRONOUS = {"mesh.stages": 4, "pipeline.schedule": "1f1b"}

# The rest of fraction x lag x interval.
GRID = [
    (f"{100 * fraction:g} %, lag {lag}, every {interval}", lag,
     {"fraction": fraction, "interval": interval})
    for fraction in (0.01, 0.05, 0.25)
    for lag in (1, 10)
    for interval in (1, 4)
    if interval > 1 or (lag == 1 and fraction != 0.05)
]

# name: what is set, over the recipe
ROWS = {
    "allreduce": {**ONE_STAGE, **method("allreduce")},
    "weights (FullSync)": {**ONE_STAGE, **method("weights")},
    "sparse 5 %, lag 0 (SPARTA)": {**ONE_STAGE, **late(0, **PLAIN)},
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
    **{name: {**ONE_STAGE, **late(lag, **keys)} for name, lag, keys in GRID},
    "lowbit, lag 1": {**ONE_STAGE, **few_bits(1)},
    "lowbit, lag 10": {**ONE_STAGE, **few_bits(10)},
    "lowbit, smooth, lag 10": {**ONE_STAGE, **few_bits(10, **SMOOTH)},
    "lowbit in int4, lag 1": {**ONE_STAGE, **few_bits(1, wire="int4")},
    "1f1b + allreduce": {**SYNCHRONOUS, **method("allreduce")},
    "1f1b + allreduce, k = 0.2": {**SYNCHRONOUS, **SHARE, **method("allreduce")},
    "1f1b + weights (FullSync)": {**SYNCHRONOUS, **method("weights")},
    "async + allreduce": {**MESH, **method("allreduce")},
    "async + weights": {**MESH, **method("weights")},
    "mesh, lag 0, plain (SPARTA)": {**MESH, **late(0, **PLAIN)},
    "mesh, lag 10, plain (async SPARTA)": {**MESH, **late(10, **PLAIN)},
    "mesh, lag 10, outer 0 (the paper)": {**MESH, **late(10, outer_momentum=0)},
    "mesh, lag 1": {**MESH, **late(1)},
    "mesh, lag 10": {**MESH, **late(10)},
    "mesh, lowbit, lag 1": {**MESH, **few_bits(1)},
    "mesh, lowbit, lag 10": {**MESH, **few_bits(10)},
    "mesh, lowbit in int4, lag 1": {**MESH, **few_bits(1, wire="int4")},
    "mesh, K = 1, lag 10": {**MESH, **late(10), "pipeline.update_every": 1},
}
NAMES = list(ROWS)
FACTORS, MESHES = NAMES.index("correction none"), NAMES.index("1f1b + allreduce")
GROUPS = {
    "methods": NAMES[:FACTORS],
    "factors": NAMES[FACTORS:MESHES],
    "mesh": NAMES[MESHES:],
    "head": [
        "allreduce", "sparse (center)", "1f1b + allreduce", "1f1b + allreduce, k = 0.2",
        "mesh, lag 1", "mesh, lowbit, lag 1",
    ],
}  # fmt: skip


def print_table(title, results):
    rates = sorted({result["rate"] for result in results})
    print(f"\n{title}\n\n| | " + " | ".join(f"x{rate:g}" for rate in rates) + " | bytes |")
    print("|---" * (len(rates) + 2) + "|")
    for row in [row for row in ROWS if any(r["row"] == row for r in results)]:
        cells, bytes_text = [], ""
        for rate in rates:
            here = [r for r in results if r["row"] == row and r["rate"] == rate]
            cells.append(quality.cell(here))
            if here and here[0]["loss"] is not None:
                summary = here[0]["summary"]
                share = 100 * summary["bytes_averaging"] / summary["bytes_allreduce"]
                bytes_text = f"{share:.1f} %"
        print(f"| {row} | " + " | ".join(cells) + f" | {bytes_text} |")


def main():
    parser = quality.parser_of(__doc__.splitlines()[0])
    parser.add_argument("--groups", default="methods,factors,mesh")
    parser.add_argument("--rows", default="", help="names, separated by semicolons, for --groups")
    parser.add_argument("--rates", default="0.5,1,2")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--optimizers", default="muon")
    arguments = parser.parse_args()
    rows = [row for group in arguments.groups.split(",") for row in GROUPS[group]]
    if arguments.rows:
        rows = arguments.rows.split(";")
    cases = [
        quality.case_of(row, ROWS[row], optimizer, float(rate), int(seed))
        for seed in arguments.seeds.split(",")
        for rate in arguments.rates.split(",")
        for optimizer in arguments.optimizers.split(",")
        for row in rows
    ]
    results = quality.run_all(cases, "recipes/averaging4.toml", arguments)
    for optimizer in arguments.optimizers.split(","):
        print_table(optimizer, [r for r in results if r["optimizer"] == optimizer])


if __name__ == "__main__":
    main()
