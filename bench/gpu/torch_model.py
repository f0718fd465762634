"""The recipes' model in PyTorch, in its strongest usual form, as the reference for training speed:
fp32 weights, bf16 autocast, fused attention, fused AdamW, and a vocabulary padded to a multiple of
128. It reads the same recipe and the same windows in the same order. Prints one JSON object.

    torch_model.py RECIPE --data gpu-data --mode eager|compile|autotune [--set model.layers=2]
"""

import argparse
import json
import math
import pathlib
import statistics
import time
import tomllib

import torch
import torch.nn.functional as F
from token_windows import TokenWindows
from torch import nn

MODES = {"eager": None, "compile": "default", "autotune": "max-autotune-no-cudagraphs"}
DEFAULTS = {  # what recipes leave out, as `leeway config keys` has it
    "run": {"seed": 1, "precision": "fp32", "device": "cpu"},
    "optimizer": {"beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8, "decay": 0.0, "clip": 1.0,
                  "warmup": 0, "final": 0.1},
}  # fmt: skip


def load_recipe(path, sets):
    """The recipe's tables, with changes like `model.layers=2`."""
    recipe = {table: dict(values) for table, values in DEFAULTS.items()}
    for table, values in tomllib.loads(pathlib.Path(path).read_text()).items():
        recipe.setdefault(table, {}).update(values)
    for change in sets:
        key, value = change.split("=", 1)
        table, name = key.split(".")
        try:
            recipe.setdefault(table, {})[name] = tomllib.loads(f"x = {value}")["x"]
        except tomllib.TOMLDecodeError:  # a bare word
            recipe.setdefault(table, {})[name] = value
    return recipe


def rotate(x, cosine, sine):
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cosine - high * sine, high * cosine + low * sine), dim=-1)


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        width, hidden = shape["width"], shape["hidden"]
        self.heads = shape["heads"]
        self.activation = shape["activation"]
        self.bias = shape["architecture"] == "gpt2"
        norm = nn.LayerNorm if self.bias else nn.RMSNorm
        up = 2 * hidden if self.activation == "swiglu" else hidden
        self.attention_norm = norm(width, eps=1e-5)
        self.qkv = nn.Linear(width, 3 * width, bias=self.bias)
        self.out = nn.Linear(width, width, bias=self.bias)
        self.mlp_norm = norm(width, eps=1e-5)
        self.up = nn.Linear(width, up, bias=self.bias)
        self.down = nn.Linear(hidden, width, bias=self.bias)

    def forward(self, x, angles):
        batch, length, width = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        if angles is not None:
            cosine, sine = (table.to(q.dtype) for table in angles)
            q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(self.activate(self.up(self.mlp_norm(x))))

    def activate(self, x):
        if self.activation == "swiglu":
            gate, up = x.chunk(2, dim=-1)
            return F.silu(gate) * up
        return F.relu(x) if self.activation == "relu" else F.gelu(x, approximate="tanh")


class Model(nn.Module):
    def __init__(self, shape, vocabulary):
        super().__init__()
        width, context = shape["width"], shape["context"]
        gpt2 = shape["architecture"] == "gpt2"
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width) if gpt2 else None
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape["layers"]))
        self.final_norm = (nn.LayerNorm if gpt2 else nn.RMSNorm)(width, eps=1e-5)
        self.head = nn.Linear(width, vocabulary, bias=False)
        if not gpt2:
            size = width // shape["heads"]
            frequencies = 10000.0 ** -(torch.arange(0, size, 2).float() / size)
            angles = torch.outer(torch.arange(context).float(), frequencies)
            self.register_buffer("cosine", angles.cos(), persistent=False)
            self.register_buffer("sine", angles.sin(), persistent=False)
        self.initialize(shape["layers"])

    def initialize(self, layers):
        """From the same distributions as src/model/initial_weights.cpp."""
        for name, weights in self.named_parameters():
            if name.endswith(".bias"):
                nn.init.zeros_(weights)
            elif weights.dim() == 2:
                writes_residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(weights, std=0.02 / (math.sqrt(2 * layers) ** writes_residual))

    def forward(self, ids, targets):
        x = self.embedding(ids)
        angles = None
        if self.positions is not None:
            x = x + self.positions.weight[: ids.size(1)]
        else:
            angles = (self.cosine[: ids.size(1)], self.sine[: ids.size(1)])
        for block in self.blocks:
            x = block(x, angles)
        logits = self.head(self.final_norm(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))


