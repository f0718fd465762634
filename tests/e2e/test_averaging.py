"""Replicas with the real binary: what is planned, sent and printed, and that it is repeatable."""

import csv
import json

import pytest
from fleets import PATIENT
from test_nothing_lost import LONG, end, training

CYCLE = 4  # rounds, with a quarter of the weights in each
MESH = {"mesh__stages": 2, "mesh__replicas": 2}
# One round after every update, three whole cycles; the last one is merged at once.
FIXED = {
    **MESH, "averaging__merge": "fixed_lag", "averaging__lag": 1, "averaging__fraction": 1 / CYCLE,
    "run__updates": 3 * CYCLE,
}  # fmt: skip
ARRIVAL = {**MESH, "averaging__merge": "on_arrival"}


def allreduce(summary):
    replicas, updates = summary["replicas"], summary["updates"]
    return 2 * (replicas - 1) * summary["parameters"] * 4 * updates


@pytest.mark.parametrize("replicas", [2, 3])
def test_what_is_sent_is_the_formula_to_the_byte(place, replicas):
    summary = place.train("r", *place.sets(**{**FIXED, "mesh__replicas": replicas}))
    assert summary["replicas"] == replicas and summary["rounds"] == 3 * CYCLE
    # In a cycle every weight goes to its owner and comes back, except the owner's own.
    assert summary["bytes_averaging"] == 2 * (replicas - 1) * 3 * summary["parameters"] * 4
    assert summary["bytes_allreduce"] == allreduce(summary)
    assert isinstance(summary["bytes_allreduce"], int)
    assert summary["lag_mean"] == pytest.approx(1 - 1 / (3 * CYCLE)) and summary["lag_max"] == 1
    assert 0 < summary["consensus"] < 0.5
    for key in ("contributions_late", "contributions_missing", "answers_missed", "rounds_dropped"):
        assert summary[key] == 0, key
    assert summary["tokens"] == summary["updates"] * 4 * 32 * replicas
    # Copies of the weights at update 12 (the final model: fp32), plus the activations of
    # validation; copies at update 6 (bf16) only if the recipe asks for them.
    copies = (replicas - 1) * summary["parameters"] * 4
    assert copies < summary["bytes_evaluation"] < 2 * copies
    assert summary["bytes_total_between_replicas"] == summary["bytes_averaging"] + copies
    sets = place.sets(**{**FIXED, "mesh__replicas": replicas, "run__evaluate_mean_every": 6})
    often = place.train("often", *sets)
    assert often["bytes_total_between_replicas"] == summary["bytes_averaging"] + copies * 3 // 2
    assert often["weights_hash"] == summary["weights_hash"]


@pytest.mark.parametrize("wire, most", [("f32", 0.051), ("bf16", 0.026)])
def test_the_default_sends_a_twentieth(place, wire, most):
    sets = place.sets(**MESH, averaging__wire=wire, run__updates=40, averaging__merge="fixed_lag")
    summary = place.train("r", *sets)
    assert summary["rounds"] == 40
    share = summary["bytes_averaging"] / summary["bytes_allreduce"]
    assert 0.9 * most < share <= most


def test_the_baseline_sends_all_and_keeps_replicas_equal(place):
    sets = place.sets(**MESH, averaging__method="allreduce", pipeline__schedule="1f1b")
    summary = place.train("r", *sets)
    assert summary["bytes_averaging"] == summary["bytes_allreduce"] == allreduce(summary)
    assert summary["lag_max"] == 0


def test_the_summary_says_what_averaging_saved(place):
    sets = place.sets(**FIXED)
    shown = place.ok("train", "tiny.toml", "--out", "r", *sets).stdout.splitlines()
    summary = json.loads((place.folder / "r/summary.json").read_text())
    share = 100 * summary["bytes_total_between_replicas"] / summary["bytes_allreduce"]
    line = next(line for line in shown if line.startswith("replicas sent each other "))
    assert line.endswith(f": {share:.1f} %") and "gradient all-reduce would have sent" in line
    line = shown[shown.index(line) + 1]
    assert line.startswith("12 rounds, merged 0.92 updates after sending (at most 1), replicas ")
    assert line.endswith(" % from their mean")
    alone = place.ok("train", "tiny.toml", "--out", "alone").stdout
    assert "averaging" not in alone and "each other" not in alone


