"""Scenarios: simulated traffic equals real traffic, and mistakes get one sentence."""

import json
import re

import pytest
from places import REPOSITORY

MACHINES = """
[[site]]
name = "here"
latency_ms = 1
[[machine]]
name = "m"
count = 8
site = "here"
tflops = 0.01
memory_gb = 4
"""


def scenario(place, *extra, machines=MACHINES):
    (place.folder / "s.toml").write_text('recipe = "tiny.toml"\n' + "\n".join(extra) + machines)
    return "s.toml"


# How long a packed message is depends on its values: plans assume a normal distribution.
PACKED = 0.06
METHODS = [
    dict(averaging__merge="fixed_lag", averaging__lag=2),
    dict(averaging__method="allreduce", pipeline__schedule="1f1b"),
    dict(averaging__method="lowbit", averaging__merge="fixed_lag"),
    dict(averaging__method="diloco", averaging__interval=3),
    dict(averaging__wire="int8", averaging__merge="fixed_lag", averaging__fraction=0.3),
]


@pytest.mark.parametrize("sets", METHODS, ids=lambda sets: "-".join(map(str, sets.values())))
def test_simulated_bytes_are_those_of_a_real_run(place, sets):
    arguments = place.sets(mesh__stages=2, mesh__replicas=2, run__updates=9, **sets)
    summary = place.train("run", *arguments)
    text = scenario(place, "[simulate]", "updates = 9", "evaluation = true",
                    "[[method]]", 'name = "m"', "set = []")  # fmt: skip
    done = place.ok("simulate", text, "--json", *arguments)
    (method,) = json.loads(done.stdout)["methods"]
    for purpose in ("activations", "gradients", "averaging", "evaluation"):
        key = f"bytes_{purpose}"
        assert summary[key] > 0, purpose
        packed = purpose == "averaging" and sets.get("averaging__method") == "lowbit"
        assert method[key] == pytest.approx(summary[key], rel=PACKED if packed else 0), purpose
    assert method["parameters"] == summary["parameters"]


def test_report_names_every_method_and_results_are_kept(place):
    text = scenario(place)
    sets = place.sets(mesh__stages=2, mesh__replicas=2)
    report = place.ok("simulate", text, "--out", "kept", *sets).stdout
    results = json.loads((place.folder / "kept/results.json").read_text())
    names = [method["method"] for method in results["methods"]]
    assert names[0] == "1f1b + allreduce" and "async + sparse" in names
    assert all(name in report for name in names)
    assert results["methods"][0]["speed_up"] == 1
    assert all(0 < method["busy"] <= 1 for method in results["methods"])


def test_a_fleet_of_any_size_costs_a_worker_the_same(place):
    fleet = REPOSITORY / "recipes/scenarios/fleet.toml"
    words = ["--set", "simulate.replicas=[2, 64]", "--set", "simulate.updates=20"]
    report = place.ok("simulate", fleet, "--out", "kept", *words).stdout
    methods = json.loads((place.folder / "kept/results.json").read_text())["methods"]
    by_size = {(method["averaging"], method["replicas"]): method for method in methods}
    assert len(by_size) == 4 and all(method["method"] in report for method in methods)
    for averaging in ("lowbit", "sparse"):
        few, many = by_size[averaging, 2], by_size[averaging, 64]
        sent = "averaging_bytes_per_worker_update"
        # Two replicas send 2 * 1/2 of a contribution each, 64 send 2 * 63/64.
        share = 2 * 63 / 64 * few[sent]["mean"]
        assert many[sent]["most"] == pytest.approx(share, rel=0.03)
        computing = "averaging_seconds_per_worker_update"
        assert 0 < many[computing]["most"] < 1.05 * few[computing]["most"]


@pytest.mark.parametrize("command, value, sets, words", [
    ("simulate", "[2, 0]", {}, "allowed: a list of whole numbers from 1, at most 256"),
    ("simulate", "[2, 2]", {}, "simulate.replicas has 2 twice"),
    ("simulate", "[2, 9]", {}, 'method "m, 9 replicas": 1 stages of 9 replicas are 9 workers'),
    ("simulate", "[2]", dict(mesh__replicas=2), "the scenario has simulate.replicas"),
    ("plan", "[2]", {}, "only `leeway simulate` uses this key"),
])  # fmt: skip
def test_sizes_that_cannot_be_compared(place, command, value, sets, words):
    text = scenario(place, "[[method]]", 'name = "m"', "set = []")
    arguments = ["--set", f"simulate.replicas={value}", *place.sets(**sets)]
    assert words in place.refused(2, command, text, *arguments)


