"""Both architectures in plain PyTorch, from their definitions, and how to run ours for comparison.

Nothing here is shared with the C++ code: rotary positions are complex numbers, attention is a
softmax over a masked matrix, GELU is its formula. Weights have Leeway's names.
"""

import dataclasses
import json
import math
import os
import subprocess

import torch
from places import probe_path
from safetensors.torch import load_file, save_file

torch.set_num_threads(1)  # the models are tiny: a second thread only waits

PROBE = probe_path("model_probe")


@dataclasses.dataclass(frozen=True)
class Shape:
    architecture: str = "llama"
    activation: str = "swiglu"
    bias: bool = False
    layers: int = 3
    width: int = 40
    heads: int = 5
    kv_heads: int = 5
    hidden: int = 52
    context: int = 23
    vocabulary: int = 61

    @property
    def head_size(self):
        return self.width // self.heads


LLAMA = Shape()
LLAMA_GROUPED = Shape(heads=4, kv_heads=2)
GPT2_GELU = Shape("gpt2", "gelu", True)
GPT2_RELU = Shape("gpt2", "relu", True)
GPT2_NO_BIAS = Shape("gpt2", "relu", False)
SHAPES = [LLAMA, LLAMA_GROUPED, GPT2_GELU, GPT2_RELU, GPT2_NO_BIAS]


def name_of(shape):
    bias = "-bias" if shape.bias else ""
    return f"{shape.architecture}-{shape.activation}{bias}-{shape.heads}q{shape.kv_heads}kv"


def parameter_sizes(shape):
    """Leeway's names with their sizes: matrices are [out, in]."""
    width, kv_rows = shape.width, shape.kv_heads * shape.head_size
    sizes = {"embedding.weight": (shape.vocabulary, width)}
    if shape.architecture == "gpt2":
        sizes["positions.weight"] = (shape.context, width)
    for layer in range(shape.layers):
        at = f"layers.{layer}."
        sizes[at + "attention_norm.weight"] = (width,)
        sizes[at + "attention.q.weight"] = (width, width)
        sizes[at + "attention.k.weight"] = (kv_rows, width)
        sizes[at + "attention.v.weight"] = (kv_rows, width)
        sizes[at + "attention.out.weight"] = (width, width)
        sizes[at + "mlp_norm.weight"] = (width,)
        if shape.activation == "swiglu":
            sizes[at + "mlp.gate.weight"] = (shape.hidden, width)
        sizes[at + "mlp.up.weight"] = (shape.hidden, width)
        sizes[at + "mlp.down.weight"] = (width, shape.hidden)
        if shape.bias:
            sizes[at + "attention_norm.bias"] = (width,)
            sizes[at + "attention.qkv.bias"] = (width + 2 * kv_rows,)
            sizes[at + "attention.out.bias"] = (width,)
            sizes[at + "mlp_norm.bias"] = (width,)
            sizes[at + "mlp.up.bias"] = (shape.hidden,)
            sizes[at + "mlp.down.bias"] = (width,)
    sizes["final_norm.weight"] = (width,)
    if shape.bias:
        sizes["final_norm.bias"] = (width,)
    sizes["head.weight"] = (shape.vocabulary, width)
    return sizes