def test_check_plans_what_is_sent(place):
    done = place.ok("config", "check", "tiny.toml", *place.sets(**FIXED))
    assert "  run    12 updates of 256 tokens" in done.stdout
    assert "  mesh   2 stages, 2 replicas, " in done.stdout
    assert "sparse, another 1/4 of the weights every update, all of them in 4 rounds" in done.stdout
    assert ", 25 % of the " in done.stdout and "an all-reduce of fp32 gradients" in done.stdout
    assert "0.25 rounds of each weight (lag * fraction / interval)" in done.stdout
    memory = next(line for line in done.stdout.splitlines() if line.startswith("  memory"))
    assert "  averaging  " in memory
    alone = place.ok("config", "check", "tiny.toml").stdout
    assert "  mesh   1 stage, 1 replica, " in alone and "all-reduce" not in alone


NOTED = [
    ({"averaging__method": "sparse"},
     'note: averaging.method = "sparse" (--set) does nothing with one replica'),
    ({**MESH, "averaging__merge": "fixed_lag", "averaging__lag": 5, "averaging__fraction": 1},
     "warning: a lag of 5 updates, averaging.fraction = 1 and averaging.interval = 1 keep 5 "),
    ({**MESH, "averaging__merge": "fixed_lag", "averaging__lag": 5, "averaging__fraction": 1,
      "averaging__guard": "true"},
     "note: averaging.guard keeps rounds 2 updates apart, not 1"),
    ({**MESH, "run__evaluate_every": 2, "run__evaluate_mean_every": 2},
     "note: copies for evaluation are"),
]  # fmt: skip


@pytest.mark.parametrize("sets, sentence", NOTED, ids=["one", "unstable", "guard", "evaluation"])
def test_likely_mistakes_are_noted_once(place, sets, sentence):
    sets = {"run__evaluate_every": 0, **sets}
    done = place.ok("config", "check", "tiny.toml", *place.sets(**sets))
    assert done.stderr == ""
    notes = [line for line in done.stdout.splitlines() if line.startswith(("note", "warning"))]
    assert len(notes) == 1 and notes[0].startswith(sentence), notes
    done = place.ok("train", "tiny.toml", "--out", "r", *place.sets(**sets))
    assert done.stderr.count(notes[0]) == 1


@pytest.mark.parametrize("sets, words", [
    (dict(averaging__fraction=0), ["averaging.fraction is 0", "a number from 1e-06, at most 1"]),
    (dict(averaging__fraction=1.5), ["averaging.fraction is 1.5", "at most 1"]),
    (dict(averaging__interval=0), ["averaging.interval is 0", "a whole number from 1"]),
    (dict(averaging__interval=13), ["averaging.interval = 13", "no round would begin"]),
    (dict(averaging__merge="fixed_lag", averaging__lag=12),
     ["averaging.lag = 12", "no round would be merged: shorten the lag"]),
    (dict(averaging__lag=3), ["averaging.lag = 3", "averaging.merge", '"fixed_lag"']),
    (dict(averaging__wire="ternary"), ["averaging.wire", "choose another wire"]),
    (dict(averaging__method="spars"), ['did you mean "sparse"?']),
    (dict(mesh__replicas=0), ["mesh.replicas is 0"]),
])  # fmt: skip
def test_invalid_averaging_is_refused_in_one_sentence(place, sets, words):
    sets = {"mesh__replicas": 2, **sets}
    for command in (["config", "check"], ["train"]):
        sentence = place.refused(2, *command, "tiny.toml", *place.sets(**sets))
        assert all(word in sentence for word in words), sentence
    assert not (place.folder / "out").exists()


@pytest.mark.parametrize("method", ["sparse", "lowbit"])
def test_a_run_that_merged_on_arrival_replays_to_its_bits(place, method):
    place.train("r", *place.sets(**ARRIVAL, averaging__method=method, run__updates=30))
    assert place.ok("replay", "r").stdout.startswith("identical: 30 updates")


# Updates of four to five seconds on links with 600 ms of jitter, in virtual time.
SLOW = {
    **ARRIVAL, "mesh__replicas": 3, "run__driver": "sim", "sim__jitter_ms": 600,
    "run__updates": 60, "run__evaluate_every": 0,
}  # fmt: skip


