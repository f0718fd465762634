"""`leeway compare`: a set of runs as one table, interrupted and resumed, kept and refused."""

import contextlib
import fcntl
import json
import os
import re
import select
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from fleets import newest_update, until
from places import LEEWAY, REPOSITORY
from test_nothing_lost import read_until

HEAD = 'recipe = "tiny.toml"\nseeds = [1, 2]\n'
BASE = '[base]\n"run.driver" = "sim"\n"run.updates" = {updates}\n"mesh.replicas" = 2\n'
SET = (
    HEAD
    + BASE
    + """
[variants."all gradients"]
"averaging.method" = "allreduce"
[variants.few]
"averaging.method" = "sparse"
"averaging.merge" = "fixed_lag"
"""
)


def write(place, text=SET, updates=6):
    (place.folder / "set.toml").write_text(text.replace("{updates}", str(updates)))


def compare(place, *arguments):
    done = place.ok("compare", "set.toml", "--out", "c", "--json", "--jobs", 2, *arguments)
    return json.loads(done.stdout), done


def numbers(results):
    """Everything that does not depend on the clock."""
    return [
        (run["variant"], run["seed"], run["loss"], run["summary"]["weights_hash"])
        for run in results["runs"]
    ], [(row["name"], row["loss"], row["difference_percent"]) for row in results["variants"]]


def test_only_changed_runs_run_again(place):
    write(place)
    results, first = compare(place)
    assert [row["name"] for row in results["variants"]] == ["all gradients", "few"]
    assert results["fair"] and results["seeds"] == [1, 2] and len(results["runs"]) == 4
    for row in results["variants"]:
        losses = [run["loss"] for run in results["runs"] if run["variant"] == row["name"]]
        assert abs(row["loss"] - sum(losses) / 2) < 1e-12 and len(set(losses)) == 2
    table = (place.folder / "c/table.md").read_text()
    assert "| all gradients |" in table and "Seeds 1, 2" in table
    assert json.loads((place.folder / "c/results.json").read_text()) == results
    assert "all gradients" in (place.folder / "c/report.html").read_text()
    run = place.folder / "c" / results["runs"][0]["folder"]
    assert (run / "summary.json").is_file() and run.with_name(run.name + ".log").is_file()

    again, done = compare(place)
    assert again == results and done.stderr == ""  # the very same times: nothing was run
    assert place.ok("compare", "set.toml", "--out", "c").stdout == table

    write(place, SET + '"averaging.lag" = 2\n')
    changed, done = compare(place)
    assert "2 of 4 runs already done" in done.stderr
    assert changed["runs"][0] == results["runs"][0]
    assert changed["runs"][1]["loss"] != results["runs"][1]["loss"]


def test_the_time_to_a_loss_is_that_of_the_first_evaluation_below_it(place):
    target = SET.replace("seeds = [1, 2]", "seeds = [1]\ntarget_loss = 5")
    every = '[base]\n"run.evaluate_every" = '
    write(place, target.replace("[base]", every + "0"))
    sentence = place.refused(2, "compare", "set.toml", "--out", "c")
    assert "target_loss" in sentence and "run.evaluate_every = 0" in sentence
    write(place, target.replace("[base]", every + "1"))
    results, _ = compare(place)
    run = results["runs"][0]
    events = (place.folder / "c" / run["folder"] / "events.jsonl").read_text().splitlines()
    looks = [json.loads(line) for line in events if '"event":"evaluated"' in line]
    below = [look["seconds"] for look in looks if look["valid_loss"] <= 5]
    assert len(looks) > len(below) > 0
    assert results["variants"][0]["seconds_to_target"] == below[0]


def test_set_is_for_all_variants_that_do_not_set_it(place):
    write(place, SET + '"model.width" = 16\n')
    words = ["--set", "run.updates=4", "--set", "seeds=[3]", "--set", "model.width=64"]
    results, _ = compare(place, *words)
    assert results["seeds"] == [3] and len(results["runs"]) == 2
    for run, width in zip(results["runs"], (64, 16)):
        recipe = (place.folder / "c" / (run["folder"] + ".toml")).read_text()
        assert f"width = {width}" in recipe and "updates = 4" in recipe
    assert "--set 'seeds=[3]'" in results["command"]
    for set_, said in [
        ("seeds=[1, 1]", "distinct whole numbers"), ("rates=0", "distinct learning-rate factors"),
        ("run.updaets=4", "did you mean updates"), ("run.seed=4", "write seeds ="),
        ("run.updates", "write it as"), ("variants=1", "can only be changed in the file"),
        ("averaging.method=none", "has no effect: every variant of set.toml sets this key"),
        ("target=2", "unknown key target"), ("run.updates=-1", "run.updates is -1"),
    ]:  # fmt: skip
        sentence = place.refused(2, "compare", "set.toml", "--out", "d", "--set", set_)
        assert said in sentence and "--set" in sentence, sentence


