"""`leeway train` with the real binary: it learns, repeats, resumes and stops cleanly."""

import json
import math
import os
import pty
import re
import signal
import subprocess

import pytest
from places import LEEWAY
from test_nothing_lost import end, training


def events(folder):
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def test_a_run_learns_and_leaves_a_whole_folder(place):
    summary = place.train("r", *place.sets(run__updates=60))
    assert set(summary) >= {
        "parameters", "updates", "tokens", "train_loss", "valid_loss", "seconds",
        "tokens_per_second", "peak_rss_bytes", "seed", "version",
    }  # fmt: skip
    assert summary["finished"] and summary["updates"] == 60
    assert summary["tokens"] == 60 * 4 * 32
    folder = place.folder / "r"
    assert json.loads((folder / "summary.json").read_text()) == summary
    losses = [event["loss"] for event in events(folder) if event["event"] == "update"]
    assert len(losses) == 60
    assert losses[0] > 5.0  # about ln 257
    assert sum(losses[-5:]) / 5 < 0.7 * losses[0]
    assert summary["valid_loss"] < 0.7 * losses[0]
    kept = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert kept == ["update-00000060"]
    assert place.ok("config", "check", "r/config.toml").stdout.startswith("r/config.toml: ok")


def test_the_same_command_gives_the_same_bits(place):
    first = place.train("a")
    second = place.train("b")
    assert first["weights_hash"] == second["weights_hash"]
    assert first["valid_loss"] == second["valid_loss"]
    other = place.train("c", *place.sets(run__seed=4))
    assert other["weights_hash"] != first["weights_hash"]


@pytest.mark.parametrize("optimizer", ["muon", "adamw", "nadamw", "sgd"])
def test_stopping_and_resuming_gives_the_bits_of_one_run(place, optimizer):
    sets = place.sets(optimizer__name=optimizer)
    whole = place.train("whole", *sets)
    half = place.train("parts", *sets, "--stop-at", 5)
    assert half["updates"] == 5 and not half["finished"]
    resumed = place.train("parts", *sets, "--resume")
    assert resumed["weights_hash"] == whole["weights_hash"]
    assert resumed["train_loss"] == whole["train_loss"]
    assert resumed["valid_loss"] == whole["valid_loss"]
    kinds = [event["event"] for event in events(place.folder / "parts")]
    assert kinds.count("update") == 12 and kinds.count("resumed") == 1


def test_resuming_a_finished_run_changes_nothing(place):
    first = place.train("r")
    again = place.train("r", "--resume")
    for key in ("weights_hash", "valid_loss", "valid_update", "updates", "finished"):
        assert again[key] == first[key]
    longer = place.train("r", "--resume", *place.sets(run__updates=14))
    assert longer["updates"] == 14 and longer["valid_update"] == 14


def test_an_interrupted_evaluation_is_repeated(place):
    """A run killed between its last checkpoint and the evaluation of those weights."""
    whole = place.train("r", *place.sets(mesh__stages=2))
    folder = place.folder / "r"
    (folder / "summary.json").unlink()
    lines = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    saved = max(i for i, line in enumerate(lines) if '"event":"saved"' in line)
    (folder / "events.jsonl").write_text("".join(lines[: saved + 1]))
    again = place.train("r", "--resume", *place.sets(mesh__stages=2))
    assert again["valid_loss"] == whole["valid_loss"] and again["finished"]
    assert place.ok("replay", "r").stdout.startswith("identical: 12 updates")


def test_resume_needs_no_recipe(place):
    whole = place.train("whole")
    place.train("parts", "--stop-at", 5)
    done = place.ok("train", "--resume", "--out", "parts", "--json")
    assert json.loads(done.stdout)["weights_hash"] == whole["weights_hash"]


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_a_synchronous_pipeline_trains_to_the_bits_of_one_stage(place, schedule):
    sets = place.sets(pipeline__update_every=2, pipeline__schedule=schedule, optimizer__clip=0.2)
    whole = place.train("one", *sets)
    cut = place.train("two", *sets, *place.sets(mesh__stages=2))
    assert cut["weights_hash"] == whole["weights_hash"]
    resumable = place.train("part", *sets, *place.sets(mesh__stages=2), "--stop-at", 4)
    assert resumable["updates"] == 4
    back = place.train("part", *sets, *place.sets(mesh__stages=2), "--resume")
    assert back["weights_hash"] == whole["weights_hash"]