def test_slow_updates_are_averaged_over_all_replicas(place):
    sets = place.sets(**SLOW, sim__flops=1.1e7)
    shown = place.ok("train", "tiny.toml", "--out", "r", *sets)
    summary = json.loads((place.folder / "r/summary.json").read_text())
    assert 3 < summary["seconds"] / 60 < 7
    means = summary["contributors"]
    assert len(means) == 3 and means[2] > 0.97 * sum(means) and means[0] == 0
    share = 100 * means[2] / sum(means)
    assert f"\nmeans with all 3 replicas: {share:.1f} %, with one: 0.0 %\n" in shown.stdout
    assert "one contributor" not in shown.stderr
    assert place.ok("replay", "r").stdout.startswith("identical: 60 updates")


def test_a_run_whose_means_have_one_contributor_is_named_once(place):
    sets = place.sets(**SLOW, sim__flops=1.1e7, averaging__deadline_ms=50)
    done = place.ok("train", "tiny.toml", "--out", "r", *sets)
    warnings = [line for line in done.stderr.splitlines() if "means have one contributor" in line]
    assert len(warnings) == 1
    assert "later than averaging.deadline_ms=50 allows: leave it out" in warnings[0]
    means = json.loads((place.folder / "r/summary.json").read_text())["contributors"]
    assert means[0] > sum(means) / 2
    events = [json.loads(line) for line in (place.folder / "r/events.jsonl").open()]
    assert [event["event"] for event in events].count("alone") == 1
    assert events[-1]["contributors"] == " ".join(str(count) for count in means)
    assert place.ok("replay", "r").stdout.startswith("identical: 60 updates")


def test_a_fixed_lag_gives_the_same_bits_and_replays(place):
    first = place.train("a", *place.sets(**FIXED))
    simulated = place.train("b", *place.sets(**FIXED, run__driver="sim", sim__latency_ms=3))
    assert simulated["weights_hash"] == first["weights_hash"]
    assert simulated["bytes_averaging"] == first["bytes_averaging"]
    for run in ("a", "b"):
        assert place.ok("replay", run).stdout.startswith("identical: 12 updates")


@pytest.mark.parametrize("lag", [2, 0.5])
@pytest.mark.parametrize("method", ["sparse", "lowbit"])
def test_a_run_of_replicas_stops_and_resumes_to_the_bits_of_one(place, method, lag):
    """At a checkpoint of the recipe, which merges rounds in flight before their lag is over."""
    sets = place.sets(
        **MESH, averaging__method=method, averaging__merge="fixed_lag", averaging__lag=lag,
        run__checkpoint_every=4,
    )  # fmt: skip
    whole = place.train("whole", *sets)
    half = place.train("parts", *sets, "--stop-at", 4)
    assert half["rounds"] == 4 and half["rounds_dropped"] == 0
    assert half["lag_max"] == lag and half["lag_mean"] < lag
    resumed = place.train("parts", *sets, "--resume")
    assert resumed["finished"] and resumed["weights_hash"] == whole["weights_hash"]
    for key in ("valid_loss", "rounds", "bytes_averaging", "bytes_allreduce", "tokens"):
        assert resumed[key] == whole[key], key
    assert place.ok("replay", "parts").stdout.startswith("identical: 12 updates")


def test_replicas_stopped_at_different_updates_count_their_own(place):
    sets = place.sets(
        **LONG, **ARRIVAL, run__driver="sim", sim__latency_ms=10, sim__jitter_ms=10, run__log="all"
    )
    with training(place, "r", *sets) as process:
        end(process)
    summary = json.loads((place.folder / "r/summary.json").read_text())
    lines = (place.folder / "r/events.jsonl").read_text().splitlines()
    work = [event for event in map(json.loads, lines) if event["event"] == "work"]
    made = [max(w["update"] for w in work if w["kind"] == "update" and w["replica"] == replica)
            for replica in (0, 1)]  # fmt: skip
    assert summary["updates"] == min(made)
    sent = sum(w["bytes"] for w in work if w.get("lane") == "main")
    assert summary["bytes_averaging"] == sent
    assert summary["bytes_allreduce"] == summary["parameters"] * 4 * sum(made)
    place.ok("train", "--resume", "--out", "r", "--stop-at", max(made) + 3)
    summary = json.loads((place.folder / "r/summary.json").read_text())
    assert summary["bytes_allreduce"] == allreduce(summary)
    (place.folder / "r/summary.json").unlink()  # the log alone gives the same
    (row,) = json.loads(place.ok("report", "r", "--json").stdout)["runs"]
    for key in ("updates", "bytes_averaging", "bytes_allreduce", "bytes_activations",
                "bytes_total_between_replicas"):  # fmt: skip
        assert row[key] == summary[key], key


