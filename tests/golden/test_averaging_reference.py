"""Tests the emulation that test_averaging.py trusts: what must hold for any implementation, on
random walks and on a tiny model, without ours."""

import dataclasses
import itertools
import math
import random

import pytest
import torch

import averaging_reference as averaging
import delayed_reference as delayed
import model_reference as reference
from averaging_cases import PIPELINES, Replicas
from pipeline_cases import OPTIMIZERS

PARAMETERS = 5000
EXACT = 1e-12


def random_cut(case, parameters, rounds, seed=3):
    """Subsets by the same rule, with another hash."""
    draw = random.Random(seed)
    parts, length = math.ceil(1 / case.fraction), case.granularity
    groups = math.ceil(parameters / length / parts)
    subsets = []
    for k in range(rounds):
        if k % parts == 0:
            turns = [draw.randrange(parts) for _ in range(groups)]
        runs = [q * parts + (k % parts + turn) % parts for q, turn in enumerate(turns)]
        subset = torch.cat([torch.arange(run * length, (run + 1) * length) for run in runs])
        subsets.append(subset[subset < parameters])
    return subsets


# --- Random walks instead of training ------------------------------------------------------------


@dataclasses.dataclass
class Walker:
    """What averaging sees of a replica's stage."""

    past: list

    def step(self, update):
        weights = self.past[-1].weights + update
        self.past.append(delayed.State(weights, update, None, None))


def walk(case, seed=7, parameters=PARAMETERS, watch=lambda averager, walkers, before: None):
    """Merges among walkers; `watch` sees the weights before and after each."""
    generator = torch.Generator().manual_seed(seed)

    def normal(scale):
        return scale * torch.randn(parameters, generator=generator, dtype=torch.float64)

    start = delayed.State(normal(1.0), normal(0.0), None, None)
    walkers = [Walker([start]) for _ in range(case.replicas)]
    subsets = random_cut(case, parameters, case.rounds)
    averagers = averaging.averagers_of(case, walkers, subsets)
    for n in range(1, case.updates + 1):
        common = normal(0.01)
        for walker in walkers:
            walker.step(common + normal(0.01))
        for averager in averagers:
            before = [walker.past[n].weights for walker in walkers]
            averager.boundary(n)
            watch(averager, walkers, before)
    return walkers, averagers


def newest(walkers):
    return [walker.past[-1].weights for walker in walkers]


def distance(one, other):
    return (one - other).norm().item() / other.norm().item()


@pytest.mark.parametrize("correction", ["none", "delta", "ema"])
@pytest.mark.parametrize("outer", [{}, {"outer_rate": 0.7, "outer_momentum": 0.9}], ids=str)
def test_all_weights_at_once_leave_replicas_equal(correction, outer):
    case = Replicas(replicas=3, correction=correction, **outer)
    equal = []

    def watch(_, walkers, before):
        equal.append(all(torch.equal(w, newest(walkers)[0]) for w in newest(walkers)))
        assert distance(before[0], before[1]) > 1e-3

    walk(case, watch=watch)
    assert equal == [True] * case.updates


@pytest.mark.parametrize("fraction", [1.0, 0.05])
@pytest.mark.parametrize("lag, interval", [(0, 1), (1, 1), (1, 3), (10, 20)])
def test_delta_keeps_the_mean_and_brings_replicas_closer(fraction, lag, interval):
    case = Replicas(replicas=3, fraction=fraction, lag=lag, interval=interval, updates=120)

    def watch(_, walkers, before):
        assert distance(averaging.mean_of(newest(walkers)), averaging.mean_of(before)) < EXACT

    walkers, _ = walk(case, watch=watch)
    alone, _ = walk(dataclasses.replace(case, interval=10**6))
    spread = [(w[0] - w[1]).norm() for w in (newest(walkers), newest(alone))]
    assert spread[0] < 0.99 * spread[1]


@pytest.mark.parametrize("lag", [1, 10])
def test_without_correction_own_steps_are_lost(lag):
    walkers, _ = walk(Replicas(lag=lag, interval=20, correction="none", updates=20 + lag))
    then = averaging.mean_of(walker.past[20].weights for walker in walkers)
    for walker in walkers:
        assert torch.equal(walker.past[-1].weights, then)