def updates_made(folder):
    """By all runs of a comparison."""
    return sum(newest_update(log.parent) for log in folder.glob("**/events.jsonl"))


@contextlib.contextmanager
def started(place, out, **options):
    """A comparison in the background whose first run has made an update."""
    process = subprocess.Popen(
        [LEEWAY, "compare", "set.toml", "--out", out, "--json", "--jobs", "1"],
        cwd=place.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_WAIT_POLICY": "passive"}, **options,
    )  # fmt: skip
    try:
        until(process, lambda: updates_made(place.folder / out) > 0)
        yield process
    finally:
        process.kill()


@pytest.mark.parametrize("sent", [signal.SIGHUP, signal.SIGKILL])
def test_a_run_ends_with_its_comparison(place, sent):
    write(place, updates=1_000_000)
    reader, writer = os.pipe()  # the write end is inherited, and closed when all have ended
    with started(place, "c", pass_fds=[writer]) as process:
        os.close(writer)
        child = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().strip()
        assert Path(f"/proc/{child}/comm").read_text() == "leeway\n"
        assert Path(f"/proc/{child}/cmdline").read_text().startswith("leeway\0train\0")
        process.send_signal(sent)
        _, rest = process.communicate(timeout=300)
    assert process.returncode == (129 if sent == signal.SIGHUP else -sent)
    assert ("stopped with 0 of 4 runs done" in rest) == (sent == signal.SIGHUP)
    assert select.select([reader], [], [], 300)[0], "a run continues alone"
    os.close(reader)
    compare(place, "--set", "run.updates=4")  # the folder is free


def test_a_closed_terminal_does_not_end_what_nohup_started(place):
    write(place, updates=1_000_000)
    ignore = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    with started(place, "c", **ignore) as process:
        process.send_signal(signal.SIGHUP)
        enough = updates_made(place.folder / "c") + 200
        until(process, lambda: updates_made(place.folder / "c") >= enough)
        process.send_signal(signal.SIGTERM)
        assert "stopped with" in process.communicate(timeout=300)[1]
    assert process.returncode == 143, "it was SIGTERM that ended it"


def test_interrupted_and_resumed_gives_the_same_results(place):
    write(place, SET.replace("[1, 2]", "[1, 2, 3, 4, 5]"), updates=160)
    whole, _ = compare(place)
    # The first is done, another running: so many that they are not over before the signal comes.
    with started(place, "cut") as process:
        read_until(process, "all gradients seed 1:")
        process.send_signal(signal.SIGINT)
        out, rest = process.communicate(timeout=300)
    assert process.returncode == 130 and out == ""
    said = r"stopped with ([1-9]) of 10 runs done; run the same command to continue"
    done = re.search(said, rest)
    assert done, rest
    assert not (place.folder / "cut/results.json").exists()
    again = place.ok("compare", "set.toml", "--out", "cut", "--json")
    assert f"{done[1]} of 10 runs already done" in again.stderr
    assert numbers(json.loads(again.stdout)) == numbers(whole)


def test_a_failed_variant_is_a_row_with_the_reason(place):
    bad = """
[variants.refused]
"model.heads" = 3
[variants.unfit]
"mesh.stages" = 64
[variants.diverges]
"optimizer.name" = "sgd"
"optimizer.rate" = 100
"optimizer.clip" = 0
"""
    write(place, SET.replace("seeds = [1, 2]", "seeds = [1]") + bad)
    results, first = compare(place)
    rows = {row["name"]: row for row in results["variants"]}
    assert "already" not in first.stderr  # runs that cannot run do not count as done
    assert "comparing: 3 runs in" in first.stderr
    assert rows["few"]["loss"] and rows["few"]["failed"] is None
    assert "model.heads" in rows["refused"]["failed"]
    assert "mesh.stages" in rows["unfit"]["failed"]
    assert "diverged at update" in rows["diverges"]["failed"]
    assert f"failed: {rows['diverges']['failed']}" in (place.folder / "c/table.md").read_text()
    again, done = compare(place)
    assert again == results and done.stderr == ""
    _, done = compare(place, "--retry")
    assert "diverges seed 1: failed" in done.stderr


