"""Replicas that do not wait for each other, and messages that are lost or come twice: what `lowbit`
makes of their steps matches its equations (averaging_reference.py), in fp64. The run says who did
what, in which order; weights, answers and losses are computed anew."""

import collections

import pytest

import averaging_reference as averaging
import delayed_reference as delayed
from averaging_cases import Replicas
from pipeline_comparison import Ours, error_of, tolerance_of
from test_averaging import assert_moved, assert_replicas, start_of

KINDS = {0: "contribute", 1: "reduce", 2: "merge"}
ARRIVAL = {"method": "lowbit", "merge": "on_arrival", "lag": "auto", "driver": "sim"}
SOON = {"deadline_ms": 0.004}  # an update takes 3 to 7 microseconds: answers without the slow
SMOOTH = {"smoothing": 0.5, "gain": 0.5, "gain_smoothing": 0.5}

CASES = {
    "alternating": (Replicas(replicas=2, wire="ternary", **SOON, **ARRIVAL), {}),
    "alternating exact": (Replicas(replicas=3, **SOON, **ARRIVAL), {}),
    "late": (Replicas(replicas=3, wire="ternary", deadline_ms=0.001, **ARRIVAL), {"twice": 0.2}),
    "missing": (Replicas(replicas=3, wire="ternary", **SOON, **ARRIVAL), {"lost": 0.15}),
    "smooth": (Replicas(replicas=3, wire="ternary", **SOON, **SMOOTH, **ARRIVAL), {"lost": 0.05}),
    "seldom": (Replicas(replicas=2, interval=3, **SOON, **ARRIVAL), {"lost": 0.1, "twice": 0.1}),
}


def history_of(ours):
    """What the run did: rows, and what each answer has in it."""
    rows = [(KINDS[kind], *row) for kind, *row in ours["rounds"].tolist()]
    parts = collections.defaultdict(list)
    for chunk, answer, replica, number in ours["parts"].tolist():
        parts[chunk, answer].append((replica, number))
    return rows, parts


def chunks_of(ours):
    ends = ours["chunks"].cumsum(0).tolist()
    return [slice(begin, end) for begin, end in zip([0, *ends], ends)]


def emulate(ours):
    history, constants = history_of(ours), delayed.constants_of(ours.case)
    return averaging.train_on_arrival(
        ours.case, constants, start_of(ours), *history, chunks_of(ours)
    )


@pytest.mark.parametrize("name", CASES)
def test_what_arrives_when_it_arrives_equals_the_equations(tmp_path, name):
    case, faults = CASES[name]
    ours = Ours(tmp_path, case, **faults)
    rows, parts = history_of(ours)
    contributors = [{replica for replica, _ in inside} for inside in parts.values()]
    assert any(len(those) < case.replicas for those in contributors), "some were not waited for"
    if faults.get("lost"):
        sent = sum(kind == "contribute" for kind, *_ in rows) * len(chunks_of(ours))
        assert sum(len(inside) for inside in parts.values()) < sent, "some were lost"
    pipelines, members = emulate(ours)
    print("worst error", assert_replicas(ours, pipelines))
    assert_moved(pipelines)
    assert_one_model(case, pipelines, members)


def assert_one_model(case, pipelines, members):
    """Everybody ends with the same X. Without a gain it is the mean of all steps, each once,
    however often a replica has contributed."""
    for member in members:
        assert not any(member.under_way) and member.applied == members[0].applied
        assert error_of(member.common, members[0].common) < tolerance_of(case)
    if case.gain:
        return
    done = [sum(state.last_update for state in p.stages[0].past[1:]) for p in pipelines]
    expected = pipelines[0].stages[0].past[0].weights + averaging.mean_of(done)
    assert error_of(members[0].common, expected) < 1e-10