@pytest.mark.parametrize("lag, fraction", [(1, 1.0), (10, 0.05)])
def test_a_running_mean_of_one_step_is_delta(lag, fraction):
    case = Replicas(lag=lag, fraction=fraction, correction="delta")
    forgetful = dataclasses.replace(case, correction="ema", ema_start=0.0)
    lasting = dataclasses.replace(case, correction="ema", ema_start=0.5)
    delta, ema, half = (newest(walk(c)[0])[1] for c in (case, forgetful, lasting))
    assert distance(ema, delta) < EXACT < 1e-4 < distance(half, delta)


def test_the_constant_of_the_running_mean():
    case = Replicas(updates=6003, interval=3, ema_start=0.4, ema_end=0.9)
    assert [averaging.ema_constant(case, k) for k in (0, 999, 1000)] == [0.4, 0.4, 0.4]
    assert averaging.ema_constant(case, 1500) == pytest.approx(0.65)
    assert averaging.ema_constant(case, 2000) == pytest.approx(0.9)


def test_the_outer_optimizer_by_hand():
    """One coordinate, sent as 9, then 7, from 10; rate 0.5, momentum 0.5."""
    stage = Walker([delayed.State(torch.tensor([10.0]), torch.tensor([0.0]), None, None)])
    case = Replicas(replicas=1, outer_rate=0.5, outer_momentum=0.5)
    weights = averaging.Weights(case, [stage], [slice(None)] * 2)
    # g = 1, b = 1, x = 10 - 0.5 (1 + 0.5); g = 9.25 - 7, b = 0.5 + 2.25, x = 9.25 - ...
    assert weights.outer_step(slice(None), torch.tensor([9.0])).item() == pytest.approx(9.25)
    assert weights.outer_step(slice(None), torch.tensor([7.0])).item() == pytest.approx(7.4375)


def test_a_follower_lands_on_the_mean_by_hand():
    """As in merge_test.cpp: weights 2 at an old anchor, outer momentum 4, e = 8, A = 10."""
    stage = Walker([delayed.State(torch.full((3,), 2.0), torch.zeros(3), None, None)])
    case = Replicas(replicas=1, correction="ema", ema_start=0.5, outer_momentum=0.5)
    weights = averaging.Weights(case, [stage], [])
    weights.outer[:], weights.ema[0][:] = 4.0, 8.0
    weights.follow(0, 0, slice(0, 2), torch.full((2,), 10.0))
    assert stage.past[-1].weights.tolist() == [10.0, 10.0, 2.0]
    assert weights.anchor.tolist() == [10.0, 10.0, 2.0]
    assert weights.outer.tolist() == [0.0, 0.0, 4.0]
    assert weights.ema[0].tolist() == [4.0, 4.0, 8.0]


@pytest.mark.parametrize("lag", [0, 1, 10])
def test_exact_steps_are_shared_once_they_are_merged(lag):
    case = Replicas(replicas=3, method="lowbit", lag=lag)
    walkers, _ = walk(case)
    for walker in walkers:
        expected = walker.past[0].weights.clone()
        for n in range(1, case.updates + 1):
            expected += averaging.mean_of([w.past[n].last_update for w in walkers])
        assert distance(walker.past[-1].weights, expected) < EXACT


@pytest.mark.parametrize("lag, interval", [(0, 1), (1, 1), (3, 3), (2, 5)])
def test_exact_steps_are_delta_if_no_two_rounds_are_in_flight(lag, interval):
    delta = Replicas(replicas=3, lag=lag, interval=interval)
    steps = dataclasses.replace(delta, method="lowbit")
    for one, other in zip(newest(walk(delta)[0]), newest(walk(steps)[0])):
        assert distance(one, other) < EXACT


SMOOTH = {"smoothing": 0.95, "gain": 1.0, "gain_smoothing": 0.95}