def random_weights(shape, dtype, seed=5):
    """Large enough that every path through the model shows in the logits."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, size in parameter_sizes(shape).items():
        values = torch.randn(size, generator=generator, dtype=torch.float64) * 0.2
        if name.endswith("norm.weight"):
            values += 1
        weights[name] = values.to(torch.float32).to(dtype)
    return weights


def random_tokens(shape, *size, seed=11):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(shape.vocabulary, size, generator=generator)


def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdim=True)
    normal = centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5)
    return normal * weight + (0 if bias is None else bias)


def rms_norm(x, weight):
    return x / torch.sqrt((x**2).mean(-1, keepdim=True) + 1e-5) * weight


def rotate(x):
    """x is [batch, heads, time, size]; coordinates i and i + size/2 are one complex number."""
    time, size = x.shape[-2:]
    frequencies = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.outer(torch.arange(time, dtype=torch.float64), frequencies)
    turn = torch.polar(torch.ones_like(angles), angles)
    turn = turn.to(torch.complex128 if x.dtype == torch.float64 else torch.complex64)
    turned = torch.complex(x[..., : size // 2], x[..., size // 2 :]) * turn
    return torch.cat([turned.real, turned.imag], -1)


def attend(shape, q, k, v):
    time = q.shape[-2]
    k = k.repeat_interleave(shape.heads // shape.kv_heads, 1)
    v = v.repeat_interleave(shape.heads // shape.kv_heads, 1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(shape.head_size)
    future = torch.ones(time, time, dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -math.inf).softmax(-1) @ v


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def mlp(shape, w, at, x):
    up = x @ w[at + "mlp.up.weight"].T
    if shape.activation == "swiglu":
        gate = x @ w[at + "mlp.gate.weight"].T
        hidden = gate * torch.sigmoid(gate) * up
    else:
        up = up + w.get(at + "mlp.up.bias", 0)
        hidden = gelu(up) if shape.activation == "gelu" else up.clamp(min=0)
    return hidden @ w[at + "mlp.down.weight"].T + w.get(at + "mlp.down.bias", 0)


def attention(shape, w, at, x):
    batch, time, width = x.shape
    rows = [width, shape.kv_heads * shape.head_size, shape.kv_heads * shape.head_size]
    biases = [0, 0, 0]
    if shape.bias:
        biases = w[at + "attention.qkv.bias"].split(rows)
    q, k, v = (
        (x @ w[at + f"attention.{part}.weight"].T + bias)
        .view(batch, time, -1, shape.head_size)
        .transpose(1, 2)
        for part, bias in zip("qkv", biases)
    )
    if shape.architecture == "llama":
        q, k = rotate(q), rotate(k)
    mixed = attend(shape, q, k, v).transpose(1, 2).reshape(batch, time, width)
    return mixed @ w[at + "attention.out.weight"].T + w.get(at + "attention.out.bias", 0)


def norm(shape, w, name, x):
    if shape.architecture == "llama":
        return rms_norm(x, w[name + ".weight"])
    return layer_norm(x, w[name + ".weight"], w.get(name + ".bias"))


def forward(shape, w, ids):
    """Logits [batch * time, vocabulary]."""
    x = w["embedding.weight"][ids]
    if shape.architecture == "gpt2":
        x = x + w["positions.weight"][: ids.shape[1]]
    for layer in range(shape.layers):
        at = f"layers.{layer}."
        x = x + attention(shape, w, at, norm(shape, w, at + "attention_norm", x))
        x = x + mlp(shape, w, at, norm(shape, w, at + "mlp_norm", x))
    x = norm(shape, w, "final_norm", x)
    return (x @ w["head.weight"].T).flatten(0, 1)


def loss_of(logits, targets):
    log_probabilities = logits - logits.logsumexp(-1, keepdim=True)
    return -log_probabilities.gather(1, targets.reshape(-1, 1)).mean()


def run_probe(tmp_path, tensors, **job):
    """Runs ours; returns its tensors."""
    inputs, out, path = (tmp_path / n for n in ("in.safetensors", "out.safetensors", "job.json"))
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, inputs)
    if "shape" in job:
        job["shape"] = dataclasses.asdict(job["shape"])
    path.write_text(json.dumps({**job, "inputs": str(inputs), "out": str(out)}))
    # Some CPUs advertise matrix units that may not be used; oneDNN then crashes on bf16.
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([PROBE, path], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{PROBE} {path}: {done.returncode} {done.stderr}"
    return load_file(out)


def distance(actual, expected):
    """Norm of the difference over the norm of what is expected."""
    actual, expected = actual.double().reshape(-1), expected.double().reshape(-1)
    assert actual.shape == expected.shape
    return ((actual - expected).norm() / expected.norm().clamp(min=1e-30)).item()


def assert_close(actual, expected, tolerance):
    """Every tensor of `expected` is in `actual`, norm-wise within the tolerance."""
    assert set(actual) == set(expected), set(actual) ^ set(expected)
    distances = {name: distance(actual[name], tensor) for name, tensor in expected.items()}
    far = {name: d for name, d in distances.items() if not d <= tolerance}
    assert not far, f"beyond {tolerance}: {far}"
