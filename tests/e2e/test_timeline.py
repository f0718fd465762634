"""`leeway timeline` on hand-written runs, so that every number is known."""

import itertools
import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
from hand_made_run import (
    MICROSECOND,
    after_warmup,
    busy_share,
    percent,
    pipeline,
    work,
    write_run,
)

SVG = "{http://www.w3.org/2000/svg}"
BELOW = "bubbles: idle share after warm-up, whole run; delay: in updates, mean and max"


def parse(path):
    """The picture as XML, which is stricter than a browser."""
    text = path.read_text(encoding="utf-8")
    assert len(re.findall("http", text)) == 1 and "http://www.w3.org/2000/svg" in text
    assert not re.search(r"\bsrc=|\bhref=|url\(|@import|fetch\(|XMLHttpRequest", text)
    return ElementTree.fromstring(text)


def boxes(root):
    """Box count by class, over all pictures in the file."""
    rects = itertools.chain.from_iterable(
        lane.iter(f"{SVG}rect") for lane in root.iter(f"{SVG}g") if lane.get("class") == "lane"
    )
    names = [rect.get("class") for rect in rects]
    return {name: names.count(name) for name in set(names)}


def titles(root):
    return [title.text for title in root.iter(f"{SVG}title")]


def table(done):
    """What was printed, by stage and column."""
    lines = done.stdout.split("\n\n", 1)[1].splitlines()
    rows = [re.split(r"\s{2,}", line) for line in lines[: lines.index(BELOW)]]
    return {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[1:]}


def test_every_piece_is_drawn_and_the_busy_shares_are_printed(place):
    lines = pipeline(stages=3, updates=6, update_every=3)
    write_run(place, lines)
    done = place.ok("timeline", "r")
    root = parse(place.folder / "r/timeline.svg")
    assert boxes(root) == {"forward": 54, "backward": 54, "update": 18}
    rows = table(done)
    end = max(line["end"] for line in lines)
    for stage in range(3):
        row = rows[str(stage)]
        assert row["busy, drawn"] == percent(busy_share(lines, stage, 0, end))
        share = after_warmup(lines, stage)
        assert row["after warm-up"] == percent(share)
        assert row["bubbles"] == percent(1 - share)
        late = [line["delay"] for line in lines
                if line["stage"] == stage and line["kind"] == "backward" and line["update"] > 1]
        assert row["delay"] == f"{sum(late) / len(late):.2f}"
        assert row["delay"] == f"{(2 - stage) / 3:.2f}"  # W_s / K
        assert row["max"] == str(max(late))
    assert rows["0"]["sent"] == f"{18 * 4096 / 1000:.1f} kB"
    assert rows["1"]["sent"] == f"{36 * 4096 / 1000:.1f} kB"
    assert "r: 3 stages, 1 replica, 6 updates: 126 pieces of work in" in done.stdout
    assert "drawn: the whole run (0 s to" in done.stdout
    assert "wrote r/timeline.svg" in done.stdout and done.stderr == ""
    assert set(rows) == {"0", "1", "2", "all"}


def test_boxes_are_where_the_work_was(place):
    lines = pipeline(stages=2, updates=2, update_every=2)
    write_run(place, lines)
    place.ok("timeline", "r")
    root = parse(place.folder / "r/timeline.svg")
    plot = next(svg for svg in root.iter(f"{SVG}svg") if svg.get("class") == "plot")
    whole = max(line["end"] for line in lines) / float(plot.get("width"))
    for stage, lane in enumerate(g for g in root.iter(f"{SVG}g") if g.get("class") == "lane"):
        own = sorted((x for x in lines if x["stage"] == stage), key=lambda x: x["begin"])
        for line, rect in zip(own, lane, strict=True):
            assert rect.get("class") == line["kind"]
            assert float(rect.get("x")) * whole == pytest.approx(line["begin"], abs=whole)
            assert float(rect.get("width")) * whole == pytest.approx(
                line["end"] - line["begin"], abs=whole
            )
            words = rect.find(f"{SVG}title").text.split(", ")
            assert words[0] == line["kind"] and f"update {line['update']}" in words
            assert words[-1] == f"{line['bytes']} bytes"


def test_replicas_have_rows_of_their_own(place):
    lines = pipeline(stages=2, updates=3, update_every=1)
    write_run(place, lines + [{**line, "replica": 1} for line in lines])
    done = place.ok("timeline", "r")
    assert "2 stages, 2 replicas, 3 updates" in done.stdout
    root = parse(place.folder / "r/timeline.svg")
    workers = [g.get("data-worker") for g in root.iter(f"{SVG}g") if g.get("class") == "lane"]
    assert workers == [f"replica {r}, stage {s}" for r in range(2) for s in range(2)]