def test_the_timeline_of_a_run_of_replicas(place):
    place.train("r", *place.sets(**FIXED))
    done = place.ok("timeline", "r", "--out", "p.svg", "--trace", "t.json")
    assert "2 stages, 2 replicas, 12 updates" in done.stdout
    picture = (place.folder / "p.svg").read_text()
    assert "replica 1, stage 1" in picture and "await" not in picture
    trace = json.loads((place.folder / "t.json").read_text())["traceEvents"]
    merges = [e for e in trace if e.get("cat") == "merge"]
    # Two chunks of 12 rounds on each of four workers.
    assert len(merges) == 2 * 12 * 4
    assert {e["args"]["lag"] for e in merges} == {0, 1}  # the last at once
    assert {e["args"]["lane"] for e in merges} == {"main"}
    reductions = [e["args"] for e in trace if e.get("cat") == "reduce"]
    assert {args["replicas"] for args in reductions if args["lane"] == "main"} == {"0 1"}
    # Of replica 0's own weights after update 6, of the mean after the last one.
    copies = {args["round"]: args["replicas"] for args in reductions if args["lane"] != "main"}
    assert copies == {6: "0", 12: "0 1"}
    sent = sum(e["args"]["bytes"] for e in trace
               if e.get("cat") in ("contribute", "reduce") and e["args"]["lane"] == "main")
    summary = json.loads((place.folder / "r/summary.json").read_text())
    assert sent == summary["bytes_averaging"]


@pytest.mark.parametrize("lost", [0, 2])
def test_an_evaluation_is_of_the_same_replicas_on_every_stage_and_says_which(place, lost):
    """A replica is lost between two copies for an evaluation, on links that are slow and uneven."""
    sets = place.sets(
        mesh__stages=2, mesh__replicas=3, run__driver="sim", run__log="all", run__updates=24,
        run__evaluate_every=2, run__evaluate_mean_every=1,
        run__faults=f"replica {lost} lost at 11", sim__jitter_ms=40, sim__latency_ms=20,
        sim__bandwidth_mbit=20, sim__flops=1e9,
    )  # fmt: skip
    summary = place.train("r", *sets)
    left = [r for r in range(3) if r != lost]
    assert summary["valid_replicas"] == left
    lines = [json.loads(line) for line in (place.folder / "r/events.jsonl").open()]
    evaluated = {e["update"]: e["replicas"] for e in lines if e["event"] == "evaluated"}
    assert evaluated[2] == "0 1 2" and evaluated[24] == " ".join(map(str, left))
    means = {}
    for e in lines:
        if e["event"] == "work" and e["kind"] == "reduce" and e["lane"] == "evaluation":
            means.setdefault(e["round"], set()).add(e["replicas"])
    for update, replicas in evaluated.items():
        assert means[update] == {replicas}, update
    given_up = {e["update"] for e in lines if e["event"] == "evaluation_given_up"}
    assert not given_up & set(evaluated)


def evaluated(folder, kind="evaluated"):
    """The replicas that each evaluation of this kind was of, by update."""
    lines = [json.loads(line) for line in (folder / "events.jsonl").open()]
    return {e["update"]: e["replicas"] for e in lines if e["event"] == kind}


@pytest.mark.parametrize("merge", ["fixed_lag", "on_arrival"])
def test_a_common_model_is_identical_everywhere_and_evaluated_without_copies(place, merge):
    sets = place.sets(**MESH, averaging__method="lowbit", averaging__merge=merge)
    done = place.ok("train", "tiny.toml", "--out", "r", "--json", *sets)
    summary = json.loads(done.stdout)
    assert " of the common model of 2 replicas\n" in done.stderr
    assert summary["agreement"] == "identical" and summary["consensus"] is None
    assert summary["bytes_total_between_replicas"] == summary["bytes_averaging"] > 0
    assert not evaluated(place.folder / "r", "evaluated_own")
    newest = sorted((place.folder / "r/checkpoints").glob("update-*"))[-1]
    shards = json.loads((newest / "checkpoint.json").read_text())["shards"]
    for stage in {shard["stage"] for shard in shards}:
        copies = [shard for shard in shards if shard["stage"] == stage]
        assert len({shard["model_hash"] for shard in copies}) == 1
        assert len({tuple(shard["answers"]) for shard in copies}) == 1
    assert place.ok("replay", "r").stdout.startswith("identical")


