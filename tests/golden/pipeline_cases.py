"""The runs that test_pipeline.py compares: the settings for both sides, and the list of runs."""

import dataclasses
import itertools
import json
import math
import random

import model_reference as reference


@dataclasses.dataclass(frozen=True)
class Case:
    """A tiny run, in the terms of a recipe."""

    lookahead: str = "tentative"
    optimizer: str = "adamw"
    update_every: int | str = "auto"  # K
    extra: int = 0
    stages: int = 3
    schedule: str = "async"
    driver: str = "threads"
    architecture: str = "llama"
    horizon: float | None = None  # None, here and below: left out of the recipe
    refresh: int | None = None
    nesterov: bool | None = None
    gradient_share: float | None = None
    decay: float = 0.0
    clip: float = 0.0
    clip_stages: str = "share"
    checkpoint_every: int = 0
    recompute: bool = False
    stash: bool = True
    hops: str = "f32"
    updates: int = 50
    rate: float = 5e-3
    matrix_rate: float = 0.02
    beta1: float = 0.9
    beta2: float = 0.99
    epsilon: float = 1e-8
    warmup: int = 5
    final: float = 0.1

    @property
    def every(self):
        """K as a number."""
        if self.update_every == "auto":
            return (self.stages - 1) * (1 + self.extra) + 1
        return self.update_every

    @property
    def batch(self):
        """Eight sequences, or the next multiple of K: with fewer, SGD learns too little."""
        return math.ceil(8 / self.every) * self.every

    @property
    def rule(self):
        """AdamW in its Nesterov form is NAdamW, by either name."""
        if self.optimizer == "adamw" and self.lookahead == "nesterov":
            return "nadamw"
        return self.optimizer

    @property
    def noise_share(self):
        """What of the noise in the second moment counts."""
        return 1.0

    @property
    def synchronous(self):
        return self.schedule != "async"

    @property
    def shape(self):
        gpt2 = self.architecture == "gpt2"
        return reference.Shape(
            architecture=self.architecture,
            activation="gelu" if gpt2 else "swiglu",
            bias=gpt2,
            layers=max(self.stages, 3),
            width=16,
            heads=2,
            kv_heads=2 if gpt2 else 1,
            hidden=24,
            context=8,
            vocabulary=31,
        )

    @property
    def tables(self):
        """The case as the tables of a recipe."""
        model = dataclasses.asdict(self.shape)
        return {
            "run": {**self.parts("updates", "driver", "checkpoint_every"), "precision": "fp64"},
            "model": {key: value for key, value in model.items() if key != "vocabulary"},
            "data": {"train": "made by the probe", "batch": self.batch},
            "optimizer": {
                "name": self.optimizer,
                **self.parts("rate", "matrix_rate", "beta1", "beta2", "epsilon", "decay", "clip"),
                **self.parts("clip_stages", "nesterov", "gradient_share", "warmup", "final"),
            },
            "mesh": self.parts("stages"),
            "pipeline": {
                "extra_per_hop": self.extra,
                **self.parts("schedule", "update_every", "lookahead", "horizon"),
                **self.parts("refresh", "recompute", "stash"),
                "wire": self.hops,
            },
        }

    @property
    def recipe(self):
        """The case as TOML."""
        lines = []
        for table, keys in self.tables.items():
            lines.append(f"[{table}]")
            lines += [f"{key} = {json.dumps(v)}" for key, v in keys.items() if v is not None]
        return "\n".join(lines)

    def parts(self, *names):
        return {name: getattr(self, name) for name in names}


# Look-ahead and horizon.
LOOKAHEADS = {
    "tentative": ("tentative", None),
    "matched": ("matched", None),
    "predict": ("predict", None),
    "predict-half": ("predict", 0.5),
    "nesterov": ("nesterov", None),
    "none": ("none", None),
}
OPTIMIZERS = {
    "adamw": {"rate": 5e-3, "beta1": 0.9, "beta2": 0.99},
    "nadamw": {"rate": 5e-3, "beta1": 0.99, "beta2": 0.999},
    "muon": {"rate": 5e-3, "beta1": 0.95, "beta2": 0.99},
    "sgd": {"rate": 0.3, "beta1": 0.9, "beta2": 0.99},
}
CROSSED = {
    "lookahead": list(LOOKAHEADS),
    "optimizer": list(OPTIMIZERS),
    "update_every": [1, 2, 4, "auto"],
    "extra": [0, 1],
    "stages": [2, 3, 4],
}
# These vary too: in pairs with everything else, but not in all combinations.
VARIED = {
    "driver": ["threads", "sim"],
    "architecture": ["llama", "gpt2"],
    "guarded": [False, True],  # weight decay and clipping
    "nesterov": [False, True],  # Muon's and SGD's form, where the look-ahead leaves it open
}
FACTORS = CROSSED | VARIED


def case_of(row):
    """A row has a value for each factor."""
    lookahead, horizon = LOOKAHEADS[row["lookahead"]]
    is_open = row["optimizer"] in ("muon", "sgd") and lookahead != "nesterov"
    becomes = "nadamw" if lookahead == "nesterov" and row["optimizer"] == "adamw" else None
    return Case(
        lookahead=lookahead,
        horizon=horizon,
        optimizer=row["optimizer"],
        update_every=row["update_every"],
        extra=row["extra"],
        stages=row["stages"],
        driver=row["driver"],
        architecture=row["architecture"],
        nesterov=row["nesterov"] if is_open else None,
        decay=0.1 if row["guarded"] else 0.0,
        clip=0.5 if row["guarded"] else 0.0,
        **OPTIMIZERS[becomes or row["optimizer"]],
    )


def name_of(row):
    words = [row["lookahead"], row["optimizer"], f"K{row['update_every']}"]
    words += [f"extra{row['extra']}", f"P{row['stages']}", row["driver"], row["architecture"]]
    words += ["guarded"] * row["guarded"]
    words += {None: [], False: ["plain"], True: ["nesterov"]}[case_of(row).nesterov]
    return "-".join(words)


def makes_sense(row):
    """NAdamW is a look-ahead of its own; a trial step needs a gradient of its update."""
    case = case_of(row)
    if case.lookahead == "tentative" and case.every <= (case.stages - 1) * (1 + case.extra):
        return False
    return case.optimizer != "nadamw" or case.lookahead == "nesterov"


def pairs_in(row):
    return set(itertools.combinations(row.items(), 2))


def pairwise_rows(factors=FACTORS, makes_sense=makes_sense, seed=120):
    """Rows in which every pair of values occurs: each has the most new pairs of many draws."""
    draw = random.Random(seed)

    def random_row(fixed):
        row = {factor: draw.choice(values) for factor, values in factors.items()} | dict(fixed)
        return row if makes_sense(row) else random_row(fixed)

    every_row = (dict(zip(factors, values)) for values in itertools.product(*factors.values()))
    missing = set().union(*(pairs_in(row) for row in every_row if makes_sense(row)))
    rows = []
    while missing:
        wanted = min(missing, key=str)
        drawn = [random_row(wanted) for _ in range(200)]
        rows.append(max(drawn, key=lambda row: len(pairs_in(row) & missing)))
        missing -= pairs_in(rows[-1])
    return rows


def all_rows(stages):
    """Every combination of the crossed factors with this many stages; the rest is random."""
    draw = random.Random(stages)
    rows = []
    for values in itertools.product(*CROSSED.values()):
        row = dict(zip(CROSSED, values)) | {f: draw.choice(v) for f, v in VARIED.items()}
        if row["stages"] == stages and makes_sense(row):
            rows.append(row)
    return rows
