"""Hand-written runs: what every worker did and when, and the numbers that follow from it."""

import json

KINDS = ("forward", "backward", "update", "save", "evaluate")
ROUNDS = ("contribute", "reduce", "merge")
MICROSECOND = 1000
FORWARD, BACKWARD, UPDATE = 10 * MICROSECOND, 20 * MICROSECOND, 3 * MICROSECOND


def work(kind, stage, begin, end, update, microbatch=None, **more):
    """One line of the log; `delay`, `version`, `bytes`, `replica`, `batch`, `lane` as given."""
    line = {"event": "work", "kind": kind, "replica": more.pop("replica", 0), "stage": stage}
    if kind in ("forward", "backward"):
        line["microbatch"] = microbatch
    elif kind == "evaluate":
        line["batch"] = more.pop("batch", 0)
    elif kind in ROUNDS:
        line.update({"round": microbatch, "lane": "main", "chunk": 0, "replicas": "0 1"})
    rest = {"update": update, "version": 0, "delay": 0, "begin": begin, "end": end, "bytes": 0}
    return {**line, **rest, **more}


def pipeline(stages, updates, update_every, first=0, start=0):
    """The asynchronous schedule of one replica: messages take no time, stages are equal.

    `first` updates are done when it begins, at time `start`.
    """
    forwards, backwards = [first * update_every] * stages, [first * update_every] * stages
    done, free = [first] * stages, [start] * stages
    activation, gradient, delays, lines = {}, {}, {}, []
    while min(done) < updates:
        moves = []
        for s in range(stages):
            if backwards[s] == (done[s] + 1) * update_every:
                moves.append((free[s], s, "update", done[s] + 1))
            elif forwards[s] < updates * update_every and forwards[s] - backwards[s] < stages - s:
                arrived = activation.get((s, forwards[s]), start if s == 0 else None)
                if arrived is not None:
                    moves.append((max(free[s], arrived), s, "forward", forwards[s]))
            elif (s, backwards[s]) in gradient:
                arrived = gradient[s, backwards[s]]
                moves.append((max(free[s], arrived), s, "backward", backwards[s]))
        begin, s, kind, index = min(moves)
        end = begin + {"forward": FORWARD, "backward": BACKWARD, "update": UPDATE}[kind]
        free[s] = end
        if kind == "update":
            done[s] += 1
            lines.append(work(kind, s, begin, end, done[s]))
            continue
        last = s == stages - 1
        if kind == "forward":
            forwards[s] += 1
            delays[s, index] = index // update_every - done[s]
            (gradient if last else activation)[(s if last else s + 1), index] = end
        else:
            backwards[s] += 1
            gradient[s - 1, index] = end
        sent = 0 if (kind == "forward" and last) or (kind == "backward" and s == 0) else 4096
        lines.append(
            work(kind, s, begin, end, index // update_every + 1, index,
                 delay=delays[s, index], bytes=sent)
        )  # fmt: skip
    return sorted(lines, key=lambda line: line["end"])


def write_run(place, lines, name="r"):
    folder = place.folder / name
    folder.mkdir()
    (folder / "config.toml").write_text("[run]\nupdates = 1\n")
    started = {"event": "started", "seed": 1}
    log = "".join(json.dumps(line) + "\n" for line in [started, *lines])
    (folder / "events.jsonl").write_text(log)
    return folder


def busy_share(lines, stage, begin, end):
    """Busy share of one stage of one replica in this time; overlapping pieces count once."""
    covered, until = 0, begin
    for line in sorted(lines, key=lambda line: line["begin"]):
        if line["stage"] == stage:
            covered += max(0, min(line["end"], end) - max(line["begin"], until))
            until = max(until, line["end"])
    return covered / (end - begin)


def after_warmup(lines, stage):
    own = [line for line in lines if line["stage"] == stage]
    begin = min(line["begin"] for line in own if line["kind"] == "backward")
    end = max(line["end"] for line in own if line["kind"] in KINDS[:3])
    return busy_share(lines, stage, begin, end)


def percent(share):
    return f"{share * 100:.1f} %"