def rate_factor(optimizer, updates, update):
    """src/optim/rate_schedule.h, with a cosine."""
    warmup = optimizer["warmup"]
    if update < warmup:
        return (update + 1) / warmup
    peak = max(warmup - 1, 0)
    last = max(updates - 1, peak)
    progress = 0 if last == peak else (min(update, last) - peak) / (last - peak)
    return optimizer["final"] + (1 - optimizer["final"]) * 0.5 * (1 + math.cos(math.pi * progress))


class Training:
    """Updates one after the other; nothing waits for the device."""

    def __init__(self, recipe, data, mode, pad=128, backend="inductor"):
        torch.set_float32_matmul_precision("high")
        torch.manual_seed(recipe["run"]["seed"])
        self.recipe = recipe
        self.device = torch.device(recipe["run"]["device"])
        shape = recipe["model"]
        self.windows = TokenWindows(
            pathlib.Path(data) / "train.tokens", shape["context"], recipe["data"]["batch"],
            recipe["run"]["seed"],
        )  # fmt: skip
        padded = -(-self.windows.vocabulary // pad) * pad
        with self.device:
            self.model = Model(shape, padded)
        own = recipe["optimizer"]
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=own["rate"], betas=(own["beta1"], own["beta2"]),
            eps=own["epsilon"], weight_decay=own["decay"], fused=True,
        )  # fmt: skip
        self.loss_of = self.model
        if MODES[mode] is not None:
            options = {"mode": MODES[mode]} if backend == "inductor" else {"backend": backend}
            self.loss_of = torch.compile(self.model, **options)
        self.done = 0
        self.losses = []  # on the device

    @property
    def tokens_per_update(self):
        return self.recipe["data"]["batch"] * self.recipe["model"]["context"]

    def batch(self):
        ids = torch.from_numpy(self.windows.read(self.done))
        if self.device.type == "cuda":
            ids = ids.pin_memory().to(self.device, non_blocking=True)
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    def update(self):
        own = self.recipe["optimizer"]
        for group in self.optimizer.param_groups:
            factor = rate_factor(own, self.recipe["run"]["updates"], self.done)
            group["lr"] = own["rate"] * factor
        bf16 = self.recipe["run"]["precision"] == "bf16"
        ids, targets = self.batch()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=bf16):
            loss = self.loss_of(ids, targets)
        loss.backward()
        if own["clip"] > 0:
            nn.utils.clip_grad_norm_(self.model.parameters(), own["clip"])
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.losses.append(loss.detach())
        self.done += 1

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def measure(training, warmup, window):
    """tokens/s in each window after the warm-up."""
    start = time.perf_counter()
    training.update()
    training.wait()
    first_seconds = time.perf_counter() - start
    updates = training.recipe["run"]["updates"]
    while training.done < min(warmup, updates):
        training.update()
    speeds = []
    while training.done + window <= updates:
        training.wait()
        start = time.perf_counter()
        for _ in range(window):
            training.update()
        training.wait()
        speeds.append(window * training.tokens_per_update / (time.perf_counter() - start))
    return first_seconds, speeds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe")
    parser.add_argument("--data", required=True, help="folder made by `leeway data prepare`")
    parser.add_argument("--mode", choices=MODES, default="eager")
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE")
    parser.add_argument("--pad", type=int, default=128, help="vocabulary's multiple; 1: as it is")
    parser.add_argument("--warmup", type=int, default=30, help="updates that do not count")
    parser.add_argument("--window", type=int, default=10, help="updates in a window")
    parser.add_argument("--backend", default="inductor", help="of torch.compile")
    arguments = parser.parse_args()
    recipe = load_recipe(arguments.recipe, arguments.set)
    training = Training(recipe, arguments.data, arguments.mode, arguments.pad, arguments.backend)
    first_seconds, speeds = measure(training, arguments.warmup, arguments.window)
    on_gpu = training.device.type == "cuda"
    print(json.dumps({
        "tokens_per_second": statistics.median(speeds),
        "window_tokens_per_second": speeds,
        "losses": torch.stack(training.losses).double().tolist(),
        "first_update_seconds": first_seconds,
        "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else 0,
        "parameters": sum(weights.numel() for weights in training.model.parameters()),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