def test_loss_against_simulated_time(place):
    text = scenario(place, "[simulate]", "math = true", "target_loss = 5.5")
    sets = place.sets(mesh__stages=2, run__updates=6)
    report = place.ok("simulate", text, "--out", "math", *sets).stdout
    assert "time to 5.5" in report
    for method in json.loads((place.folder / "math/results.json").read_text())["methods"]:
        times = [point["seconds"] for point in method["losses"]]
        assert times == sorted(times) and len(times) == 6
        assert method["losses"][0]["loss"] > method["losses"][-1]["loss"]
        assert method["evaluations"][-1]["update"] == 6


# A model far too large for a test, limited by its lines, and its stand-in.
LARGE = [
    "[simulate]", "vocabulary = 50257", "updates = 12", "math = true", "target_loss = 5.5",
    'stand_in = ["model.width=32", "model.heads=2", "model.context=32", "data.batch=8"]',
    "[run]", "updates = 12", "evaluate_every = 3",
    "[model]", "layers = 4", "width = 2048", "heads = 16", "context = 1024",
    "[data]", "batch = 16", "[mesh]", "stages = 2", "replicas = 2",
    "[pipeline]", "update_every = 4",
]  # fmt: skip
LINES = """
[[site]]
name = "here"
latency_ms = 5
uplink_mbit = 300
downlink_mbit = 300
[[machine]]
name = "m"
count = 8
site = "here"
tflops = 50
memory_gb = 32
"""


def test_a_stand_in_keeps_the_pace_of_the_model_it_stands_for(place):
    text = scenario(place, *LARGE, machines=LINES)
    report = place.ok("simulate", text, "--out", "kept").stdout
    assert "from a stand-in with 69,984 parameters, at the pace of the 407,459,840" in report
    methods = json.loads((place.folder / "kept/results.json").read_text())["methods"]
    names = {method["method"] for method in methods}
    assert {"1f1b + allreduce", "async + sparse", "async + lowbit"} <= names
    for method in methods:
        assert method["parameters"] == 407459840 and method["stand_in_parameters"] == 69984
        assert method["losses"][-1]["loss"] < method["losses"][0]["loss"] < 6
        # Simulated with the large model's bytes, and trained with the small one's; in six updates
        # diloco has two rounds.
        update = 2 * 16 * 1024 / method["tokens_per_second"]
        times = [point["seconds"] for point in method["losses"]]
        error = PACKED if "lowbit" in method["method"] else 0.01
        assert (times[-1] - times[-7]) / 6 == pytest.approx(update, rel=error), method["method"]
        assert update > 4  # seconds; the small model alone would take hundredths
        assert [point["update"] for point in method["evaluations"]] == [3, 6, 9, 12]


@pytest.mark.parametrize("stand_in, sets, words", [
    ("pipeline.update_every=2", {}, ["allowed: KEY=VALUE of model, data, optimizer and run"]),
    ("model.widht=32", {}, ["simulate.stand_in", "unknown key", "did you mean width?"]),
    ("data.batch=6", {}, ["simulate.stand_in", "data.batch"]),
    ("model.width=32", dict(model__width=64), ["--set model.width=64", "change simulate.stand_in"]),
    ("run.seed=2", dict(run__device="cuda"), ["set run.device"]),
])  # fmt: skip
def test_a_stand_in_that_cannot_stand_in(place, stand_in, sets, words):
    large = [f'stand_in = ["{stand_in}"]' if "stand_in" in line else line for line in LARGE]
    text = scenario(place, *large, machines=LINES)
    sentence = place.refused(2, "simulate", text, "--out", "kept", *place.sets(**sets))
    assert all(word in sentence for word in words), sentence
    assert not (place.folder / "kept").exists()


def test_a_plan_is_a_recipe_that_config_check_takes(place):
    text = scenario(place)
    for name, word in (text, "was not written by"), ("plan.json", "must end in .toml"):
        assert word in place.refused(2, "plan", text, "--out", name)
    place.ok("plan", text, "--out", "planned.toml")
    report = place.ok("plan", text, "--out", "planned.toml").stdout  # overwrites its own file
    assert "limited by" in report and "wrote planned.toml" in report
    place.ok("config", "check", "planned.toml")


def test_calibration_gives_all_machines_the_measured_speed(place):
    machines = MACHINES.replace("count = 8", "workers = 8\ncores = 8")
    text = scenario(place, machines=machines)
    given = place.ok("simulate", text, "--json")
    measured = place.ok("simulate", text, "--calibrate", "--json")
    words = r"tflops = (.*), update_tflops = (.*); .* cores = (.*)"
    tflops, update_tflops, cores = re.search(words, measured.stderr).groups()
    assert float(tflops) > 0 and float(update_tflops) > 0 and int(cores) > 0
    assert json.loads(given.stdout) != json.loads(measured.stdout)
    assert not [*(place.folder / "out").glob(".calibration*")]
    # The printed values, written into the file, give the same scenario.
    speeds = f"tflops = {tflops}\nupdate_tflops = {update_tflops}"
    machines = machines.replace("tflops = 0.01", speeds).replace("cores = 8", f"cores = {cores}")
    again = scenario(place, machines=machines)
    rate = [method["tokens_per_second"] for method in json.loads(measured.stdout)["methods"]]
    written = json.loads(place.ok("simulate", again, "--json").stdout)["methods"]
    assert [method["tokens_per_second"] for method in written] == pytest.approx(rate, rel=0.01)
    place.ok("plan", again, "--calibrate")
    sentence = place.refused(2, "plan", again, "--calibrate", *place.sets(run__device="cuda"))
    assert "--calibrate measures the CPU" in sentence


