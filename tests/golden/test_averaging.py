"""Sixty updates of several replicas, under either driver, match the equations of averaging:
averaging_reference.py, in fp64, on the same data from the same weights.

`make test` runs selected cases in which every pair of settings occurs; LEEWAY_REPLICAS=2 (or 3)
in the environment runs all combinations of what merging depends on, with this many replicas.
"""

import dataclasses
import os

import pytest
import torch

import averaging_reference as averaging
import delayed_reference as delayed
from averaging_cases import PIPELINES, Replicas, case_of, few_rows, many_rows, name_of
from pipeline_cases import OPTIMIZERS
from pipeline_comparison import (
    Ours,
    assert_constants,
    assert_delays,
    assert_equal,
    assert_predictions,
    error_of,
    tolerance_of,
)

REPLICAS = os.environ.get("LEEWAY_REPLICAS")


def views_of(ours):
    return [ours.replica(r) for r in range(ours.case.replicas)]


def subsets_of(ours, prefix, case):
    """The coordinates of each round, for each stage, checked."""
    found = []
    for s, parameters in enumerate(ours.replica(0).slices()):
        found.append([ours[f"{prefix}/{s}/{k}"] for k in range(case.rounds)])
        averaging.assert_cut(case, found[-1], sum(t.numel() for t in parameters.values()))
    return found


def start_of(ours):
    """What the emulation starts from, after checking that the replicas agree on it."""
    case, views = ours.case, views_of(ours)
    for view in views[1:]:
        for name, tensor in views[0].under("initial").items():
            assert torch.equal(view[name], tensor), f"replicas start with different {name}"
    return averaging.Start(
        slices=views[0].slices(),
        ids=[view["ids"] for view in views],
        targets=[view["targets"] for view in views],
        subsets=subsets_of(ours, "subset", case) if case.method == "sparse" else None,
    )


def emulate(ours, **mistakes):
    """The same case, or one with mistakes: pipelines, and the averagers of each stage."""
    case = dataclasses.replace(ours.case, **mistakes)
    return averaging.train(case, delayed.constants_of(case), start_of(ours))


def assert_replicas(ours, pipelines):
    """Losses, final weights and moments of all; returns the worst error."""
    errors = []
    for view, pipeline in zip(views_of(ours), pipelines):
        losses = torch.tensor(pipeline.losses, dtype=torch.float64)
        errors.append(assert_equal(view, pipeline.stages, losses))
    return max(errors)


def assert_buffers(ours, averagers):
    """What averaging keeps between rounds, as the last checkpoint has it."""
    for r, view in enumerate(views_of(ours)):
        for s, of_stage in enumerate(averagers):
            prefix = f"saved/{ours.case.updates}/{s}/averaging_"
            expected = {}
            for averager in reversed(of_stage):  # the first one has buffers, if any has
                expected |= averager.buffers(r)
            for name, tensor in view.under("saved").items():
                buffer = name.removeprefix(prefix)
                if buffer in (name, "residual"):  # which is complete only once all have answered
                    continue
                if buffer == "flight":  # nothing is under way
                    assert tensor.abs().max() < 1e-9
                    continue
                error = error_of(tensor, expected[buffer])
                assert error <= tolerance_of(ours.case), f"{name} of replica {r}: {error:.1e}"


def assert_moved(pipelines):
    """What was compared was training."""
    for stage in pipelines[0].stages:
        first, last = stage.past[0].weights, stage.past[-1].weights
        assert (last - first).norm() > 1e-4 * first.norm()  # `none` with a lag loses nearly all


def compare(folder, case):
    """Everything that can be compared; returns both sides."""
    ours = Ours(folder, case)
    constants = delayed.constants_of(case)
    pipelines, averagers = emulate(ours)
    print("worst error", assert_replicas(ours, pipelines))  # pytest -rP shows it
    for view, pipeline in zip(views_of(ours), pipelines):
        assert_constants(view, constants)
        assert_delays(view, constants)
        assert_predictions(view, pipeline.stages)
    assert_buffers(ours, averagers)
    assert_moved(pipelines)
    return ours, pipelines


