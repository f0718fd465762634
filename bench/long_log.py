"""Writes a run folder with any number of events, without training: 4 stages, 2 replicas."""

import json

STAGES, REPLICAS, MICROBATCHES = 4, 2, 4
MICROSECOND = 1000


def update_lines(update, begin):
    """What every worker does for one update, in the order of a real log."""
    for replica in range(REPLICAS):
        for stage in range(STAGES):
            worker = {"replica": replica, "stage": stage}
            now = begin
            for microbatch in range(MICROBATCHES):
                for kind in "forward", "backward":
                    index = {"microbatch": update * MICROBATCHES + microbatch}
                    yield work(kind, worker | index, update, now, bytes=163840)
                    now += 1000 * MICROSECOND
            yield work("update", worker, update, now)
            round_of = worker | {"round": update, "lane": "main", "chunk": 0, "replicas": "0 1"}
            sizes = {"bytes": 4096, "spread": 0.01, "scale": 0.1 + 0.001 * (update % 7)}
            yield work("reduce", round_of, update, now + 1000 * MICROSECOND, **sizes)
            sizes = {"delay": 1, "drift": 0.01, "correction": 0.002}
            yield work("merge", round_of, update, now + 2000 * MICROSECOND, **sizes)
    loss = 5 / (1 + update * 0.001) + 0.01 * (update * 7919 % 13)
    seconds = (begin + 12_000 * MICROSECOND) / 1e9
    yield {"event": "update", "update": update, "loss": loss, "gradient_norm": 1.5,
           "rate_factor": 1.0, "tokens": update * 4096, "seconds": seconds}  # fmt: skip


def work(kind, who, update, begin, **more):
    times = {"begin": begin, "end": begin + 900 * MICROSECOND}
    rest = {"update": update, "version": update - 1, "delay": 0, **times, "bytes": 0}
    return {"event": "work", "kind": kind, **who, **rest, **more}


def write_long_run(folder, events):
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('[mesh]\nreplicas = 2\n[averaging]\nmethod = "sparse"\n')
    compact = json.JSONEncoder(separators=(",", ":")).encode
    with (folder / "events.jsonl").open("w") as log:
        update = 0
        while events > 0:
            update += 1
            lines = [*update_lines(update, begin=update * 13_000 * MICROSECOND)]
            log.writelines(compact(line) + "\n" for line in lines)
            events -= len(lines)