def test_a_common_model_on_arrival_stops_and_resumes_and_replays(place):
    """What is under way is waited for, so the session that resumes goes on to the bit."""
    sets = place.sets(
        **MESH, averaging__method="lowbit", averaging__merge="on_arrival", run__driver="sim",
        sim__latency_ms=20, sim__speeds="[1, 1, 0.5, 0.5]", run__log="all",
    )  # fmt: skip
    half = place.train("r", *sets, "--stop-at", 5)
    assert half["agreement"] == "identical" and half["rounds_dropped"] == 0
    resumed = place.train("r", *sets, "--resume")
    assert resumed["finished"] and resumed["agreement"] == "identical"
    assert place.ok("replay", "r").stdout.startswith("identical: 12 updates")


@pytest.mark.parametrize("method, more, means", [
    ("sparse", PATIENT, [100, 200, 300, 320]),
    ("sparse", {**PATIENT, "averaging__fraction": 0.02}, [320]),
    ("diloco", {"averaging__interval": 40}, [200, 320]),
])  # fmt: skip
def test_by_default_evaluation_sends_at_most_a_tenth_of_averaging(place, method, more, means):
    recipe = place.folder / "tiny.toml"
    recipe.write_text(recipe.read_text().replace("evaluate_every = 6\n", ""))
    sets = place.sets(mesh__replicas=2, run__updates=320, averaging__method=method, **more)
    done = place.ok("train", "tiny.toml", "--out", "r", "--json", *sets)
    summary = json.loads(done.stdout)
    copies = summary["bytes_total_between_replicas"] - summary["bytes_averaging"]
    assert 0 < copies <= summary["bytes_averaging"] / 10
    run = place.folder / "r"
    own = [update for update in (100, 200, 300) if update not in means]
    assert evaluated(run) == dict.fromkeys(means, "0 1")
    assert evaluated(run, "evaluated_own") == dict.fromkeys(own, "0")
    # Both are shown, with their names, and the mean is what counts.
    assert summary["valid_update"] == 320 and summary["valid_replicas"] == [0, 1]
    assert summary["valid_update_own"] == (own[-1] if own else None)
    assert done.stderr.count(" of the mean of 2 replicas\n") == len(means)
    assert done.stderr.count(" of replica 0's own weights\n") == len(own)
    place.ok("report", "r", "--csv", "tables")
    with (place.folder / "tables/curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    for curve, updates in (("valid_loss", means), ("valid_loss_own", own)):
        assert [int(row["update"]) for row in rows if row["curve"] == curve] == updates, curve


def test_another_replica_evaluates_its_own_weights_when_the_evaluator_is_lost(place):
    sets = place.sets(
        mesh__stages=2, mesh__replicas=3, run__driver="sim", run__log="all", run__updates=24,
        run__evaluate_every=2, run__evaluate_mean_every=8,
        run__faults="replica 0 lost at 11",
        sim__jitter_ms=40, sim__latency_ms=20, sim__bandwidth_mbit=20, sim__flops=1e9,
    )  # fmt: skip
    summary = place.train("r", *sets)
    own, means = evaluated(place.folder / "r", "evaluated_own"), evaluated(place.folder / "r")
    assert set(means) <= {8, 16, 24} and means[24] == "1 2"
    assert own[2] == "0" and own[22] == "1" and set(own) <= {2, 4, 6, 10, 12, 14, 18, 20, 22}
    assert summary["valid_replica_own"] == 1 and summary["valid_update_own"] == 22


def test_an_evaluation_of_own_weights_is_not_repeated_on_resume(place):
    sets = place.sets(**FIXED, run__evaluate_every=3)
    first = place.train("r", *sets, "--stop-at", 6)
    assert first["valid_update_own"] == 6 and first["valid_loss"] is None
    second = json.loads(place.ok("resume", "r", "--json").stdout)
    assert second["finished"] and second["valid_update"] == 12
    lines = [json.loads(line) for line in (place.folder / "r/events.jsonl").open()]
    assert [e["update"] for e in lines if e["event"] == "evaluated_own"] == [3, 6, 9]
