"""Compares twenty updates of each optimizer with PyTorch's, computed on the spot.

Muon's reference is its formula with Newton-Schulz in the test's own precision; torch.optim.Muon,
which iterates in bf16, is compared where its rounding cannot matter.
"""

import itertools
import os
import subprocess

import numpy as np
import pytest
import torch
from places import probe_path

PROBE = probe_path("optim_probe")

MATRIX, EMBEDDING, HEAD, VECTOR = range(4)  # ParameterKind
RULES = {"muon": 0, "adamw": 1, "nadamw": 2, "sgd": 3}  # UpdateRule
UPDATES = 20
torch.set_num_threads(1)  # More threads only slow down matrices this small.
TOLERANCE = {64: 1e-8, 32: 1e-4}
BETA1 = {"muon": 0.95, "adamw": 0.9, "nadamw": 0.99, "sgd": 0.9}


def random_layout(generator):
    """Odd shapes, some of them twice (Muon groups them), tall, wide, and of one row or column."""
    size = lambda: int(generator.integers(2, 40))
    width, hidden = size(), size()
    layout = [(EMBEDDING, size(), width), (VECTOR, 1, width)]
    layout += [(MATRIX, width, width)] * 3 + [(VECTOR, 1, width)]
    layout += [(MATRIX, hidden, width), (MATRIX, width, hidden), (MATRIX, hidden, width)]
    layout += [(MATRIX, 1, size()), (MATRIX, size(), 1), (VECTOR, 1, 1), (HEAD, size(), width)]
    return layout


class Case:
    """Everything both sides start from."""

    def __init__(self, rule, seed=1, nesterov=True, decay=0.0, clip=0.0):
        generator = np.random.default_rng(seed)
        self.rule, self.nesterov, self.decay, self.clip = rule, nesterov, decay, clip
        self.layout = random_layout(generator)
        self.rate = 0.1 if rule == "sgd" else 3e-3
        self.matrix_rate, self.epsilon, self.beta2 = 0.02, 1e-8, 0.999
        self.beta1 = BETA1[rule]
        self.factors = generator.uniform(0.2, 1.0, UPDATES)
        count = sum(rows * cols for _, rows, cols in self.layout)
        # Rounded to fp32, so that both precisions start from the same values.
        self.weights = generator.normal(size=count).astype(np.float32).astype(np.float64)
        noise = generator.normal(size=(UPDATES, count)) + generator.normal(size=count)
        self.gradients = noise.astype(np.float32).astype(np.float64)

    def write(self, path, bits):
        """What optim_probe reads."""
        integers = [RULES[self.rule], int(self.nesterov), bits, UPDATES, len(self.layout)]
        integers += [number for parameter in self.layout for number in parameter]
        numbers = [self.rate, self.matrix_rate, self.beta1, self.beta2, self.epsilon, self.decay]
        numbers += [self.clip, *self.factors]
        with path.open("wb") as file:
            np.array(integers, dtype="<i8").tofile(file)
            np.array(numbers, dtype="<f8").tofile(file)
            self.weights.astype("<f8").tofile(file)
            self.gradients.astype("<f8").tofile(file)

    def parameters(self, flat, dtype):
        tensors, offset = [], 0
        for _, rows, cols in self.layout:
            part = torch.tensor(flat[offset : offset + rows * cols], dtype=dtype)
            tensors.append(part.view(rows, cols))
            offset += rows * cols
        return tensors

    def theirs(self, bits, step_of):
        """Weights after each update; `step_of` makes a function that takes the rate factor."""
        dtype = torch.float64 if bits == 64 else torch.float32
        # torch.optim.NAdam keeps its product of momenta in the default type.
        torch.set_default_dtype(dtype)
        try:
            parameters = self.parameters(self.weights, dtype)
            step = step_of(self, parameters)
            history = []
            for factor, flat in zip(self.factors, self.gradients):
                for parameter, gradient in zip(parameters, self.parameters(flat, dtype)):
                    parameter.grad = gradient
                if self.clip:
                    torch.nn.utils.clip_grad_norm_(parameters, self.clip)
                step(factor)
                history.append(torch.cat([p.detach().flatten() for p in parameters]).double())
            return torch.stack(history).numpy()
        finally:
            torch.set_default_dtype(torch.float32)