def test_replicas_with_unequal_progress_show_a_range(place):
    lines = pipeline(stages=2, updates=3, update_every=1)
    write_run(place, lines + [{**line, "replica": 1} for line in lines if line["update"] < 3])
    assert "2 stages, 2 replicas, 2 to 3 updates" in place.ok("timeline", "r").stdout


def with_rounds(lines):
    """Every worker exchanges something after its updates, in two replicas."""
    found = []
    for line in lines + [{**line, "replica": 1} for line in lines]:
        found.append(line)
        if line["kind"] != "update":
            continue
        n, at, where = line["update"], line["end"], {"replica": line["replica"]}
        found += [
            work("merge", line["stage"], at, at + 300, n, n - 1, delay=1, **where),
            work("contribute", line["stage"], at + 300, at + 500, n, n, bytes=1000, **where),
            work("reduce", line["stage"], at + 600, at + 900, n - 1, n, bytes=500, **where),
            work("contribute", line["stage"], at + 900, at + 950, n, n, lane="evaluation", **where),
        ]
    return found


def test_rounds_are_drawn_and_counted_as_work(place):
    lines = pipeline(stages=2, updates=3, update_every=2)
    # Stage 0 waits for the gradient of its last microbatch, so it has time for others.
    gap = work("reduce", 0, 186 * MICROSECOND, 191 * MICROSECOND, 2, 3)
    all_lines = [*with_rounds(lines), gap, {**gap, "replica": 1}]
    write_run(place, all_lines)
    done = place.ok("timeline", "r", "--trace", "t.json")
    assert "2 stages, 2 replicas, 3 updates" in done.stdout
    root = parse(place.folder / "r/timeline.svg")
    assert boxes(root) == {
        "forward": 24, "backward": 24, "update": 12, "merge": 12, "contribute": 12, "reduce": 14,
        "contribute evaluation": 12,
    }  # fmt: skip
    legend = next(g for g in root.iter(f"{SVG}g") if g.get("class") == "legend")
    assert [text.text for text in legend.iter(f"{SVG}text")] == [
        "forward", "backward", "update", "evaluate", "contribute", "reduce", "merge", "waits",
    ]  # fmt: skip
    rounds = [line for line in all_lines if line["replica"] == 0]
    for stage in range(2):
        row = table(done)[str(stage)]
        assert row["after warm-up"] == percent(after_warmup(rounds, stage))
    assert after_warmup(rounds, 0) > after_warmup(lines, 0)
    for words, many in {
        "reduce, round 2, chunk 0, of replicas 0 1, ": 4,
        "merge, round 2, chunk 0, lag 1, ": 4,
        "contribute, a copy for evaluation, ": 12,
    }.items():
        assert sum(title.startswith(words) for title in titles(root)) == many
    trace = json.loads((place.folder / "t.json").read_text())["traceEvents"]
    merge = next(event for event in trace if event["name"] == "merge 2")
    assert merge["args"]["lag"] == 1 and merge["args"]["lane"] == "main"


def test_a_picture_elsewhere_and_a_trace(place):
    lines = pipeline(stages=2, updates=4, update_every=2)
    lines += [
        work("evaluate", 1, 10**6, 10**6 + 500, 4, batch=3),
        work("save", 1, 10**6 + 500, 10**6 + 900, 4),
    ]
    write_run(place, lines)
    place.ok("timeline", "r", "--out", "p.svg", "--trace", "t.json")
    root = parse(place.folder / "p.svg")
    assert root.tag == f"{SVG}svg"
    assert boxes(root) == {"forward": 16, "backward": 16, "update": 8, "evaluate": 1, "save": 1}
    words = titles(root)
    assert len(words) == 42 and any(title.startswith("evaluate, batch 3") for title in words)
    assert not (place.folder / "r/timeline.svg").exists()

    trace = json.loads((place.folder / "t.json").read_text())["traceEvents"]
    complete = [event for event in trace if event["ph"] == "X"]
    expected = sorted((x["replica"], x["stage"], x["begin"] / 1000, x["kind"]) for x in lines)
    got = sorted((e["pid"], e["tid"], e["ts"], e["cat"]) for e in complete)
    assert got == expected
    assert all(event["dur"] > 0 and event["args"]["update"] >= 1 for event in complete)
    names = [event["args"]["name"] for event in trace if event["name"] == "thread_name"]
    assert names == ["stage 0", "stage 1"]
    starts = [event["id"] for event in trace if event["ph"] == "s"]
    assert len(starts) == len(set(starts)) == 8  # microbatches