@pytest.mark.parametrize("key", ["mesh.stages", "data.batch", "pipeline.update_every"])
def test_a_plan_refuses_the_keys_it_chooses(place, key):
    sentence = place.refused(2, "plan", scenario(place), "--set", f"{key}=2")
    assert f"--set {key}=2: `leeway plan` chooses this key" in sentence


def test_a_plan_ignores_machine_events(place):
    calm = place.ok("plan", scenario(place)).stdout
    gone = MACHINES + '[[departure]]\nmachine = "m-1"\nat_s = 0.001\n'
    told = place.ok("plan", scenario(place, machines=gone)).stdout
    note = "the plan ignores stalls, joins, departures and churn"
    assert note in told and note not in calm
    assert [line for line in told.splitlines() if note not in line] == calm.splitlines()


@pytest.mark.parametrize("command, set_, words", [
    ("simulate", "sim.latency_ms=300", "[[link]]"),
    ("simulate", "network.emulate.latency_ms=300", "[[link]]"),
    ("plan", "sim.flops=3", "[[machine]]"),
    ("simulate", "simulate.tokens_per_update=2", "only `leeway plan` uses this key"),
    ("plan", "simulate.math=true", "only `leeway simulate` uses this key"),
    ("simulate", "simulate.target_loss=2", "nothing is trained without simulate.math=true"),
])  # fmt: skip
def test_overrides_without_effect_are_refused(place, command, set_, words):
    sentence = place.refused(2, command, scenario(place), "--set", set_)
    assert f"--set {set_}: " in sentence and words in sentence


def test_a_model_that_no_clock_can_time_is_told(place):
    words = "simulated time ran out after 292 years"
    huge = place.sets(model__width=65536, model__layers=4096, model__heads=64, mesh__stages=2)
    assert words in place.refused(2, "simulate", scenario(place), *huge)
    slow = MACHINES.replace("0.01", "1e-6").replace("memory_gb = 4", "memory_gb = 1000000")
    large = place.sets(model__width=16384, model__layers=8, model__heads=64, run__device="cuda")
    assert words in place.refused(2, "plan", scenario(place, machines=slow), *large)
    slow_run = place.sets(run__driver="sim", sim__flops=1e-5)
    assert words in place.refused(2, "train", "tiny.toml", "--out", "r", *slow_run)


def test_the_last_method_is_checked_before_the_first_is_trained(place):
    methods = ["[[method]]", 'name = "one"', "set = []",
               "[[method]]", 'name = "two"', 'set = ["mesh.replicas=9"]']  # fmt: skip
    text = scenario(place, "[simulate]", "math = true", *methods)
    sentence = place.refused(2, "simulate", text, "--out", "kept")
    assert 'method "two": ' in sentence and "room for 8" in sentence
    assert not (place.folder / "kept").exists()


@pytest.mark.parametrize("command", ["simulate", "plan"])
@pytest.mark.parametrize("change, words", [
    (('name = "m"', 'name = "m"\nsite = "there"\n#'), ['"there"', "s.toml:"]),
    (("latency_ms = 1", "latency_ms = -1"), ["site.latency_ms is -1", "s.toml:"]),
    (("tflops = 0.01", "tflop = 1"), ["machine has no tflops"]),
    (("count = 8", "count = 0"), ["machine.count is 0", "a whole number from 1"]),
    (("[[machine]]", '[[link]]\nbetween = ["m-1", "m-2"]\n[[link]]\nbetween = ["m-2", "m-1"]\n'
      "[[machine]]"), ["there are two links between"]),
])  # fmt: skip
def test_invalid_scenarios(place, command, change, words):
    machines = MACHINES.replace(*change)
    if "there" in change[1]:
        machines = machines.replace('site = "here"', "")
    sentence = place.refused(2, command, scenario(place, machines=machines))
    assert all(word in sentence for word in words), sentence


def test_no_room_for_any_plan(place):
    machines = MACHINES.replace("memory_gb = 4", "memory_gb = 0.0001")
    sentence = place.refused(2, "plan", scenario(place, machines=machines))
    assert "no plan fits these machines" in sentence and "more memory" in sentence
    sentence = place.refused(2, "simulate", scenario(place), *place.sets(mesh__replicas=9))
    assert "9 workers" in sentence and "room for 8" in sentence
