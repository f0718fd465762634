"""Twenty updates of a whole model with each optimizer match a PyTorch training loop."""

import math

import pytest
import torch

import model_reference as reference

UPDATES, MICROBATCHES, BATCH, TIME = 20, 2, 2, 13
DECAY, CLIP = 0.1, 0.5
OPTIMIZERS = {
    "adamw": {"rate": 3e-3, "beta1": 0.9, "beta2": 0.98, "epsilon": 1e-8},
    "nadamw": {"rate": 3e-3, "beta1": 0.99, "beta2": 0.999, "epsilon": 1e-8},
    "sgd": {"rate": 0.2, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
    "muon": {"rate": 3e-3, "beta1": 0.95, "beta2": 0.999, "epsilon": 1e-8},
}
MATRIX_RATE = 0.02
SHAPES = {
    "llama": reference.Shape(layers=2, width=24, heads=3, kv_heads=1, hidden=37, vocabulary=43),
    "gpt2": reference.Shape(
        "gpt2", "gelu", True, layers=2, width=24, heads=3, kv_heads=3, hidden=37, vocabulary=43
    ),
}
# Warm-up and decay: a rate that changes must reach every rule, and decay with it.
RATE_FACTORS = [min(1.0, (n + 1) / 4) * (1 - n / 40) for n in range(UPDATES)]


def is_vector(name):
    return name.endswith(".bias") or name.endswith("norm.weight")


def is_matrix(name):
    return name.startswith("layers.") and not is_vector(name)


class Muon(torch.optim.Optimizer):
    """Muon from its formula, Newton-Schulz in the precision of the weights."""

    def __init__(self, parameters, beta, decay):
        super().__init__(parameters, {"lr": 0.0, "beta": beta, "decay": decay})

    @staticmethod
    def orthogonalize(matrix):
        tall = matrix.shape[0] > matrix.shape[1]
        x = matrix.T if tall else matrix
        x = x / (x.norm() + 1e-7)
        for _ in range(5):
            gram = x @ x.T
            x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
        return x.T if tall else x

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta, rate = group["beta"], group["lr"]
            for weight in group["params"]:
                state = self.state[weight]
                momentum = state.setdefault("momentum", torch.zeros_like(weight))
                momentum.mul_(beta).add_(weight.grad, alpha=1 - beta)
                direction = (1 - beta) * weight.grad + beta * momentum
                scale = math.sqrt(max(1.0, weight.shape[0] / weight.shape[1]))
                weight.mul_(1 - rate * group["decay"])
                weight.sub_(rate * scale * self.orthogonalize(direction))


class DecoupledSgd(torch.optim.SGD):
    """torch.optim.SGD adds decay to the gradient; ours is decoupled in every rule."""

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                weight.mul_(1 - group["lr"] / (1 - group["momentum"]) * group["decoupled"])
        super().step()


def make_optimizers(rule, weights):
    """Pairs of optimizer and its full learning rate."""
    o = OPTIMIZERS[rule]
    betas = (o["beta1"], o["beta2"])
    vectors = [w for name, w in weights.items() if is_vector(name)]
    matrices = [w for name, w in weights.items() if is_matrix(name)]
    rest = [w for name, w in weights.items() if not is_vector(name) and not is_matrix(name)]

    def groups(decaying, key="weight_decay"):
        return [{"params": decaying, key: DECAY}, {"params": vectors, key: 0.0}]

    if rule == "adamw":
        adamw = torch.optim.AdamW(groups(matrices + rest), betas=betas, eps=o["epsilon"])
        return [(adamw, o["rate"])]
    if rule == "nadamw":
        nadam = torch.optim.NAdam(
            groups(matrices + rest),
            betas=betas,
            eps=o["epsilon"],
            momentum_decay=0.004,
            decoupled_weight_decay=True,
        )
        return [(nadam, o["rate"])]
    if rule == "sgd":
        beta = o["beta1"]
        sgd = DecoupledSgd(
            groups(matrices + rest, "decoupled"), lr=1.0, momentum=beta, nesterov=True
        )
        return [(sgd, o["rate"] * (1 - beta))]
    adamw = torch.optim.AdamW(groups(rest), betas=betas, eps=o["epsilon"])
    return [(Muon(matrices, o["beta1"], DECAY), MATRIX_RATE), (adamw, o["rate"])]


def train_reference(shape, rule, weights, ids, targets):
    for weight in weights.values():
        weight.requires_grad_()
    optimizers = make_optimizers(rule, weights)
    losses = []
    for n in range(UPDATES):
        total = 0
        for i in range(MICROBATCHES):
            logits = reference.forward(shape, weights, ids[n, i])
            total = total + reference.loss_of(logits, targets[n, i]) / MICROBATCHES
        total.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), CLIP)
        for optimizer, rate in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * RATE_FACTORS[n]
            optimizer.step()
            optimizer.zero_grad()
        losses.append(total.item())
    return torch.tensor(losses, dtype=torch.float64), {n: w.detach() for n, w in weights.items()}


def train_both(tmp_path, shape, rule, dtype, stages=2):
    weights = reference.random_weights(shape, dtype)
    size = (UPDATES, MICROBATCHES, BATCH, TIME)
    ids = reference.random_tokens(shape, *size, seed=3)
    targets = (ids * 7 + 3) % shape.vocabulary  # something to learn
    word = str(dtype).removeprefix("torch.")
    ours = reference.run_probe(
        tmp_path,
        {**weights, "ids": ids, "targets": targets},
        shape=shape,
        stages=stages,
        master=word,
        compute=word,
        optimizer={
            "rule": rule,
            "matrix_rate": MATRIX_RATE,
            "decay": DECAY,
            "nesterov": True,
            **OPTIMIZERS[rule],
        },
        rate_factors=RATE_FACTORS,
        clip=CLIP,
    )
    losses, final = train_reference(shape, rule, weights, ids, targets)
    return ours, losses, {f"weight/{name}": tensor for name, tensor in final.items()}


@pytest.mark.parametrize("rule", OPTIMIZERS)
@pytest.mark.parametrize("architecture", SHAPES)
def test_fp64_weights(tmp_path, architecture, rule):
    ours, losses, final = train_both(tmp_path, SHAPES[architecture], rule, torch.float64)
    assert losses[-1] < losses[0]
    reference.assert_close(ours, {**final, "losses": losses}, 1e-8)


@pytest.mark.parametrize("rule", OPTIMIZERS)
@pytest.mark.parametrize("architecture", SHAPES)
def test_fp32_losses(tmp_path, architecture, rule):
    ours, losses, _ = train_both(tmp_path, SHAPES[architecture], rule, torch.float32)
    assert ((ours["losses"] - losses).abs() / losses).max() < 1e-3


def test_the_comparison_notices_another_beta(tmp_path, monkeypatch):
    ours, _, _ = train_both(tmp_path, SHAPES["llama"], "adamw", torch.float64)
    monkeypatch.setitem(OPTIMIZERS["adamw"], "beta2", 0.9801)
    _, losses, final = train_both(tmp_path, SHAPES["llama"], "adamw", torch.float64)
    with pytest.raises(AssertionError, match="weight/"):
        reference.assert_close(ours, {**final, "losses": losses}, 1e-8)
