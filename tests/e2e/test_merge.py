"""`leeway merge`: the logs of a run's processes as one run folder.

The logs are those of a real run, taken apart: where a line was in the whole log is its tick.
"""

import json
import re
import shutil

import pytest

SETS = {
    "model__layers": 2, "model__width": 16, "model__context": 16, "mesh__stages": 2,
    "mesh__replicas": 2, "averaging__merge": "on_arrival", "run__driver": "sim", "run__log": "all",
    "run__checkpoint_every": 0,
}  # fmt: skip
KINDS_OF_WORKERS = ("work", "predicted")


def lines_of(folder):
    return (folder / "events.jsonl").read_text().splitlines(keepends=True)


def add_tick(line, tick):
    return line[: line.rindex("}")] + f',"tick":{tick}}}\n'


def take_apart(folder, other):
    """Moves the work of replica 1 to the log of another process; returns the whole log."""
    whole, logs, session = [], [[], []], 0
    for line in lines_of(folder):
        event = json.loads(line)
        if event["event"] in ("started", "resumed"):
            session += 1
            joined = {"event": "joined", "session": session, "process": 1, "run": event["run"]}
            whole += [line, json.dumps(joined, separators=(",", ":")) + "\n"]
            logs[0].append(line)
            logs[1].append(whole[-1])
            expected, tick = [2, 2], 2
            continue
        tick += 1
        process = int(event["event"] in KINDS_OF_WORKERS and event["replica"] == 1)
        whole.append(line)
        logs[process].append(line if tick == expected[process] else add_tick(line, tick))
        expected[process] = tick + 1
    (folder / "events.jsonl").write_text("".join(logs[0]))
    other.mkdir()
    (other / "events.jsonl").write_text("".join(logs[1]))
    return whole


@pytest.fixture
def apart(place):
    """A finished run of two sessions, as if two processes had written it."""
    place.train("r", *place.sets(**SETS), "--stop-at", 5)
    place.summary = place.train("r", *place.sets(**SETS), "--resume")
    place.whole = take_apart(place.folder / "r", place.folder / "other")
    return place


def test_a_merged_run_is_read_like_any_other(apart):
    folder = apart.folder
    done = apart.ok("merge", "r", "other", "--out", "merged")
    assert done.stdout == (
        f"wrote merged: {len(apart.whole):,} lines of 2 logs; next: leeway report merged\n"
    )
    assert lines_of(folder / "merged") == apart.whole
    for name in ("config.toml", "summary.json"):
        assert (folder / "merged" / name).read_bytes() == (folder / "r" / name).read_bytes()
    assert (folder / "merged/tokenizer").is_dir() == (folder / "r/tokenizer").is_dir()
    done = apart.ok("replay", "merged")
    assert done.stdout.startswith("identical: 12 updates")
    assert apart.summary["weights_hash"] in done.stdout
    done = apart.ok("timeline", "merged")
    assert "2 stages, 2 replicas, 12 updates" in done.stdout and "leeway merge" not in done.stderr
    apart.ok("report", "merged", "--csv", "csv")
    workers = (folder / "csv/workers.csv").read_text().splitlines()
    assert len(workers) == 1 + 4
    assert "leeway merge" not in (folder / "merged/report.html").read_text()


def test_the_merged_folder_may_be_anywhere_and_logs_be_named(apart):
    apart.ok("merge", "r", "other/events.jsonl", "--out", "some/where/else")
    away = apart.folder / "away"
    away.mkdir()
    done = apart.ok("replay", "../some/where/else", cwd=away)
    assert done.stdout.startswith("identical"), "it finds the data from where the run was started"


def test_a_log_that_is_not_merged_says_so(apart):
    for command in ("replay", "report", "timeline", "dashboard"):
        refusal = apart.refused(2, command, "other")
        assert "other has the log of one process of a run; merge it" in refusal
        assert "leeway merge RUN other --out MERGED" in refusal
    assert "leeway merge r OTHER... --out MERGED" in apart.refused(1, "replay", "r")
    note = "this is the log of one of the run's processes, without the work of the others"
    assert f"note: {note}" in apart.ok("timeline", "r").stderr
    apart.ok("report", "r")
    assert note in (apart.folder / "r/report.html").read_text().replace("\\u0027", "'")


def test_a_process_that_was_killed_leaves_half_a_line(apart):
    log = apart.folder / "other/events.jsonl"
    log.write_text(log.read_text()[:-9])
    done = apart.ok("merge", "r", "other", "--out", "merged")
    assert re.search(r"warning: other/events.jsonl ends in an incomplete line", done.stderr)
    assert len(lines_of(apart.folder / "merged")) == len(apart.whole) - 1


def test_wrong_arguments_get_one_sentence_and_leave_nothing(apart):
    folder = apart.folder
    shutil.copytree(folder / "r", folder / "copy")
    (folder / "taken").mkdir()
    (folder / "taken/file").write_text("mine")
    before = sorted(folder.rglob("*"))
    for arguments, words in [
        (["r", "other", "--out", "taken"], "--out taken exists; choose another name"),
        (["r", "other", "--out", "other"], "--out other exists"),
        (["r", "other", "--out", "r/config.toml"], "--out r/config.toml exists"),
        (["other", "r", "--out", "m"], "other is not the folder of the coordinator's process"),
        (["corpus", "other", "--out", "m"], "corpus is not a run folder"),
        (["r", "corpus", "--out", "m"], "there is no log corpus/events.jsonl"),
        (["r", "nowhere", "--out", "m"], "there is no log nowhere"),
        (["r", "copy", "--out", "m"], "begin with `started`"),
        (["r", "other", "other", "--out", "m"], "other/events.jsonl is named twice"),
        (["r", "--out", "m"], "OTHER is required"),
        (["r", "other"], "--out is required"),
    ]:
        assert words in apart.refused(2, "merge", *arguments), arguments
    log = folder / "other/events.jsonl"
    log.write_text(log.read_text().replace('"session":2', '"session":3'))
    assert "joins session 3, but r/events.jsonl has 2" in apart.refused(
        1, "merge", "r", "other", "--out", "m"
    )
    assert sorted(folder.rglob("*")) == before
