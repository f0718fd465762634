"""What the parts of `make bench-gpu` measure, and the ratios that are asked for."""

import dataclasses
import pathlib

RECIPES = pathlib.Path(__file__).resolve().parent / "recipes"


@dataclasses.dataclass(frozen=True)
class Side:
    name: str
    recipe: str
    torch: str = ""  # a mode of torch_model.py; empty: ours
    sets: dict = dataclasses.field(default_factory=dict)

    @property
    def recipe_path(self):
        return RECIPES / f"{self.recipe}.toml"


@dataclasses.dataclass(frozen=True)
class Ratio:
    names: tuple  # ours, reference
    least: str = "-"
    aim: str = "-"


@dataclasses.dataclass(frozen=True)
class Part:
    sides: list
    ratios: list

    def only(self, text):
        """The sides with this text in their names, and the ratios between them."""
        sides = [side for side in self.sides if text in side.name]
        names = {side.name for side in sides}
        return Part(sides, [ratio for ratio in self.ratios if names.issuperset(ratio.names)])


def mesh(stages, replicas, method=None):
    # Many workers keep a GPU busy without graphs, which would only take memory there.
    sets = {"mesh.stages": stages, "mesh.replicas": replicas, "pipeline.graphs": "false"}
    if replicas > 1:  # the same tokens per update
        sets |= {"data.batch": 32 // replicas, "averaging.method": method}
    return sets


PARTS = {
    "shapes": Part(
        [
            Side("163M ours, AdamW", "gpt2-163m"),
            Side("163M PyTorch eager", "gpt2-163m", "eager"),
            Side("163M torch.compile", "gpt2-163m", "compile"),
            Side("163M ours, Muon", "gpt2-163m", sets={"optimizer.name": "muon"}),
        ],
        [
            Ratio(("163M ours, AdamW", "163M PyTorch eager"), "1.2", "1.6"),
            Ratio(("163M ours, AdamW", "163M torch.compile"), "0.95", "1.1"),
            Ratio(("163M ours, Muon", "163M ours, AdamW"), "0.90", "0.93"),
            Ratio(("163M torch.compile", "163M PyTorch eager")),
        ],
    ),
    "autotune": Part(
        [
            Side("163M ours, AdamW", "gpt2-163m"),
            Side("163M torch.compile, autotuned", "gpt2-163m", "autotune"),
        ],
        [Ratio(("163M ours, AdamW", "163M torch.compile, autotuned"))],
    ),
    "mesh": Part(
        [
            Side("163M ours, 1 x 1", "gpt2-163m"),
            Side("163M ours, 8 microbatches", "gpt2-163m", sets={"pipeline.update_every": 8}),
            Side("163M ours, 4 x 1", "gpt2-163m", sets=mesh(4, 1)),
            Side("163M ours, 4 x 2, sparse", "gpt2-163m", sets=mesh(4, 2, "sparse")),
            Side("163M ours, 4 x 2, lowbit", "gpt2-163m", sets=mesh(4, 2, "lowbit")),
        ],
        [
            Ratio(("163M ours, 8 microbatches", "163M ours, 1 x 1")),
            Ratio(("163M ours, 4 x 1", "163M ours, 1 x 1")),
            Ratio(("163M ours, 4 x 2, sparse", "163M ours, 1 x 1"), "0.85", "0.95"),
            Ratio(("163M ours, 4 x 2, lowbit", "163M ours, 1 x 1"), "0.85", "0.95"),
        ],
    ),
    "large": Part(
        [
            Side("350M ours", "llama-350m"),
            Side("350M torch.compile", "llama-350m", "compile"),
            Side("1B ours", "llama-1b"),
            Side("1B torch.compile", "llama-1b", "compile"),
        ],
        [
            Ratio(("350M ours", "350M torch.compile"), "0.95", "1.1"),
            Ratio(("1B ours", "1B torch.compile"), "0.95", "1.1"),
        ],
    ),
}

TINY_SETS = {
    "run.updates": 24, "model.layers": 4, "model.width": 32, "model.heads": 2, "model.hidden": 64,
    "model.context": 32, "data.batch": 8, "optimizer.warmup": 2,
}  # fmt: skip
