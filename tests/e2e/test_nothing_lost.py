"""Locks, full disks, signals and pipes: training goes on, and what was trained is kept."""

import contextlib
import json
import os
import re
import resource
import signal
import subprocess

import pytest
from fleets import newest_update, until
from places import LEEWAY

# Never over before it is stopped, however busy the machine; its updates are large enough that the
# log stays one file meanwhile, which events() reads.
LONG = {"run__updates": 1_000_000, "run__evaluate_every": 0, "run__checkpoint_every": 0,
        "data__batch": 32}  # fmt: skip
PIPELINE = {"model__layers": 4, "mesh__stages": 4}


def begin(place, *arguments, **options):
    return subprocess.Popen(
        [LEEWAY, *map(str, arguments)],
        cwd=place.folder,
        text=True,
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=options.pop("stderr", subprocess.PIPE),
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},
        **options,
    )


def events(run, kind=None):
    with contextlib.suppress(FileNotFoundError):
        lines = (run / "events.jsonl").read_text().splitlines()
        found = [json.loads(line) for line in lines if line.endswith("}")]
        return [event for event in found if kind in (None, event["event"])]
    return []


def read_until(process, begin):
    """Standard error up to a line that begins with this pattern."""
    lines = []
    for line in process.stderr:
        lines.append(line)
        if re.match(begin, line):
            return lines
    raise AssertionError(f"it ended with {process.wait()}: {lines}")


@contextlib.contextmanager
def training(place, out, *arguments, updates=20, **options):
    """A run that has made its first updates, and is killed at the end of the block."""
    process = begin(place, "train", "tiny.toml", "--out", out, *arguments, **options)
    try:
        # By its log: the first line of progress of a long run comes after half a minute.
        until(process, lambda: newest_update(place.folder / out) >= updates)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def end(process, with_signal=signal.SIGINT):
    process.send_signal(with_signal)
    out, err = process.communicate(timeout=300)
    return out, err


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_one_process_holds_a_run(place):
    with training(place, "r", *place.sets(**LONG)) as process:
        for arguments in (
            ("train", "--resume", "--out", "r"),
            ("resume", "r"),
            ("train", "tiny.toml", "--fresh", "--out", "r"),
            ("train", "tiny.toml", "--out", "r"),
        ):
            sentence = place.refused(1, *arguments)
            assert f"r is in use by process {process.pid} on " in sentence and " since " in sentence
        assert not (place.folder / "r.1").exists()
        _, err = end(process)
        assert process.returncode == 130 and "everything is saved" in err
    assert not (place.folder / "r/.lock").exists()
    place.ok("resume", "r", "--stop-at", events(place.folder / "r", "ended")[-1]["update"] + 3)


def test_the_lock_dies_with_its_holder(place):
    with training(place, "r", *place.sets(**LONG)) as process:
        process.kill()
        process.wait()
    assert (place.folder / "r/.lock").exists()
    place.train("r", "--fresh")
    assert (place.folder / "r.1").exists() and not (place.folder / "r/.lock").exists()


def test_a_run_saves_into_its_own_folder_when_that_is_renamed(place):
    with training(place, "r", *place.sets(**LONG)) as process:
        (place.folder / "r").rename(place.folder / "old")
        second = place.train("r")
        end(process)
    old = json.loads((place.folder / "old/summary.json").read_text())
    assert list((place.folder / "old/checkpoints").iterdir())
    assert json.loads((place.folder / "r/summary.json").read_text()) == second
    assert old["updates"] != second["updates"]
    assert "identical" in place.ok("replay", "r").stdout