def test_unfair_sets_are_refused_or_shown(place):
    longer = SET.replace("seeds = [1, 2]", "seeds = [1]") + '"run.updates" = 3\n'
    write(place, longer)
    sentence = place.refused(2, "compare", "set.toml", "--out", "c")
    assert 'not a fair comparison: updates of "all gradients" are 6 and of "few" 3' in sentence
    assert "fair = false" in sentence and not (place.folder / "c").exists()
    write(place, "fair = false\n" + longer)
    results, _ = compare(place)
    assert results["fair"] is False and "Not a fair" in results["comparison"]["fair"]
    table = (place.folder / "c/table.md").read_text()
    assert "**Not a fair comparison (fair = false): updates of" in table


def test_bad_files_and_folders_get_one_sentence(place):
    write(place, SET + '"model.widht" = 3\n')
    sentence = place.refused(2, "compare", "set.toml", "--out", "c")
    assert "set.toml:13: unknown key model.widht, did you mean model.width?" in sentence
    write(place, "seed = [1]\n" + SET)
    assert "did you mean seeds?" in place.refused(2, "compare", "set.toml", "--out", "c")
    write(place, SET.replace("tiny.toml", "other.toml"))
    assert "cannot read other.toml" in place.refused(2, "compare", "set.toml", "--out", "c")
    assert "cannot read" in place.refused(2, "compare", "nowhere.toml", "--out", "c")
    assert not (place.folder / "c").exists()
    write(place)
    assert "--check excludes --json" in place.refused(2, "compare", "set.toml", "--check", "--json")
    assert "contains other files" in place.refused(2, "compare", "set.toml", "--out", "corpus")
    (place.folder / "old").mkdir()
    stamp = place.folder / "old/compare.json"
    stamp.write_text('{"version": "0.0.1", "file": "set.toml"}')
    sentence = place.refused(2, "compare", "set.toml", "--out", "old")
    assert "old has results from leeway 0.0.1, but this is" in sentence
    version = place.ok("version").stdout.split()[1]
    stamp.write_text(json.dumps({"version": version, "file": "../another.toml"}))
    sentence = place.refused(2, "compare", "set.toml", "--out", "old")
    assert "old has results of another.toml, not of set.toml" in sentence
    stamp.write_text(json.dumps({"version": version, "file": "../set.toml"}))
    folder = os.open(place.folder / "old", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    assert "another comparison is running in old" in place.refused(
        1, "compare", "set.toml", "--out", "old"
    )
    os.close(folder)
    stamp.write_text("[")
    assert "from leeway ?" in place.refused(2, "compare", "set.toml", "--out", "old")


def test_a_folder_moves_with_its_file_and_takes_no_other_of_that_name(place):
    write(place)
    few = ["--set", "run.updates=2", "--set", "seeds=[1]"]
    compare(place, *few)
    other = place.folder / "other"
    other.mkdir()
    for name in ("set.toml", "tiny.toml"):
        shutil.copy(place.folder / name, other)
    sentence = place.refused(2, "compare", "other/set.toml", "--out", "c", *few)
    assert "c has results of set.toml, not of other/set.toml" in sentence
    shutil.copytree(place.folder / "c", other / "c")
    done = place.ok("compare", "other/set.toml", "--out", "other/c", *few)
    assert done.stderr == ""  # nothing was run


def test_changed_text_is_found_before_anything_runs(place):
    write(place)
    few = ["--set", "run.updates=2", "--set", "seeds=[1]"]
    results, _ = compare(place, *few)
    texts = {file: file.read_text() for file in (place.folder / "corpus").iterdir()}
    for file in texts:
        file.write_text("other words " + texts[file])
    first = f"c/{results['runs'][0]['folder']}"
    changed = f"the data has changed since {first} read it (corpus); choose another --out, or"
    assert changed in place.refused(2, "compare", "set.toml", "--out", "c", *few)
    write(place, SET + "[variants.new]\n")
    done = place.run("compare", "set.toml", "--out", "c", *few)
    assert done.returncode == 2 and changed in done.stderr and "new seed 1" not in done.stderr
    assert json.loads((place.folder / "c/results.json").read_text()) == results
    write(place)
    for file, text in texts.items():
        file.write_text(text)  # the same text again, with another time stamp
    assert compare(place, *few)[0] == results
    shutil.rmtree(place.folder / "corpus")
    assert compare(place, *few)[0] == results  # a table of finished runs needs no text


SETS = sorted((REPOSITORY / "recipes/compare").glob("*.toml"))


@pytest.mark.parametrize("file", SETS, ids=lambda file: file.stem)
def test_the_comparisons_of_the_repository_are_valid(place, file):
    said = place.ok("compare", file, "--check").stdout
    assert f"{file.name}: ok" in said and "will fail" not in said
    assert ("not fair" in said) == ("\nfair = false" in file.read_text())
    assert not (place.folder / "out").exists()