@pytest.mark.parametrize("row", many_rows(int(REPLICAS)) if REPLICAS else few_rows(), ids=name_of)
def test_replicas_equal_the_equations(tmp_path, row):
    compare(tmp_path, case_of(row))


@pytest.mark.skipif(REPLICAS != "2", reason="slow: runs with LEEWAY_REPLICAS=2 only")
def test_the_running_mean_gets_longer_after_a_thousand_rounds(tmp_path):
    case = Replicas(fraction=0.05, correction="ema", lag=2, updates=1100, **OPTIMIZERS["sgd"])
    compare(tmp_path, dataclasses.replace(case, optimizer="sgd"))


WEIGHTS = {"method": "weights", "correction": "none"}
DILOCO = {"method": "diloco", "outer_rate": 0.7, "outer_momentum": 0.9}
OTHERS = {
    "weights-adamw-R3": Replicas(replicas=3, **WEIGHTS, **PIPELINES["none"]),
    "weights-muon-every3": Replicas(optimizer="muon", interval=3, driver="sim", **WEIGHTS),
    "diloco-muon-lag0": Replicas(optimizer="muon", interval=5, **DILOCO, **PIPELINES["tentative"]),
    "diloco-adamw-lag10": Replicas(interval=11, lag=10, driver="sim", **DILOCO),
    "diloco-ema-R3": Replicas(replicas=3, interval=7, lag=3, correction="ema", **DILOCO),
    "allreduce-muon-tentative": Replicas(
        optimizer="muon", method="allreduce", clip=0.5, **PIPELINES["tentative"]
    ),
    "allreduce-adamw-predict": Replicas(
        replicas=3, method="allreduce", clip=0.5, driver="sim", **PIPELINES["predict"]
    ),
    "allreduce-sgd-1f1b": Replicas(
        optimizer="sgd", method="allreduce", clip=0.5, decay=0.1, **PIPELINES["1f1b"]
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_methods_equal_the_equations(tmp_path, name):
    case = OTHERS[name]
    compare(tmp_path, dataclasses.replace(case, updates=30, **OPTIMIZERS[case.optimizer]))


FLUSHED = {
    "ema-lag10": Replicas(fraction=0.05, correction="ema", outer_momentum=0.5, lag=10),
    "delta-lag1": Replicas(lag=1, interval=3, driver="sim", **PIPELINES["predict"]),
    "lowbit-lag10": Replicas(replicas=3, method="lowbit", lag=10),
    "ternary-lag1": Replicas(
        method="lowbit", wire="ternary", lag=1, smoothing=0.95, **PIPELINES["tentative"]
    ),
    "ternary-lag0": Replicas(method="lowbit", wire="ternary", **PIPELINES["1f1b"]),
    "ternary-lag0.667": Replicas(
        method="lowbit", wire="ternary", lag=0.667, smoothing=0.95, **PIPELINES["tentative"]
    ),
    "ema-lag2.5": Replicas(
        fraction=0.05, correction="ema", outer_momentum=0.5, lag=2.5, **PIPELINES["predict"]
    ),
}


@pytest.mark.parametrize("name", FLUSHED)
def test_a_checkpoint_merges_what_is_in_flight(tmp_path, name):
    case = dataclasses.replace(FLUSHED[name], updates=33, checkpoint_every=12)
    ours, pipelines = compare(tmp_path, case)
    for view, pipeline in zip(views_of(ours), pipelines):
        for update in (12, 24, 33):
            for s, stage in enumerate(pipeline.stages):
                weights = view[f"saved/{update}/{s}/weights"]
                error = error_of(weights, stage.past[update].weights)
                assert error <= tolerance_of(case), f"stage {s} at update {update}: {error:.1e}"


SAME_BATCH = {
    "1f1b-adamw": Replicas(clip=0.5, decay=0.1, **PIPELINES["1f1b"]),
    "predict-muon": Replicas(optimizer="muon", clip=0.5, **PIPELINES["predict"]),
    "none-sgd": Replicas(optimizer="sgd", driver="sim", **PIPELINES["none"]),
}


@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("name", SAME_BATCH)
def test_averaged_gradients_are_those_of_a_larger_batch(tmp_path, name, replicas):
    """Compares our R replicas with our single one that reads R times the sequences."""
    case = SAME_BATCH[name]
    changes = {"method": "allreduce", "replicas": replicas, **OPTIMIZERS[case.optimizer]}
    many = Ours(tmp_path, dataclasses.replace(case, **changes))
    views = views_of(many)
    one = Ours(tmp_path, many.case.whole_batch)
    for read in ("ids", "targets"):
        assert torch.equal(torch.cat([view[read] for view in views], 1), one[read])
    losses = averaging.mean_of(view["losses"] for view in views)
    assert error_of(losses, one["losses"]) <= tolerance_of(many.case)
    for view in views:
        for tensor_name, tensor in (one.under("final") | one.under("momentum")).items():
            assert error_of(view[tensor_name], tensor) <= tolerance_of(many.case), tensor_name


@pytest.mark.parametrize("pipeline", ["P1", "none", "1f1b"])
def test_one_step_of_sgd_makes_weights_and_gradients_the_same(tmp_path, pipeline):
    plain = {"optimizer": "sgd", "rate": 0.3, "beta1": 0.0, "nesterov": False, "decay": 0.1}
    case = Replicas(replicas=3, **WEIGHTS, **plain, **PIPELINES[pipeline])
    weights = Ours(tmp_path, case)
    gradients = Ours(tmp_path, dataclasses.replace(case, method="allreduce"))
    for one, other in zip(views_of(weights), views_of(gradients)):
        for name, tensor in (other.under("final") | other.under("losses")).items():
            assert error_of(one[name], tensor) <= tolerance_of(case), name


WATCHED = {
    "sparse": Replicas(
        fraction=0.05, correction="ema", outer_momentum=0.5, lag=3, interval=2, granularity=7
    ),
    "flushed": Replicas(lag=2, interval=3, checkpoint_every=10),
    "lowbit": Replicas(
        method="lowbit", lag=3, smoothing=0.5, gain=0.5, gain_smoothing=0.5, second_moment="mean"
    ),
    "ternary": Replicas(method="lowbit", wire="ternary", threshold=1.6, lag=3, replicas=3),
    "allreduce": Replicas(method="allreduce", **PIPELINES["1f1b"], clip=0.5),
}
MISTAKES = {
    "lag": ("sparse", {"lag": 4}),
    "correction": ("sparse", {"correction": "delta"}),
    "no correction": ("sparse", {"correction": "none"}),
    "running mean": ("sparse", {"ema_start": 0.501}),
    "outer rate": ("sparse", {"outer_rate": 0.999}),
    "outer momentum": ("sparse", {"outer_momentum": 0.501}),
    "never merged": ("sparse", {"interval": 1000}),
    "never flushed": ("flushed", {"checkpoint_every": 0}),
    "interval": ("flushed", {"interval": 2}),
    "smoothing": ("lowbit", {"smoothing": 0.501}),
    "gain": ("lowbit", {"gain": 0.501}),
    "smooth gain": ("lowbit", {"gain_smoothing": 0.501}),
    "lowbit lag": ("lowbit", {"lag": 2}),
    "second moment": ("lowbit", {"second_moment": "own"}),
    "wire": ("ternary", {"wire": "f32"}),
    "threshold": ("ternary", {"threshold": 1.61}),
    "gradients": ("allreduce", {"method": "weights", "correction": "none"}),
}


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """Short runs that agree."""
    runs = {}
    for name, case in WATCHED.items():
        case = dataclasses.replace(case, updates=24)
        runs[name] = Ours(tmp_path_factory.mktemp(name), case)
        assert_replicas(runs[name], emulate(runs[name])[0])
    return runs


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_comparison_notices(watched, mistake):
    """Tests the comparison itself: an emulation with a mistake must not agree."""
    name, wrong = MISTAKES[mistake]
    pipelines, _ = emulate(watched[name], **wrong)
    with pytest.raises(AssertionError, match="tensors are beyond"):
        assert_replicas(watched[name], pipelines)