def test_a_part_can_be_selected(place):
    lines = pipeline(stages=2, updates=10, update_every=2)
    write_run(place, lines)
    done = place.ok("timeline", "r", "--updates", "4:6", "--trace", "t.json")
    chosen = [line for line in lines if 4 <= line["update"] <= 6]
    begin, end = min(x["begin"] for x in chosen), max(x["end"] for x in chosen)
    inside = [line for line in lines if line["begin"] < end and line["end"] > begin]
    root = parse(place.folder / "r/timeline.svg")
    assert sum(boxes(root).values()) == len(inside) > len(chosen)
    assert table(done)["0"]["busy, drawn"] == percent(busy_share(lines, 0, begin, end))
    assert "drawn: updates 4 to 6 of 10" in done.stdout
    assert "of updates 4 to 6 of 10; open it at" in done.stdout

    begin, end = 100 * MICROSECOND, 200 * MICROSECOND
    done = place.ok("timeline", "r", "--from", "0.0001", "--to", "0.0002")
    inside = [line for line in lines if line["begin"] < end and line["end"] > begin]
    root = parse(place.folder / "r/timeline.svg")
    assert sum(boxes(root).values()) == len(inside)
    assert table(done)["1"]["busy, drawn"] == percent(busy_share(lines, 1, begin, end))


def test_a_long_run_is_drawn_in_part_and_stays_small(place):
    lines = pipeline(stages=4, updates=1500, update_every=4)
    write_run(place, lines)
    done = place.ok("timeline", "r")
    assert re.search(r"drawn: updates 1 to \d of 1500 .* and updates 750 to 75\d of", done.stdout)
    root = parse(place.folder / "r/timeline.svg")
    assert 300 < sum(boxes(root).values()) < 1000
    rows = table(done)
    assert float(rows["0"]["busy, middle"].split()[0]) > 99.0
    assert float(rows["0"]["busy, start"].split()[0]) < 95.0

    done = place.ok("timeline", "r", "--from", "0")
    assert "boxes stand for several pieces of work each" in done.stderr
    assert (place.folder / "r/timeline.svg").stat().st_size < 5_000_000
    whole = boxes(parse(place.folder / "r/timeline.svg"))
    assert whole["several"] > 1000 and sum(whole.values()) <= 20_000


def test_a_resumed_run_shows_only_work_that_counts(place):
    first = pipeline(stages=2, updates=5, update_every=2)
    at = max(line["end"] for line in first if line["update"] <= 3)
    again = pipeline(stages=2, updates=6, update_every=2, first=3, start=at + 500 * MICROSECOND)
    write_run(place, [*first, {"event": "resumed", "update": 3}, *again])
    done = place.ok("timeline", "r")
    root = parse(place.folder / "r/timeline.svg")
    assert boxes(root) == {"forward": 24, "backward": 24, "update": 12}
    kept = [line for line in first if line["update"] <= 3]
    # Warm-up and the time between sessions are not bubbles.
    spans = []
    for session in (kept, again):
        own = [line for line in session if line["stage"] == 0]
        begin = min(line["begin"] for line in own if line["kind"] == "backward")
        end = max(line["end"] for line in own)
        spans.append((busy_share(session, 0, begin, end) * (end - begin), end - begin))
    share = sum(busy for busy, _ in spans) / sum(whole for _, whole in spans)
    assert table(done)["0"]["after warm-up"] == percent(share)


def test_an_incomplete_last_line_is_left_out_and_noted(place):
    lines = pipeline(stages=2, updates=2, update_every=2)
    folder = write_run(place, lines)
    log = (folder / "events.jsonl").read_text()
    (folder / "events.jsonl").write_text(log[:-30])
    done = place.ok("timeline", "r")
    assert done.stderr == (
        "note: events.jsonl ends in an incomplete line, which is left out (the run is in progress "
        "or was killed)\n"
    )
    root = parse(folder / "timeline.svg")
    assert sum(boxes(root).values()) == len(lines) - 1