PIPELINE = {"model__layers": 4, "mesh__stages": 4}


def stages_of(summary, key):
    return [stage[key] for stage in summary["stages"]]


@pytest.mark.parametrize(
    "every, delays", [(1, [3, 2, 1, 0]), ("auto", [0.75, 0.5, 0.25, 0]), (2, [1.5, 1, 0.5, 0])]
)
def test_delays_are_those_of_the_formula(place, every, delays):
    sets = place.sets(pipeline__update_every=every, run__evaluate_every=0, **PIPELINE)
    summary = place.train("r", *sets)
    assert stages_of(summary, "delay_expected") == delays
    assert stages_of(summary, "delay_mean") == delays
    assert stages_of(summary, "delay_max") == [math.ceil(delay) for delay in delays]
    errors = stages_of(summary, "prediction_error")
    assert errors[3] is None and all(0 < error < 1.5 for error in errors[:3])
    if every == 1:
        assert stages_of(summary, "versions_peak") == [4, 3, 2, 1]
    activations = 4 * 32 * 32 * 4  # per update between two stages: batch, context, width, bytes
    assert summary["bytes_activations"] == 12 * 3 * activations
    assert summary["bytes_gradients"] == summary["bytes_activations"]
    assert all(0 < busy <= 1 for busy in stages_of(summary, "busy"))


def test_threads_and_the_simulator_give_the_same_bits(place):
    sets = place.sets(**PIPELINE)
    real = place.train("real", *sets)
    links = place.sets(sim__latency_ms=3, sim__jitter_ms=2, sim__speeds=[1, 2, 1, 3])
    simulated = place.train("simulated", *sets, *links, *place.sets(run__driver="sim"))
    assert simulated["weights_hash"] == real["weights_hash"]
    assert simulated["valid_loss"] == real["valid_loss"]


@pytest.mark.parametrize("lookahead", ["tentative", "matched", "predict", "none"])
def test_an_asynchronous_run_stops_resumes_and_replays(place, lookahead):
    """A stop is a flush point, so it changes the bits: the replay must know where it happened."""
    sets = place.sets(pipeline__lookahead=lookahead, run__checkpoint_every=4, **PIPELINE)
    whole = place.train("whole", *sets)
    place.train("parts", *sets, "--stop-at", 4)
    resumed = place.train("parts", *sets, "--resume")
    assert resumed["weights_hash"] == whole["weights_hash"]
    assert resumed["bytes_gradients"] == whole["bytes_gradients"]
    place.train("elsewhere", *sets, "--stop-at", 5)
    place.train("elsewhere", *sets, "--resume")
    for run in ("whole", "parts", "elsewhere"):
        assert place.ok("replay", run).stdout.startswith("identical: 12 updates")


