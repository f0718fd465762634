"""The runs of several replicas that test_averaging.py compares: the settings for both sides, and
the list of runs."""

import dataclasses
import itertools
import math
import random

from pipeline_cases import OPTIMIZERS, Case, pairwise_rows

# The keys of [averaging] that a method uses; other keys are rejected.
LATE = ("interval", "merge", "lag", "wire")
MERGING = (*LATE, "correction", "outer_rate", "outer_momentum", "ema_start", "ema_end")
KEYS = {
    "sparse": (*MERGING, "fraction", "granularity"),
    "diloco": MERGING,
    "lowbit": (*LATE, "threshold", "smoothing", "gain", "gain_smoothing"),
    "weights": ("interval",),
    "allreduce": (),
}


@dataclasses.dataclass(frozen=True)
class Replicas(Case):
    """A tiny run of several replicas, in the terms of a recipe."""

    replicas: int = 2
    method: str = "sparse"
    fraction: float = 1.0
    interval: int = 1
    correction: str = "delta"
    ema_start: float = 0.5
    ema_end: float = 0.99
    outer_rate: float = 1.0
    outer_momentum: float = 0.0
    merge: str = "fixed_lag"
    lag: int | str = 0
    deadline_ms: float = 1000.0
    granularity: int = 64
    wire: str = "f32"
    threshold: float = 0.6
    smoothing: float = 0.0
    gain: float = 0.0
    gain_smoothing: float = 0.0
    second_moment: str = "own"
    lookahead: str = "none"
    stages: int = 1
    update_every: int | str = 1
    updates: int = 60
    sequences: int = 4  # per update and replica, or the next multiple of K

    @property
    def noise_share(self):
        own_steps = self.method not in ("allreduce", "none")
        return 1 / self.replicas if self.second_moment == "mean" and own_steps else 1.0

    @property
    def batch(self):
        return math.ceil(self.sequences / self.every) * self.every

    @property
    def tables(self):
        if self.replicas == 1:  # whatever the method: there is nothing to average
            return super().tables
        keys = [key for key in KEYS[self.method] if key != "granularity" or self.fraction < 1]
        keys = [key for key in keys if not key.startswith("ema_") or self.correction == "ema"]
        keys = [key for key in keys if key != "threshold" or self.wire == "ternary"]
        keys += ["deadline_ms"] if self.merge == "on_arrival" else []
        tables = super().tables
        tables["optimizer"] |= self.parts("second_moment")
        return tables | {
            "mesh": self.parts("stages", "replicas"),
            "averaging": self.parts("method", *keys),
        }

    @property
    def rounds(self):
        return self.updates // self.interval

    @property
    def whole_batch(self):
        """One replica that reads what all of them read, in as many microbatches."""
        return dataclasses.replace(self, replicas=1, sequences=self.replicas * self.batch)


# What is merged. `memory`: earlier merges matter; `part`: weights are sent in parts.
RULES = {
    "none": {"method": "sparse", "correction": "none"},
    "delta": {"method": "sparse", "correction": "delta"},
    "ema": {"method": "sparse", "correction": "ema"},
    "lowbit": {"method": "lowbit", "wire": "f32"},
    "ternary": {"method": "lowbit", "wire": "ternary"},
    "sparse-ternary": {"method": "lowbit", "wire": "ternary", "threshold": 1.6},
}
MEMORY = {
    "sparse": {"outer_rate": 1.0, "outer_momentum": 0.5},
    "lowbit": {"smoothing": 0.95, "gain": 1.0, "gain_smoothing": 0.95},
}
PART = {
    "sparse": {"fraction": 0.05},
    "lowbit": {},
}
PIPELINES = {
    "P1": {"stages": 1},
    "none": {"stages": 3},
    "predict": {"stages": 3, "update_every": 2, "lookahead": "predict"},
    "tentative": {"stages": 3, "update_every": "auto", "lookahead": "tentative"},
    "1f1b": {"stages": 3, "update_every": 2, "schedule": "1f1b"},
}
MERGES = {
    "rule": list(RULES),
    "memory": [False, True],
    "part": [True, False],
    "lag": [0, "half", 1, 10],
    "interval": [1, 3],
}
AROUND = {
    "pipeline": list(PIPELINES),
    "optimizer": ["adamw", "muon", "sgd"],
    "replicas": [2, 3],
    "driver": ["threads", "sim"],
    "guarded": [False, True],  # weight decay and clipping
    "second_moment": ["own", "mean"],
    "granularity": [64, 7],
}
FACTORS = MERGES | AROUND


def case_of(row):
    """A row has a value for each factor."""
    rule = RULES[row["rule"]]
    method = rule["method"]
    changes = rule | PIPELINES[row["pipeline"]] | OPTIMIZERS[row["optimizer"]]
    if row["memory"]:
        changes |= MEMORY[method]
    if row["part"]:
        changes |= PART[method]
    if row["guarded"]:
        changes |= {"decay": 0.1, "clip": 0.5}
    keys = ("interval", "optimizer", "replicas", "driver", "second_moment")
    same = {key: row[key] for key in keys}
    case = Replicas(granularity=row["granularity"], **same, **changes)
    return dataclasses.replace(case, lag=lag_of(row["lag"], case.every))


def lag_of(lag, every):
    """Half an update, in whole microbatches, as a recipe has it."""
    return round((every + 1) // 2 / every, 3) if lag == "half" else lag


def name_of(row):
    case = case_of(row)
    words = [row["rule"], *["memory"] * row["memory"]]
    words += [f"lag{row['lag']}", f"every{row['interval']}"]
    if case.method != "lowbit":
        words += [f"part{row['granularity']}"] if row["part"] else ["whole"]
    words += [f"R{row['replicas']}", row["pipeline"], row["optimizer"], row["driver"]]
    words += ["mean"] * (row["second_moment"] == "mean")
    return "-".join(words + ["guarded"] * row["guarded"])


def makes_sense(row):
    """Otherwise corrections of steps merged long ago add up, and replicas drift apart."""
    case = case_of(row)
    if row["lag"] == "half" and case.every == 1:
        return False  # an update of one microbatch has no halves
    if row["second_moment"] == "mean" and (case.optimizer == "sgd" or case.method == "allreduce"):
        return False  # they are refused
    in_flight = case.lag / case.interval
    return row["part"] or row["rule"] not in ("delta", "ema") or in_flight <= 1


def few_rows():
    """Rows in which every pair of values occurs."""
    return pairwise_rows(FACTORS, makes_sense, seed=9)


def many_rows(replicas):
    """Every combination of what merging depends on, with the other factors taking turns."""
    draw = random.Random(replicas)
    around = list(itertools.product(AROUND["pipeline"], AROUND["optimizer"]))
    draw.shuffle(around)
    merges = itertools.product(*MERGES.values())
    rows = []
    for values, (pipeline, optimizer) in zip(merges, itertools.cycle(around)):
        row = dict(zip(MERGES, values)) | {f: draw.choice(v) for f, v in AROUND.items()}
        row |= {"pipeline": pipeline, "optimizer": optimizer, "replicas": replicas}
        if makes_sense(row):
            rows.append(row)
    return rows
