"""The delayed method from its equations, deliberately simple: a list of all past
weights of every stage, no pipeline, no messages, one autograd graph per microbatch.

Microbatch m, counted from the last flush point, meets stage s as it was after
floor(max(m - W_s, 0) / K) updates, moved ahead by horizon * delay * (the last update by then), or
by a trial step on the gradients known by then (`tentative`, docs/pipeline.md). The constants of
`matched` are found here by brute force. Nothing is shared with the C++ code. A `case` is one of
pipeline_cases.py.
"""

import dataclasses
import functools
import itertools
import math

import numpy as np
import torch

import model_reference as reference

SHARES = [0.0, *np.geomspace(0.004, 0.6, 60)]  # k
HORIZONS = [step / 20 for step in range(21)]  # h


@dataclasses.dataclass(frozen=True)
class Constants:
    """How a stage compensates for its delay."""

    warmup: int  # W_s
    share: float | None  # k; None: the optimizer's own form
    horizon: float  # h


def delay_shares(warmup, every):
    """p_d: the share of an update's microbatches that are d updates late, by counting them."""
    late = [m // every - (m - warmup) // every for m in range(warmup * every, (warmup + 1) * every)]
    return {d: late.count(d) / every for d in sorted(set(late))}


def characteristic(beta1, mix, share, horizon):
    """A and B of A(z) + x B(z) = 0, which is (z-1) + x G(z) C(z) = 0 without its denominators."""
    power = max(mix) + 1
    g = np.zeros(power + 1)  # z^power G(z), highest power first
    for delay, part in mix.items():
        g[delay] += part * (1 + horizon * delay)
        g[delay + 1] -= part * horizon * delay
    c = np.array([share + (1 - share) * (1 - beta1), -share * beta1])  # (z - b1) C(z)
    a = np.convolve(np.convolve([1, -1], [1, -beta1]), [1] + [0] * power)
    return a, np.concatenate([[0], np.convolve(g, c)])


def stable_range(beta1, mix, share, horizon):
    """The smallest x > 0 for which some z on the unit circle is a root.

    x = -A/B is real where A(z) B(1/z) - A(1/z) B(z) = 0: a polynomial whose roots numpy finds.
    """
    a, b = characteristic(beta1, mix, share, horizon)
    roots = np.roots(np.convolve(a, b[::-1]) - np.convolve(a[::-1], b))
    circle = roots[np.abs(np.abs(roots) - 1) < 1e-7]
    with np.errstate(divide="ignore", invalid="ignore"):  # B may have roots there: x is infinite
        x = -(np.polyval(a, circle) / np.polyval(b, circle)).real
    return min(x[x > 1e-9], default=math.inf)


@functools.cache
def matched(beta1, warmup, every, horizon=None):
    """(k, h) with the widest stable range; ties go to the smaller."""
    mix = delay_shares(warmup, every)
    best, best_range = (0.0, 0.0), 0.0
    for share, ahead in itertools.product(SHARES, HORIZONS if horizon is None else [horizon]):
        x = stable_range(beta1, mix, share, ahead)
        if x > best_range * (1 + 1e-9):
            best, best_range = (float(share), float(ahead)), x
    return best


def constants_of(case):
    """One for each stage."""
    found = []
    for hops in reversed(range(case.stages)):
        warmup = hops * (1 + case.extra)
        late = warmup > 0 and not case.synchronous
        share, horizon = case.gradient_share, 0.0
        if share is None and case.lookahead == "tentative" and not case.synchronous:
            share = 0.2 if case.stages > 1 else None
        if late and case.lookahead == "matched":
            share, horizon = matched(case.beta1, warmup, case.every, case.horizon)
        elif late and case.lookahead == "predict":
            horizon = 1.0 if case.horizon is None else case.horizon
        found.append(Constants(warmup, share, horizon))
    return found


def backwards_before(case, constants, m):
    """The number of backwards that the stage has done when the forward of microbatch m starts."""
    update = m // case.every
    flush = 0
    if case.synchronous:
        flush = update
    elif case.checkpoint_every:
        flush = update // case.checkpoint_every * case.checkpoint_every
    return flush * case.every + max(m - flush * case.every - constants.warmup, 0)


def version_of(case, constants, m):
    """The number of updates in the weights that the forward of microbatch m uses."""
    return backwards_before(case, constants, m) // case.every


def rate_factor(case, update):
    """Warm-up in equal steps, then half a cosine down to `final` at the last update."""
    if update < case.warmup:
        return (update + 1) / case.warmup
    peak = max(case.warmup - 1, 0)
    progress = (update - peak) / (case.updates - 1 - peak)
    return case.final + (1 - case.final) * (1 + math.cos(math.pi * progress)) / 2


def is_vector(name):
    return name.endswith(".bias") or name.endswith("norm.weight")


def is_matrix(name):
    return name.startswith("layers.") and not is_vector(name)


def nadam_mu(case, t):
    return case.beta1 * (1 - 0.5 * 0.96 ** (0.004 * t))


def orthogonalize(matrix):
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    return x.T if tall else x


@dataclasses.dataclass(frozen=True)
class State:
    """What an update starts from and what it leaves; every vector covers the whole stage."""

    weights: torch.Tensor
    last_update: torch.Tensor
    momentum: torch.Tensor
    variance: torch.Tensor
    mu_product: float = 1.0  # NAdamW's


class Stage:
    """A slice of the model with all of its past."""

    def __init__(self, case, constants, parameters):
        self.case, self.constants = case, constants
        self.sizes = {name: tensor.shape for name, tensor in parameters.items()}
        self.layers = sorted({int(n.split(".")[1]) for n in parameters if n.startswith("layers.")})
        start = self.join(parameters)
        zero = torch.zeros_like(start)
        self.past = [State(start, zero, zero, zero)]  # after n updates
        self.inside = {}  # what a merge inside the next update made of it, and after which backward
        self.gradients = []  # one per microbatch
        self.clip = case.clip
        self.decaying = self.mask(lambda name: not is_vector(name))
        self.matrices = self.mask(is_matrix).bool()

    def join(self, parameters):
        return torch.cat([tensor.flatten() for tensor in parameters.values()])

    def split(self, flat):
        parts = flat.split([size.numel() for size in self.sizes.values()])
        return {name: part.view(size) for (name, size), part in zip(self.sizes.items(), parts)}

    def mask(self, chosen):
        parts = [torch.full(size, float(chosen(name))) for name, size in self.sizes.items()]
        return torch.cat([part.flatten() for part in parts]).double()

    def state_for(self, m):
        """What the stage is when the forward of microbatch m starts."""
        version = version_of(self.case, self.constants, m)
        merge = self.merge_before(m)
        return self.past[version] if merge is None else self.inside[version][1]

    def merge_before(self, m):
        """The backwards before the merge inside an update that comes before the forward of m."""
        version = version_of(self.case, self.constants, m)
        if version not in self.inside:
            return None
        merge = version * self.case.every + self.inside[version][0]
        return merge if backwards_before(self.case, self.constants, m) >= merge else None

    def newest(self, version):
        """After its merges."""
        return self.inside[version][1] if version in self.inside else self.past[version]

    def weights_for(self, m):
        """The weights that the forward of microbatch m uses: only what is known when it starts."""
        version = version_of(self.case, self.constants, m)
        delay = m // self.case.every - version
        state = self.state_for(m)
        if self.case.lookahead == "tentative" and delay > 0:
            known = self.gradients[version * self.case.every : self.trial_end(m)]
            mean = torch.stack(known).mean(0)
            return self.step(version, clipped(mean, self.clip), state).weights
        return state.weights + self.constants.horizon * delay * state.last_update

    def trial_end(self, m):
        """The first microbatch whose gradient the trial step of m does not know.

        The W_s late forwards of an update are cut into `refresh` parts of equal length; those of a
        part share the trial step that the first of them takes; after a merge, the first of those
        that come after it.
        """
        warmup = self.constants.warmup
        parts = min(self.case.refresh or 2, warmup)
        late = m % self.case.every
        while (late - 1) * parts // warmup == late * parts // warmup:
            late -= 1
        return max(m - m % self.case.every + late - warmup, self.merge_before(m) or 0)

    def forward(self, flat, x):
        """Ids or activations in; activations or, after the head, logits out."""
        shape, w = self.case.shape, self.split(flat)
        if "embedding.weight" in w:
            time = x.shape[1]
            x = w["embedding.weight"][x]
            if shape.architecture == "gpt2":
                x = x + w["positions.weight"][:time]
        for layer in self.layers:
            at = f"layers.{layer}."
            normal = reference.norm(shape, w, at + "attention_norm", x)
            x = x + reference.attention(shape, w, at, normal)
            x = x + reference.mlp(shape, w, at, reference.norm(shape, w, at + "mlp_norm", x))
        if "head.weight" not in w:
            return x
        x = reference.norm(shape, w, "final_norm", x)
        return (x @ w["head.weight"].T).flatten(0, 1)

    def direction(self, rule, t, g, m, mu_product):
        """The direction of the rule's step, from gradient and momentum."""
        case, k = self.case, self.constants.share
        if k is not None:
            return k * g + (1 - k) * m / (1 - case.beta1**t)
        if rule == "adamw":
            return m / (1 - case.beta1**t)
        if rule == "nadamw":
            mu, mu_next = nadam_mu(case, t), nadam_mu(case, t + 1)
            return (1 - mu) / (1 - mu_product) * g + mu_next / (1 - mu_product * mu_next) * m
        nesterov = case.nesterov is not False or case.lookahead == "nesterov"
        return (1 - case.beta1) * g + case.beta1 * m if nesterov else m

    def step(self, version, g, state=None):
        """The state after the update that follows `version`."""
        case, t, state = self.case, version + 1, state or self.newest(version)
        factor = rate_factor(case, version)
        rate = case.rate * factor
        m = case.beta1 * state.momentum + (1 - case.beta1) * g
        v, root, mu_product = state.variance, 1.0, state.mu_product * nadam_mu(case, t)
        if case.rule != "sgd":
            v = case.beta2 * v + (1 - case.beta2) * g**2
            square = v / (1 - case.beta2**t)
            signal = torch.minimum(square, (m / (1 - case.beta1**t)) ** 2)
            root = (signal + case.noise_share * (square - signal)).sqrt() + case.epsilon
        rule = "adamw" if case.rule == "muon" else case.rule
        kept = (1 - rate * case.decay * self.decaying) * state.weights
        w = kept - rate * self.direction(rule, t, g, m, mu_product) / root
        if case.rule == "muon":
            direction = self.direction("muon", t, g, m, mu_product)
            stepped = self.muon_step(state.weights, direction, case.matrix_rate * factor)
            w, v = torch.where(self.matrices, stepped, w), v * ~self.matrices
        return State(w, w - state.weights, m, v, mu_product)

    def muon_step(self, weights, direction, rate):
        steps = self.split(direction)
        for name in filter(is_matrix, steps):
            rows, cols = self.sizes[name]
            steps[name] = math.sqrt(max(1.0, rows / cols)) * orthogonalize(steps[name])
        return (1 - rate * self.case.decay) * weights - rate * self.join(steps)


# Numbers in a block, and the largest integer.
INTEGERS = {"int8": (256, 127), "int4": (64, 7)}


def sent(wire, x):
    """What arrives of `x` at the next stage, or of its gradient at the one before."""
    if wire == "f32":
        return x
    if wire == "bf16":
        return x.bfloat16().to(x.dtype)
    numbers, most = INTEGERS[wire]
    arrived = []
    for block in x.flatten().split(numbers):
        scale = (block.abs().max() / most).float().to(x.dtype)
        codes = (block * (1 / scale)).clamp(-most, most).round()
        arrived.append(codes * scale if scale > 0 else torch.zeros_like(block))
    return torch.cat(arrived).view_as(x)


def sent_back(case, gradient):
    """The same of a gradient: what travels is its share of the update's."""
    return case.every * sent(case.hops, gradient / case.every)


class Hop(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, case):
        ctx.case = case
        return sent(case.hops, x)

    @staticmethod
    def backward(ctx, gradient):
        return sent_back(ctx.case, gradient), None


def gradients_with_stash(stages, m, ids, targets):
    """Loss, and gradients at exactly the weights that the forward used."""
    leaves = [stage.weights_for(m).requires_grad_() for stage in stages]
    x = ids
    for stage, leaf in zip(stages, leaves):
        x = stage.forward(leaf, x if stage is stages[0] else Hop.apply(x, stage.case))
    loss = reference.loss_of(x, targets)
    return loss.item(), torch.autograd.grad(loss, leaves)


def gradients_without_stash(stages, m, ids, targets):
    """Every stage runs its backward on its newest weights, from the input of its forward."""
    inputs = [ids]
    case = stages[0].case
    with torch.no_grad():
        for stage in stages:
            made = stage.forward(stage.weights_for(m), inputs[-1])
            inputs.append(made if stage is stages[-1] else sent(case.hops, made))
    loss = reference.loss_of(inputs.pop(), targets).item()
    upstream, gradients = None, []
    for stage, x in zip(reversed(stages), reversed(inputs)):
        leaf = stage.past[-1].weights.detach().requires_grad_()
        wanted = [leaf] if x is ids else [leaf, x.requires_grad_()]
        y = stage.forward(leaf, x)
        if stage is stages[-1]:
            y = reference.loss_of(y, targets)
        gradient, *rest = torch.autograd.grad(y, wanted, upstream)
        upstream = sent_back(case, rest[0]) if rest else None
        gradients.insert(0, gradient)
    return loss, gradients


def clipped(gradient, limit, square=None):
    """`square`: the squared norm to clip by, if it is not the gradient's own."""
    square = gradient.square().sum().item() if square is None else square
    return gradient * min(1.0, limit / (math.sqrt(square) + 1e-6)) if limit else gradient


class Pipeline:
    """All stages of a replica; takes one update at a time."""

    def __init__(self, case, constants, slices, ids, targets):
        """`slices` are the initial weights by name, one for each stage."""
        self.case, self.ids, self.targets = case, ids, targets
        self.stages = [Stage(case, c, parameters) for c, parameters in zip(constants, slices)]
        self.losses = []  # one per update
        count = sum(stage.decaying.numel() for stage in self.stages)
        for stage in self.stages:  # by its own norm, unless stages wait for the global one
            whole = case.synchronous or case.clip_stages == "whole"
            share = 1.0 if whole else stage.decaying.numel() / count
            stage.clip = case.clip * math.sqrt(share)

    def gradients(self):
        """Gradients of the next update: the mean over its microbatches, for each stage."""
        case, n = self.case, len(self.losses)
        gradients_of = gradients_with_stash if case.stash else gradients_without_stash
        self.losses.append(0.0)
        for m in range(n * case.every, (n + 1) * case.every):
            loss, gradients = gradients_of(self.stages, m, self.ids[m], self.targets[m])
            self.losses[-1] += loss / case.every
            for stage, gradient in zip(self.stages, gradients):
                stage.gradients.append(gradient)
        return [torch.stack(stage.gradients[-case.every :]).mean(0) for stage in self.stages]

    def update(self, gradients):
        total = sum(gradient.square().sum().item() for gradient in gradients)
        for stage, gradient in zip(self.stages, gradients):
            square = total if self.case.synchronous else None
            state = stage.step(len(stage.past) - 1, clipped(gradient, stage.clip, square))
            stage.past.append(state)


def train(case, constants, slices, ids, targets):
    """Stages with their whole past, and the losses."""
    pipeline = Pipeline(case, constants, slices, ids, targets)
    for _ in range(case.updates):
        pipeline.update(pipeline.gradients())
    return pipeline.stages, torch.tensor(pipeline.losses, dtype=torch.float64)