@pytest.mark.parametrize("changes", [{}, SMOOTH, {"interval": 3}], ids=str)
def test_in_few_bits_nothing_is_lost(changes):
    """The mean of all steps is in answers, in the residual, or yet to be sent; at the end, in X."""
    case = Replicas(replicas=3, method="lowbit", wire="ternary", lag=10, **changes)
    start = None
    answers = []

    class Watched(averaging.Steps):
        def contribute(self, n, exact):
            super().contribute(n, exact)
            answers.append(self.sent[n][1])

    def watch(steps, walkers, _):
        nonlocal start
        start = walkers[0].past[0].weights if start is None else start
        done = averaging.mean_of(sum(s.last_update for s in w.past) for w in walkers)
        unsent = averaging.mean_of(own - under for own, under in zip(steps.own, steps.flight))
        assert distance(sum(answers) + steps.residual + unsent, done) < EXACT
        if not case.gain:
            merged = sum(answers) - sum(answer for _, answer in steps.sent.values())
            assert (steps.common - start - merged).norm() < EXACT

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(averaging, "Steps", Watched)
        walkers, (steps,) = walk(case, watch=watch)
    assert all(own.norm() < EXACT for own in steps.own) and steps.residual.norm() < EXACT
    if not changes.get("smoothing"):
        assert all(distance(weights, steps.common) < EXACT for weights in newest(walkers))