def test_a_finished_run_is_not_damaged(place):
    averaging = place.sets(mesh__replicas=2, averaging__merge="fixed_lag")
    first = place.train("r", *averaging)
    before = content(place.folder / "r")
    shorter = ("--resume", "--out", "r", "--set", "run.updates=5")
    sentence = place.refused(2, "train", *shorter)
    assert "has done 12 updates already, but run.updates is 5" in sentence
    sentence = place.refused(2, "resume", "r", "--set", "run.updates=14", "--stop-at", 7)
    assert "cannot stop at update 7" in sentence
    again = place.ok("resume", "r")
    assert "r is finished" in again.stderr and "12 rounds" in again.stdout
    assert content(place.folder / "r") == before
    assert "identical" in place.ok("replay", "r").stdout
    longer = json.loads(place.ok("resume", "r", "--set", "run.updates=14", "--json").stdout)
    assert (first["rounds"], longer["rounds"]) == (12, 14)


@pytest.mark.parametrize("name, status", [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_saves_and_has_its_own_exit_status(place, name, status):
    with training(place, "my run", *place.sets(**LONG, **PIPELINE)) as process:
        _, err = end(process, getattr(signal, name))
        assert process.returncode == status
        assert "everything is saved, resume with: leeway resume 'my run'" in err
    saved = events(place.folder / "my run", "saved")[-1]["update"]
    assert (place.folder / f"my run/checkpoints/update-{saved:08}/checkpoint.json").exists()
    assert "identical" in place.ok("replay", "my run").stdout


MESHES = {
    "pipeline": PIPELINE,
    "synchronous": {**PIPELINE, "pipeline__schedule": "1f1b", "pipeline__update_every": 4},
    "fixed lag": {**PIPELINE, "mesh__replicas": 2, "averaging__merge": "fixed_lag",
                  "averaging__lag": 2},
    "simulated": {**PIPELINE, "mesh__replicas": 2, "averaging__merge": "fixed_lag",
                  "run__driver": "sim"},
    "on arrival": {"mesh__replicas": 2, "averaging__merge": "on_arrival"},
}  # fmt: skip


@pytest.mark.parametrize("mesh", MESHES)
def test_sigusr1_saves_and_goes_on(place, mesh):
    run = place.folder / "r"
    with training(place, "r", *place.sets(**LONG, **MESHES[mesh])) as process:
        for _ in range(2):
            process.send_signal(signal.SIGUSR1)
            read_until(process, "saved ")
        if mesh == "on arrival":
            process.kill()
        else:
            end(process)
    first, second = (event["update"] for event in events(run, "saved")[:2])
    assert first != second
    if mesh == "on arrival":  # its replicas may be apart: the slower one may save first, and
        # where they end is something that a replay does not know
        place.ok("resume", "r", "--stop-at", events(run, "saved")[-1]["update"] + 300)
    else:
        assert first < second
        assert "identical" in place.ok("replay", "r").stdout
        saves = {w["update"] for w in events(run, "work") if w["kind"] == "save"}
        assert {first, second} < saves


def test_a_dead_reader_does_not_end_training(place):
    process = begin(place, "train", "tiny.toml", "--out", "r", stderr=subprocess.STDOUT)
    process.stdout.close()
    assert process.wait(timeout=120) == 0
    assert json.loads((place.folder / "r/summary.json").read_text())["finished"]


def test_a_reader_that_does_not_read_does_not_stop_training(place):
    read, write = os.pipe()
    size = 4096
    with contextlib.suppress(AttributeError, OSError):
        import fcntl

        fcntl.fcntl(write, 1031, size)  # F_SETPIPE_SZ
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, b"x" * size)
    os.set_blocking(write, True)
    process = begin(place, "train", "tiny.toml", "--out", "r", stderr=write)
    assert process.wait(timeout=120) == 0
    os.close(read), os.close(write)


def full_disk():
    """A disk that is full after 40 kB, until somebody raises the limit."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))


def free_disk(process):
    infinity = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, infinity)


def test_a_failed_save_is_tried_again(place):
    """The log fits, checkpoints do not; the disk is freed while the run goes on."""
    sets = place.sets(**{**LONG, "run__checkpoint_every": 5})
    run = place.folder / "r"
    with training(place, "r", *sets, preexec_fn=full_disk) as process:
        # Of whichever update: a newer one takes the place of one that waits for a busy disk.
        *_, sentence = read_until(process, r"warning: update \d+ is not saved: ")
        assert "it stays in memory and is tried again; there is no checkpoint yet" in sentence
        assert not events(run, "saved")
        free_disk(process)
        read_until(process, "saved ")
        end(process)
    assert process.returncode == 130
    assert events(run, "save_failed") and "identical" in place.ok("replay", "r").stdout


def test_the_last_save_waits_for_a_full_disk(place):
    whole = place.train("whole")
    process = begin(place, "train", "tiny.toml", "--out", "r", preexec_fn=full_disk)
    lines = read_until(process, "warning: the last checkpoint is not saved: ")
    assert "tries again for 5 minutes, Ctrl-C gives up" in lines[-1]
    free_disk(process)
    process.communicate(timeout=300)
    assert process.returncode == 0, lines
    summary = json.loads((place.folder / "r/summary.json").read_text())
    assert summary["finished"] and summary["weights_hash"] == whole["weights_hash"]
    assert "identical" in place.ok("replay", "r").stdout


def test_giving_up_the_last_save_keeps_the_last_good_checkpoint(place):
    whole = place.train("whole")
    place.train("r", "--stop-at", 4)
    before = content(place.folder / "r/checkpoints")
    process = begin(place, "resume", "r", preexec_fn=full_disk)
    lines = read_until(process, "warning: the last checkpoint is not saved: ")
    assert "tries again for 5 minutes, Ctrl-C gives up" in lines[-1]
    _, rest = end(process)
    assert process.returncode == 1
    assert rest.count("leeway: the last checkpoint is not saved: cannot write") == 1, rest
    assert "the run can be resumed from r/checkpoints/update-00000004" in rest
    assert content(place.folder / "r/checkpoints") == before
    assert place.train("r", "--resume")["weights_hash"] == whole["weights_hash"]


def test_resuming_a_run_by_its_name(place):
    whole = place.train("whole")
    place.train("parts", "--stop-at", 5)
    done = place.ok("train", "--resume", "parts", "--json", "--stop-at", 8)
    assert json.loads(done.stdout)["updates"] == 8
    done = place.ok("resume", "parts", "--json")
    assert json.loads(done.stdout)["weights_hash"] == whole["weights_hash"]
    assert "nowhere has no run to resume" in place.refused(2, "resume", "nowhere")


def test_resuming_and_replaying_from_another_folder(place):
    whole = place.train("whole")
    place.train("parts", "--stop-at", 5)
    elsewhere = place.folder / "elsewhere"
    elsewhere.mkdir()
    run = [LEEWAY, "resume", "../parts", "--json"]
    done = subprocess.run(run, cwd=elsewhere, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["weights_hash"] == whole["weights_hash"]
    replay = [LEEWAY, "replay", place.folder / "parts"]
    done = subprocess.run(replay, cwd="/", capture_output=True, text=True, timeout=120)
    assert "identical" in done.stdout, done.stderr


def test_eval_beside_a_run_that_cannot_be_written(place):
    place.train("shelf/r")
    shelf = place.folder / "shelf"
    (shelf / ".text").rename(place.folder / "text-of-the-run")
    # Root may write everywhere unless it gives that up.
    plain = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.getuid() == 0 else []
    for path in (shelf, *shelf.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    done = subprocess.run(
        [*plain, LEEWAY, "eval", "shelf/r", "--data", "corpus/text01.txt"],
        cwd=place.folder, capture_output=True, text=True, timeout=120,
        env={**os.environ, "XDG_CACHE_HOME": str(place.folder / "cache")},
    )  # fmt: skip
    for path in (shelf, *shelf.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    assert done.returncode == 0, done.stderr
    assert "loss" in done.stdout and (place.folder / "cache/leeway/text").exists()
    assert not (shelf / ".text").exists()
