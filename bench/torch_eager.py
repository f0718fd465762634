"""The reference for training speed: the recipes' model in PyTorch eager, written for speed (one qkv
product, fused attention, fused AdamW). Prints one JSON object.

    torch_eager.py '{"tokens": PATH, "layers": 4, ...}'
"""
import json
import resource
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.RMSNorm(width, eps=1e-5)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.mlp_norm = nn.RMSNorm(width, eps=1e-5)
        self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cosine, sine):
        batch, time_, width = x.shape
        q, k, v = (
            self.qkv(self.attention_norm(x)).view(batch, time_, 3, self.heads, -1).unbind(2)
        )
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, time_, width))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


def rotate(x, cosine, sine):
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cosine - high * sine, high * cosine + low * sine), dim=-1)


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["width"]
        self.embedding = nn.Embedding(c["vocabulary"], width)
        self.blocks = nn.ModuleList(
            Block(width, c["heads"], c["hidden"]) for _ in range(c["layers"])
        )
        self.final_norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, c["vocabulary"], bias=False)
        size = width // c["heads"]
        angles = torch.outer(
            torch.arange(c["context"]).float(), 10000.0 ** (-torch.arange(0, size, 2) / size)
        )
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, ids, targets):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        logits = self.head(self.final_norm(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def main():
    c = json.loads(sys.argv[1])
    torch.set_num_threads(c["threads"])
    torch.manual_seed(1)
    tokens = np.memmap(c["tokens"], dtype=np.uint16, mode="r", offset=c["offset"])
    device = torch.device(c.get("device", "cpu"))
    model = Model(c).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0, fused=True
    )
    generator = np.random.default_rng(1)
    windows = (len(tokens) - 1) // c["context"]

    def update():
        rows = generator.integers(0, windows, c["batch"]) * c["context"]
        ids = np.stack([tokens[r : r + c["context"] + 1] for r in rows]).astype(np.int64)
        ids = torch.from_numpy(ids).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=c.get("bf16", False)):
            loss = model(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    for _ in range(5):
        update()
    start = time.perf_counter()
    for _ in range(c["updates"]):
        loss = update()
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {
                "tokens_per_second": c["updates"] * c["batch"] * c["context"] / seconds,
                "parameters": sum(p.numel() for p in model.parameters()),
                "loss": loss,
                "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