def test_replay_says_what_is_wrong(place):
    place.train("r", *place.sets(**PIPELINE))
    log = place.folder / "r/events.jsonl"
    whole = log.read_text()
    log.write_text(whole[: len(whole) // 2])
    assert "events.jsonl is cut off" in place.refused(1, "replay", "r")
    lines = whole.splitlines()
    forward = next(i for i, line in enumerate(lines) if '"forward"' in line and '"stage":2' in line)
    log.write_text("\n".join(lines[:forward] + lines[forward + 1 :]) + "\n")
    assert "record" in place.refused(1, "replay", "r")
    log.write_text(whole.replace('"version":"0', '"version":"9', 1))
    assert "was run by leeway 9" in place.refused(1, "replay", "r")
    log.write_text(whole.replace('"loss":', '"loss":1', 1))
    assert "different: the loss of update 1" in place.refused(1, "replay", "r")
    assert "is not a run folder" in place.refused(2, "replay", "nowhere")
    log.write_text(whole)
    (place.folder / "r/summary.json").unlink()
    assert "the run has not ended" in place.refused(1, "replay", "r")


def test_changing_the_delays_is_refused_on_resume(place):
    sets = place.sets(**PIPELINE)
    place.train("r", *sets, "--stop-at", 3)
    other = place.sets(**{**PIPELINE, "mesh__stages": 2, "pipeline__update_every": 4})
    sentence = place.refused(2, "train", "tiny.toml", "--out", "r", "--resume", *other)
    assert "mesh.stages was 4 when r began and is 2 now (in an asynchronous pipeline" in sentence


@pytest.mark.parametrize(
    "values",
    [
        {"model__architecture": "gpt2"},
        {"model__architecture": "gpt2", "model__activation": "relu", "model__bias": "false"},
        {"model__kv_heads": 1},
        {"run__precision": "bf16"},
        {"run__precision": "fp64"},
        {"optimizer__schedule": "wsd", "optimizer__decay": 0.1},
    ],
)
def test_other_models_and_precisions_learn_too(place, values):
    summary = place.train("r", *place.sets(**values, run__updates=30))
    assert summary["train_loss"] < 5.0


def test_ctrl_c_saves_everything_and_the_run_resumes(place):
    sets = place.sets(run__updates=1_000_000, run__evaluate_every=0)
    with training(place, "r", *sets) as process:
        _, rest = end(process, signal.SIGINT)
    assert process.returncode == 130
    assert "everything is saved, resume with: leeway resume r" in rest
    stopped = json.loads((place.folder / "r/summary.json").read_text())
    assert 0 < stopped["updates"] < 1_000_000 and not stopped["finished"]
    more = stopped["updates"] + 3
    resumed = place.train("r", *sets, "--resume", "--stop-at", more)
    straight = place.train("straight", *sets, "--stop-at", more)
    assert resumed["weights_hash"] == straight["weights_hash"]


def test_a_finished_run_is_moved_aside_and_an_unfinished_one_is_not(place):
    first = place.train("r")
    done = place.ok("train", "tiny.toml", "--out", "r")
    assert "moved the earlier run in r to r.1" in done.stderr
    assert json.loads((place.folder / "r.1/summary.json").read_text()) == first
    place.ok("train", "tiny.toml", "--out", "half", "--stop-at", 3)
    sentence = place.refused(2, "train", "tiny.toml", "--out", "half")
    assert "half has an unfinished run; add --resume to continue it, or --fresh" in sentence
    place.ok("train", "tiny.toml", "--out", "half", "--fresh", "--stop-at", 2)
    assert (place.folder / "half.1/checkpoints/update-00000003").is_dir()


def test_old_checkpoints_go_and_the_newest_stay(place):
    # Simulated disks have no load that could make them skip one.
    place.train("r", *place.sets(run__checkpoint_every=2, run__keep=3, run__driver="sim"))
    kept = sorted(path.name for path in (place.folder / "r/checkpoints").iterdir())
    assert kept == ["update-00000008", "update-00000010", "update-00000012"]


def run_on_terminal(place, *arguments, **environment):
    """Everything a terminal would show."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [LEEWAY, *arguments],
        cwd=place.folder,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm", **environment},
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(master)
    assert process.wait(timeout=300) == 0
    return shown.decode()


def test_a_closed_terminal_ends_it_with_everything_saved(place):
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(place.folder)
        sets = place.sets(run__updates=9999)
        os.execv(LEEWAY, ["leeway", "train", "tiny.toml", "--out", "r", *sets])
    shown = b""
    while b"training" not in shown:
        shown += os.read(terminal, 4096)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 129
    assert len(list((place.folder / "r/checkpoints").iterdir())) == 1


def test_a_terminal_sees_a_bar_and_a_pipe_sees_lines(place):
    # Enough updates that some are drawn after others, even if drawing is held up for a while.
    command = ("train", "tiny.toml", "--set", "run.updates=2000", "--set", "run.evaluate_every=0")
    shown = run_on_terminal(place, *command, "--out", "a", NO_COLOR="")
    assert re.search(r"training \[\x1b\[36m=+\x1b\[0m *\]", shown), shown[-2000:]
    assert re.search(r"loss \d\.\d{4}  [\d,]+ tokens/s", shown)
    plain = run_on_terminal(place, *command, "--out", "b", NO_COLOR="1")
    assert "\x1b[36m" not in plain and "training [=" in plain
    assert not re.search(r"training +\d", plain)  # eighty columns always have room for a bar
    piped = place.ok(*command, "--out", "c")
    assert "\x1b" not in piped.stderr and "\r" not in piped.stderr
    assert "parameters" in piped.stdout and "run folder c" in piped.stdout


@pytest.mark.parametrize(
    "words",
    [(), ("train",), ("replay",), ("timeline",), ("eval",), ("generate",), ("data",),
     ("data", "prepare"), ("data", "info"),
     ("config",), ("config", "check"), ("config", "print"), ("config", "keys"), ("version",)],
)  # fmt: skip
def test_help_has_an_example(place, words):
    shown = place.ok(*words, "--help").stdout
    assert f"leeway {' '.join(words)}".strip() in shown
    assert "Example" in shown