@pytest.mark.parametrize("threshold", [0.6, 1.9, 9])
def test_ternary_numbers(threshold):
    case = Replicas(replicas=2, method="lowbit", wire="ternary", threshold=threshold)
    values = torch.randn(10000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    values[512:1024] = 0
    found = averaging.compressed(case, values)
    for begin in range(0, 10000, 512):
        block, of_block = values[begin : begin + 512], found[begin : begin + 512]
        limit = threshold * math.sqrt(sum(x * x for x in block.tolist()) / len(block))
        limit = min(limit, 0.8 * max(abs(x) for x in block.tolist())) or math.inf
        kept = [abs(x) for x in block.tolist() if abs(x) >= limit]
        scale = sum(kept) / len(kept) if kept else 0.0
        expected = [math.copysign(scale, x) if abs(x) >= limit else 0.0 for x in block.tolist()]
        assert of_block.tolist() == pytest.approx(expected, rel=2**-8)
        assert torch.equal(of_block.bfloat16().double(), of_block)


@pytest.mark.parametrize("lag", [0, 1, 10])
@pytest.mark.parametrize("method", ["sparse", "lowbit"])
def test_a_checkpoint_merges_what_is_in_flight(method, lag):
    """Nothing is merged later than the next checkpoint, and nothing is lost."""
    case = Replicas(method=method, lag=lag, interval=2, checkpoint_every=12, updates=36)
    merges = []

    def watch(_, walkers, before):
        merges.append(any(not torch.equal(a, b) for a, b in zip(newest(walkers), before)))

    walkers, averagers = walk(case, watch=watch)
    merged_at = {n for n, merge in enumerate(merges, 1) if merge}
    assert merged_at == {min(n + lag, -(-n // 12) * 12) for n in range(2, 37, 2)}
    if method == "lowbit":
        (steps,) = averagers
        assert not steps.sent


def test_a_cut_is_checked():
    case = Replicas(fraction=0.05, granularity=7)
    good = random_cut(case, PARAMETERS, 50)
    averaging.assert_cut(case, good, PARAMETERS)
    shifted = [(subset + 1) % PARAMETERS for subset in good]
    for bad in (good[1:], good[:20] + good[:1] * 20, shifted, [good[0][:-1], *good[1:]]):
        with pytest.raises(AssertionError):
            averaging.assert_cut(case, bad, PARAMETERS)


# --- A tiny model --------------------------------------------------------------------------------


def made_up_start(case, seed=1, same_data=False):
    """Weights, data and subsets as our side would give them."""
    shape, generator = case.shape, torch.Generator().manual_seed(seed)
    slices = [{} for _ in range(case.stages)]
    for name, tensor in reference.random_weights(shape, torch.float64).items():
        layer = int(name.split(".")[1]) if name.startswith("layers.") else 0
        at_end = name in ("final_norm.weight", "final_norm.bias", "head.weight")
        stage = case.stages - 1 if at_end else layer * case.stages // shape.layers
        slices[stage][name] = tensor
    size = (case.updates * case.every, case.batch // case.every, shape.context)
    ids = [torch.randint(shape.vocabulary, size, generator=generator) for _ in range(case.replicas)]
    if same_data:
        ids = ids[:1] * case.replicas
    counts = [sum(t.numel() for t in s.values()) for s in slices]
    return averaging.Start(
        slices=slices,
        ids=ids,
        targets=[(3 * read + 1) % shape.vocabulary for read in ids],
        subsets=[random_cut(case, count, case.rounds) for count in counts],
    )


def trained(case, start):
    return averaging.train(case, delayed.constants_of(case), start)[0]


def worst(ones, others):
    """The largest error of any stage's weights, over two lists of pipelines."""
    pairs = [zip(a.stages, b.stages) for a, b in zip(ones, others)]
    return max(
        distance(a.past[-1].weights, b.past[-1].weights) for a, b in itertools.chain(*pairs)
    )


SHORT = {"updates": 12, "warmup": 2}


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("method", ["sparse", "lowbit", "weights", "allreduce"])
def test_replicas_that_read_the_same_are_one(pipeline, method):
    case = Replicas(method=method, lag=2, clip=0.5, **SHORT, **PIPELINES[pipeline])
    if method == "weights":
        case = dataclasses.replace(case, lag=0, correction="none")
    start = made_up_start(case, same_data=True)
    pipelines = trained(case, start)
    constants = delayed.constants_of(case)
    stages, losses = delayed.train(case, constants, start.slices, start.ids[0], start.targets[0])
    for pipeline in pipelines:
        assert pipeline.losses == pytest.approx(losses.tolist(), rel=1e-9)
        for stage, alone in zip(pipeline.stages, stages):
            assert distance(stage.past[-1].weights, alone.past[-1].weights) < 1e-9


@pytest.mark.parametrize("pipeline", ["none", "predict", "1f1b"])
def test_averaged_gradients_are_those_of_a_larger_batch(pipeline):
    case = Replicas(method="allreduce", clip=0.5, **SHORT, **PIPELINES[pipeline])
    start = made_up_start(case)
    whole = dataclasses.replace(
        start, ids=[torch.cat(start.ids, 1)], targets=[torch.cat(start.targets, 1)]
    )
    one = trained(dataclasses.replace(case, replicas=1), whole)
    many = trained(case, start)
    assert worst(many, one * 2) < 1e-9
    losses = averaging.mean_of(torch.tensor(p.losses, dtype=torch.float64) for p in many)
    assert losses.tolist() == pytest.approx(one[0].losses, rel=1e-9)


@pytest.mark.parametrize("pipeline", ["P1", "none", "1f1b"])
def test_one_step_of_sgd_makes_weights_and_gradients_the_same(pipeline):
    plain = {"optimizer": "sgd", "rate": 0.3, "beta1": 0.0, "nesterov": False, "decay": 0.1}
    weights = Replicas(method="weights", correction="none", **plain, **SHORT, **PIPELINES[pipeline])
    start = made_up_start(weights)
    gradients = dataclasses.replace(weights, method="allreduce")
    assert worst(trained(weights, start), trained(gradients, start)) < 1e-9


METHODS = {
    "none": {"correction": "none"},
    "delta": {},
    "ema": {"correction": "ema"},
    "delta-outer": {"outer_momentum": 0.5},
    "lowbit": {"method": "lowbit"},
    "lowbit-smooth": {"method": "lowbit", "smoothing": 0.95},
    "lowbit-gain": {"method": "lowbit", "gain": 1.0, "gain_smoothing": 0.95},
    "ternary": {"method": "lowbit", "wire": "ternary"},
    "weights": {"method": "weights", "lag": 0, "correction": "none"},
    "later": {"lag": 3},
    "seldom": {"interval": 3},
    "parts": {"fraction": 0.05},
    "checkpoints": {"checkpoint_every": 3},
    "allreduce": {"method": "allreduce"},
}


@pytest.mark.parametrize("optimizer", ["adamw", "muon", "sgd"])
def test_every_method_is_different(optimizer):
    """Otherwise their equations could be mixed up and the comparison would not notice."""
    changes = {"optimizer": optimizer, "lag": 2, "clip": 0.5, **SHORT, **OPTIMIZERS[optimizer]}
    cases = {name: Replicas(**changes | method) for name, method in METHODS.items()}
    runs = {name: trained(case, made_up_start(case)) for name, case in cases.items()}
    for one, other in itertools.combinations(runs, 2):
        error = worst(runs[one], runs[other])
        assert error > 1e-6, f"{one} and {other} differ only by {error:.1e}"