def run_ours(folder, cases_and_bits):
    """Weights after each update of every case, all in one process."""
    paths = []
    for number, (case, bits) in enumerate(cases_and_bits):
        paths += [folder / f"input{number}.bin", folder / f"output{number}.bin"]
        case.write(paths[-2], bits)
    subprocess.run([PROBE, *paths], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return [np.fromfile(path, dtype="<f8").reshape(UPDATES, -1) for path in paths[1::2]]


def groups_by_decay(case, chosen):
    decaying = [p for (kind, _, _), p in chosen if kind != VECTOR]
    others = [p for (kind, _, _), p in chosen if kind == VECTOR]
    return [
        {"params": decaying, "weight_decay": case.decay},
        {"params": others, "weight_decay": 0.0},
    ]


def torch_step(make):
    """Drives an optimizer of torch.optim with the case's rate factors."""

    def step_of(case, parameters):
        optimizer = make(case, list(zip(case.layout, parameters)))
        rates = [group["lr"] for group in optimizer.param_groups]

        def step(factor):
            for group, rate in zip(optimizer.param_groups, rates):
                group["lr"] = rate * factor
            optimizer.step()

        return step

    return step_of


def make_adamw(case, chosen):
    return torch.optim.AdamW(
        groups_by_decay(case, chosen),
        lr=case.rate,
        betas=(case.beta1, case.beta2),
        eps=case.epsilon,
    )


def make_nadamw(case, chosen):
    return torch.optim.NAdam(
        groups_by_decay(case, chosen),
        lr=case.rate,
        betas=(case.beta1, case.beta2),
        eps=case.epsilon,
        momentum_decay=0.004,
        decoupled_weight_decay=True,
    )


def sgd_step(case, parameters):
    """torch.optim.SGD adds gradients up where we average them, and decays through the gradient."""
    optimizer = torch.optim.SGD(
        parameters, lr=case.rate * (1 - case.beta1), momentum=case.beta1, nesterov=case.nesterov
    )

    def step(factor):
        for (kind, _, _), parameter in zip(case.layout, parameters):
            if kind != VECTOR:
                parameter.mul_(1 - case.rate * factor * case.decay)
        optimizer.param_groups[0]["lr"] = case.rate * (1 - case.beta1) * factor
        optimizer.step()

    return step


def newton_schulz(matrix):
    x = matrix / (matrix.norm() + 1e-7)
    transposed = x.size(0) > x.size(1)
    x = x.T if transposed else x
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    return x.T if transposed else x


def muon_step(case, parameters):
    pairs = list(zip(case.layout, parameters))
    rest = [(shape, p) for shape, p in pairs if shape[0] != MATRIX]
    rest_step = torch_step(lambda _, __: make_adamw(case, rest))(case, parameters)
    matrices = [(p, torch.zeros_like(p)) for shape, p in pairs if shape[0] == MATRIX]

    def step(factor):
        rest_step(factor)
        rate = case.matrix_rate * factor
        for p, momentum in matrices:
            momentum.lerp_(p.grad, 1 - case.beta1)
            direction = p.grad.lerp(momentum, case.beta1) if case.nesterov else momentum
            scale = max(1.0, p.size(0) / p.size(1)) ** 0.5
            p.mul_(1 - rate * case.decay).sub_(rate * scale * newton_schulz(direction))

    return step


REFERENCES = {
    "adamw": torch_step(make_adamw),
    "nadamw": torch_step(make_nadamw),
    "sgd": sgd_step,
    "muon": muon_step,
}


def relative_error(case, ours, theirs):
    """The worst parameter's largest difference at any update, relative to its largest weight."""
    worst, offset = 0.0, 0
    for _, rows, cols in case.layout:
        part = slice(offset, offset + rows * cols)
        scale = np.abs(theirs[:, part]).max()
        worst = max(worst, np.abs(ours[:, part] - theirs[:, part]).max() / scale)
        offset += rows * cols
    return worst


@pytest.mark.parametrize(
    "rule, nesterov",
    [
        ("adamw", False),
        ("nadamw", True),
        ("sgd", False),
        ("sgd", True),
        ("muon", False),
        ("muon", True),
    ],
)
def test_twenty_updates_equal_pytorchs(tmp_path, rule, nesterov):
    settings = list(itertools.product((1, 2, 3), (0.0, 0.1), (64, 32)))
    cases = [
        (Case(rule, seed=seed, nesterov=nesterov, decay=decay), bits)
        for seed, decay, bits in settings
    ]
    for setting, (case, bits), ours in zip(settings, cases, run_ours(tmp_path, cases)):
        error = relative_error(case, ours, case.theirs(bits, REFERENCES[rule]))
        assert error < TOLERANCE[bits], f"seed, decay, bits = {setting}"


def test_clipping_equals_pytorchs(tmp_path):
    cases = [(Case(rule, decay=0.1, clip=0.7), 64) for rule in RULES]
    for (case, bits), ours in zip(cases, run_ours(tmp_path, cases)):
        error = relative_error(case, ours, case.theirs(bits, REFERENCES[case.rule]))
        assert error < TOLERANCE[bits], case.rule


def test_a_wrong_value_is_noticed(tmp_path):
    """Tests the comparison itself: each of these, slightly off, must not pass."""
    right, wrong = [], []
    for name, bits in itertools.product(
        ["beta1", "beta2", "rate", "decay", "nesterov", "factors", "clip"], (64, 32)
    ):
        rule = "sgd" if name in ("nesterov", "clip") else "adamw"
        clip = 7.0 if name == "clip" else 0.0
        right.append((Case(rule, decay=0.1, clip=clip), bits))
        case = Case(rule, decay=0.1, clip=clip)
        value = getattr(case, name)
        setattr(case, name, False if name == "nesterov" else value * 0.9)
        wrong.append((case, bits))
    for (case, bits), ours in zip(right, run_ours(tmp_path, wrong)):
        theirs = case.theirs(bits, REFERENCES[case.rule])
        assert relative_error(case, ours, theirs) > TOLERANCE[bits]


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no torch.optim.Muon")
def test_muon_has_the_structure_of_torchs(tmp_path):
    """torch.optim.Muon iterates in bf16; its steps must still equal ours up to rounding."""

    def make(case, chosen):
        return torch.optim.Muon(
            [p for _, p in chosen],
            lr=case.matrix_rate,
            weight_decay=case.decay,
            momentum=case.beta1,
            nesterov=case.nesterov,
        )

    case = Case("muon", decay=0.1)
    case.layout = [(MATRIX, 12, 30), (MATRIX, 30, 12), (MATRIX, 20, 20)]
    count = sum(rows * cols for _, rows, cols in case.layout)
    case.weights, case.gradients = case.weights[:count], case.gradients[:, :count]
    ours, theirs = run_ours(tmp_path, [(case, 32)])[0], case.theirs(32, torch_step(make))
    moved = np.linalg.norm(theirs[-1] - case.weights)
    assert np.linalg.norm(ours[-1] - theirs[-1]) < 0.02 * moved