def test_every_mistake_gets_one_sentence(place):
    lines = pipeline(stages=2, updates=2, update_every=2)
    folder = write_run(place, lines)
    log = (folder / "events.jsonl").read_text()
    (place.folder / "other").mkdir()
    assert "nowhere is not a run folder" in place.refused(2, "timeline", "nowhere")
    assert "other is not a run folder" in place.refused(2, "timeline", "other")
    assert "corpus is a folder" in place.refused(2, "timeline", "r", "--out", "corpus")
    for name in "p.png", "r/events.jsonl":
        sentence = place.refused(2, "timeline", "r", "--out", name)
        assert f"--out {name}: the file name must end in .svg" in sentence
    sentence = place.refused(2, "timeline", "r", "--out", "p.html")
    assert "`leeway report r` makes a page" in sentence
    assert "must end in .json" in place.refused(2, "timeline", "r", "--trace", "r/config.toml")
    (place.folder / "r/summary.json").write_text("{}")
    assert "was not written by" in place.refused(2, "timeline", "r", "--trace", "r/summary.json")
    (place.folder / "mine.svg").write_text("<!-- mine -->")
    assert "was not written by" in place.refused(2, "timeline", "r", "--out", "mine.svg")
    for _ in range(2):  # may overwrite its own files
        place.ok("timeline", "r", "--out", "p.svg", "--trace", "t.json")
    sentence = place.refused(2, "timeline", "r", "--out", "no/such/p.svg")
    assert "--out no/such/p.svg: there is no folder no/such; create it first" in sentence
    sentence = place.refused(2, "timeline", "r", "--trace", "no/t.json")
    assert "--trace no/t.json: there is no folder no" in sentence
    sentence = place.refused(2, "timeline", "r", "--from", 60, "--to", 70)
    assert "no work from 60.00 s to 70.00 s; the run has work from 0 s to" in sentence
    assert "--from 3 is not before --to 2" in place.refused(
        2, "timeline", "r", "--from", 3, "--to", 2
    )
    assert "the run has updates 1 to 2" in place.refused(2, "timeline", "r", "--updates", "5:9")
    assert "--updates: got 9:5" in place.refused(2, "timeline", "r", "--updates", "9:5")
    assert "--from" in place.refused(2, "timeline", "r", "--updates", "1", "--from", 0)
    assert "got -1; give 0 or more" in place.refused(2, "timeline", "r", "--from", -1)
    middle = log.splitlines()
    middle[3] = middle[3][:20]
    (folder / "events.jsonl").write_text("\n".join(middle) + "\n")
    assert "r/events.jsonl:4 is not an event" in place.refused(1, "timeline", "r")
    middle[3] = '{"event":"work","kind":"forward"}'
    (folder / "events.jsonl").write_text("\n".join(middle) + "\n")
    assert "r/events.jsonl:4: a piece of work has no" in place.refused(1, "timeline", "r")
    (folder / "events.jsonl").write_text('{"event":"started","seed":1}\n')
    assert "r/events.jsonl records no work" in place.refused(1, "timeline", "r")
    (folder / "events.jsonl").unlink()
    assert "r has no events.jsonl" in place.refused(1, "timeline", "r")
    assert not (folder / "timeline.svg").exists()


def test_help_has_an_example(place):
    assert "leeway timeline out/first" in place.ok("timeline", "--help").stdout
    assert "timeline" in place.ok("--help").stdout


def test_what_training_writes_can_be_drawn(place):
    values = place.sets(mesh__stages=2, pipeline__update_every=2, run__evaluate_every=0)
    place.train("r", *values)
    done = place.ok("timeline", "r")
    drawn = boxes(parse(place.folder / "r/timeline.svg"))
    assert (drawn["forward"], drawn["backward"], drawn["update"]) == (48, 48, 24)
    assert table(done)["0"]["max"] == "1" and table(done)["1"]["max"] == "0"


def pointed_at(browser, place, box):
    """Zooms the timeline with a button, hovers over a box, and returns the tooltip."""
    place.ok("report", "r")
    browser.open(place.folder / "r/report.html")
    browser.value("document.querySelector('#timeline [data-action=in]').click()")
    browser.frame()
    browser.value(
        """(() => {
          const box = %s;
          const at = box.getBoundingClientRect();
          box.dispatchEvent(new PointerEvent('pointermove',
            {bubbles: true, clientX: at.x + 1, clientY: at.y + 1}));
        })()""" % box
    )
    browser.frame()
    assert browser.complaints == []
    return browser.value("document.getElementById('tip').textContent")


def test_pointing_at_a_box_shows_the_way_of_its_microbatch(place, browser):
    write_run(place, pipeline(stages=2, updates=4, update_every=2))
    tip = pointed_at(browser, place, "document.querySelectorAll('.lane')[1].children[3]")
    assert tip.startswith("backward, stage 1\nmicrobatch 1 of update 1\n")
    moved = browser.value("document.querySelector('.boxes').getAttribute('transform')")
    assert moved.startswith("scale(2,1) translate(")
    assert browser.value("document.querySelectorAll('.backward.on-path').length") == 2


def test_pointing_at_a_merge_says_whose_it_is(place, browser):
    write_run(place, with_rounds(pipeline(stages=2, updates=4, update_every=2)))
    merge = "document.querySelectorAll('.lane')[2].querySelector('.merge')"
    tip = pointed_at(browser, place, merge)
    assert tip.startswith(
        "merge, replica 1, stage 0\nround 0, chunk 0, lag 1\nafter update 1\ntook 300 ns, from "
    )
