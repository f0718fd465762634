"""`leeway report`: its output in the terminal, in files, and on the page in a real browser."""

import csv
import json
import math
import os
import struct
import time

import pytest
from conftest import Workplace
from hand_made_run import pipeline, write_run
from places import BUILD

PICTURES = BUILD / "report-pictures"  # kept for inspection


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two real runs of two stages and two replicas that differ in a rate."""
    place = Workplace(tmp_path_factory.mktemp("runs"))
    mesh = place.sets(mesh__stages=2, mesh__replicas=2, averaging__merge="fixed_lag")
    place.summaries = {
        "a": place.train("out/a", *mesh),
        "b": place.train("out/b", *mesh, *place.sets(optimizer__rate=0.001, averaging__lag=2)),
    }
    return place


def only_itself(browser, page):
    """No request except for the page, and no console errors."""
    assert browser.complaints == []
    assert browser.requests == [page.resolve().as_uri()]


# Every canvas has pixels of more than one colour: something is drawn on it.
BLANK_CANVASES = """[...document.querySelectorAll('canvas')].filter((canvas) => {
  const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width,
    canvas.height).data.buffer);
  return new Set(pixels).size < 5;
}).map((canvas) => canvas.getAttribute('aria-label'))"""


def picture(browser, name, width, phone=False):
    browser.size(width, 900, phone)
    height = browser.value("document.documentElement.scrollHeight")
    browser.size(width, height, phone)
    browser.screenshot(PICTURES / f"{name}.png")


def test_a_page_of_one_run_shows_its_summary(runs, browser):
    done = runs.ok("report", "out/a")
    assert "wrote out/a/report.html" in done.stdout
    summary = runs.summaries["a"]
    assert f"{summary['valid_loss']:.4f}" in done.stdout
    page = runs.folder / "out/a/report.html"
    browser.prefer("light")
    browser.size(1280, 900)
    browser.open(page)
    only_itself(browser, page)
    tiles = browser.value(
        "Object.fromEntries([...document.querySelectorAll('[data-key]')]"
        ".map((tile) => [tile.dataset.key, [tile.dataset.value, tile.textContent]]))"
    )
    for key in ("valid_loss", "train_loss", "tokens_per_second"):
        assert float(tiles[key][0]) == summary[key]
    assert math.isclose(float(tiles["perplexity"][0]), math.exp(summary["valid_loss"]))
    events = [json.loads(line) for line in (page.parent / "events.jsonl").read_text().splitlines()]
    (tokens,) = [event["train_tokens"] for event in events if event["event"] == "started"]
    assert math.isclose(float(tiles["epochs"][0]), summary["tokens"] / tokens)
    words = browser.value("document.getElementById('runs').innerText")
    assert "mean of the last 20 updates" in words and "nats per token" in words
    assert tiles["valid_loss"][1] == f"{summary['valid_loss']:.4f}"
    assert tiles["tokens_per_second"][1] == f"{summary['tokens_per_second']:,.0f}"
    busy = sum(stage["busy"] for stage in summary["stages"]) / len(summary["stages"])
    assert math.isclose(float(tiles["busy"][0]), busy)
    share = summary["bytes_total_between_replicas"] / summary["bytes_allreduce"]
    assert math.isclose(float(tiles["traffic_share"][0]), share)
    assert browser.value("document.getElementById('report').dataset.charts") == "11"
    assert browser.value("document.querySelectorAll('canvas').length") == 11
    assert browser.value(BLANK_CANVASES) == []
    assert browser.value("document.querySelectorAll('#timeline .boxes rect').length") > 50
    picture(browser, "one-light", 1280)
    browser.value("document.querySelector('#timeline [data-action=in]').click()")
    browser.frame()
    moved = browser.value("document.querySelector('#timeline .boxes').getAttribute('transform')")
    assert moved.startswith("scale(2,1)")


def test_curves_busy_shares_and_traffic_are_those_of_the_run(runs, browser):
    runs.ok("report", "out/a")
    browser.open(runs.folder / "out/a/report.html")
    run = browser.value("shown.runs[0]")
    lines = (runs.folder / "out/a/events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    losses = [event["loss"] for event in events if event["event"] == "update"]
    points = run["curves"]["train_loss"]["points"]
    assert [point[0] for point in points] == list(range(1, 13))
    assert all(math.isclose(p[5], loss, rel_tol=1e-6) for p, loss in zip(points, losses))
    sent = sum(event["bytes"] for event in events if event["event"] == "work")
    purposes = ("activations", "gradients", "averaging", "evaluation")
    summary = runs.summaries["a"]
    assert sum(summary[f"bytes_{purpose}"] for purpose in purposes) == sent
    for stage in range(2):
        shares = [w["busy"] for w in run["workers"] if w["stage"] == stage]
        assert math.isclose(sum(shares) / 2, summary["stages"][stage]["busy"], rel_tol=1e-9)
    delays = [event for event in events if event.get("kind") == "backward"]
    counted = sum(count for w in run["workers"] for _, count in w["delays"])
    assert counted == len(delays)


def test_several_runs_are_compared_in_the_dark_and_on_a_phone(runs, browser):
    runs.ok("report", "out/a", "out/b")
    page = runs.folder / "out/report.html"
    browser.prefer("dark")
    browser.size(1280, 900)
    browser.open(page)
    rows = browser.value(
        "[...document.querySelectorAll('#configuration > .scroll tr')]"
        ".map((row) => [...row.children].map((cell) => cell.textContent))"
    )
    assert rows[0] == ["key", "a", "b"]
    assert {row[0] for row in rows[1:]} == {"optimizer.rate", "averaging.lag"}
    assert browser.value(BLANK_CANVASES) == []
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = browser.value(paper)
    picture(browser, "several-dark", 1280)
    browser.value("document.getElementById('theme').click()")
    assert browser.value(paper) == "rgb(255, 255, 255)" != dark
    browser.value("document.getElementById('theme').click()")
    assert browser.value(paper) == dark
    picture(browser, "several-phone", 390, phone=True)
    assert browser.value("document.documentElement.scrollWidth") <= 390
    only_itself(browser, page)


def test_the_axis_can_be_chosen_and_newer_data_shown(runs, browser):
    runs.ok("report", "out/a", "out/b")
    page = runs.folder / "out/report.html"
    browser.open(page)
    for axis, at in ("time", 2), ("averaged", 3), ("bytes", 4), ("tokens", 1):
        browser.value(
            f"document.getElementById('axis').value = '{axis}';"
            "document.getElementById('axis').dispatchEvent(new Event('change'))"
        )
        drawn = browser.value("charts[0].chart.data.datasets[0].data.map((point) => point.x)")
        points = browser.value("shown.runs[0].curves.valid_loss.points")
        assert drawn == [point[at] for point in points]
    browser.value(
        "{ const newer = structuredClone(shown); newer.title = 'newer';"
        " newer.runs[0].headline.valid_loss = 0.5; show(newer); }"
    )
    assert browser.value("document.querySelector('#runs td:nth-child(2)').textContent") == "0.5000"
    assert browser.value("document.getElementById('report').dataset.shown") == "2"
    assert browser.value(BLANK_CANVASES) == []
    comparison = {
        "title": "Variants", "columns": ["variant", "loss"], "fair": "Equal tokens.",
        "rows": [["sparse", {"mean": 2.5, "spread": 0.1}], ["none", {"failed": "diverged"}]],
    }  # fmt: skip
    browser.value(f"show({{...shown, comparison: {json.dumps(comparison)}}})")
    told = browser.value("document.getElementById('comparison').innerText")
    assert "2.5 ± 0.1" in told and "failed: diverged" in told and "Equal tokens." in told
    text = browser.value("csvOf(trafficTable())")
    sent = {(row["run"], row["purpose"]): row["bytes"] for row in csv.DictReader(text.splitlines())}
    assert int(sent["b", "averaging"]) == runs.summaries["b"]["bytes_averaging"]
    only_itself(browser, page)


def test_every_card_gives_its_numbers_as_csv(runs, browser):
    runs.ok("report", "out/a", "out/b")
    page = runs.folder / "out/report.html"
    browser.open(page)
    files = browser.value(
        """(async () => {
          const taken = {};
          let blob = null;
          URL.createObjectURL = (given) => { blob = given; return '#'; };
          HTMLAnchorElement.prototype.click = function () { taken[this.download] = blob; };
          for (const button of document.querySelectorAll('[data-csv]')) button.click();
          for (const name of Object.keys(taken)) taken[name] = await taken[name].text();
          return taken;
        })()"""
    )
    cards = browser.value("[...document.querySelectorAll('.card')].map((card) => card.id + '.csv')")
    assert set(files) == set(cards) and len(cards) == 16
    for name, text in files.items():
        head, *rows = csv.reader(text.splitlines())
        assert rows and all(len(row) == len(head) for row in rows), name
    losses = csv.DictReader(files["loss.csv"].splitlines())
    last = [row for row in losses if (row["run"], row["curve"]) == ("a", "valid_loss")][-1]
    assert math.isclose(float(last["value"]), runs.summaries["a"]["valid_loss"], rel_tol=1e-6)
    only_itself(browser, page)


def test_boxes_of_several_pieces_have_as_many_columns_as_others(place, browser):
    lines = pipeline(stages=2, updates=20, update_every=2)
    late = {**lines[-1], "begin": 10**12, "end": 10**12 + 10**9}  # merges the others into few boxes
    write_run(place, [*lines, late])
    place.ok("report", "r")
    browser.open(place.folder / "r/report.html")
    head, *rows = csv.reader(browser.value("csvOf(timelineTable())").splitlines())
    assert any(row[2:] == [""] * 7 for row in rows) and any(row[2] for row in rows)
    assert {len(row) for row in rows} == {len(head)}


def test_a_page_without_charts_has_its_tables(runs, browser):
    """What a program built without Chart.js would write."""
    runs.ok("report", "out/a")
    page = runs.folder / "out/a/report.html"
    text = page.read_text()
    begin = text.index("<script>/*!")
    text = text[:begin] + "<script>" + text[text.index("</script>", begin) :]
    page.write_text(text)
    browser.open(page)
    only_itself(browser, page)
    assert "without Chart.js" in browser.value("document.querySelector('.note').textContent")
    assert browser.value("document.querySelectorAll('#traffic tbody tr').length") == 5


def test_a_long_run_is_thinned_and_says_so(place, browser):
    lines = []
    for update in range(1, 9001):
        line = {"event": "update", "update": update, "loss": 5 + update % 3, "tokens": update * 10}
        lines.append({**line, "gradient_norm": 1.0, "seconds": update / 100})
    lines[4567]["loss"] = 99.0
    write_run(place, [*pipeline(stages=2, updates=400, update_every=8), *lines])
    place.ok("report", "r")
    page = place.folder / "r/report.html"
    assert page.stat().st_size < 10_000_000
    browser.open(page)
    only_itself(browser, page)
    curve = browser.value("shown.runs[0].curves.train_loss")
    assert curve["seen"] == 9000 and curve["thinned"] and len(curve["points"]) <= 2000
    assert max(point[5] for point in curve["points"]) == 99.0
    assert "of 9,000 points" in browser.value("document.getElementById('loss').textContent")
    assert "thinned" in browser.value("document.querySelector('.note').textContent")


def records(data):
    """The events of a TensorBoard file; every checksum is checked, bit by bit."""

    def masked_crc(part):
        crc = 0xFFFFFFFF
        for byte in part:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        crc ^= 0xFFFFFFFF
        return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

    at = 0
    while at < len(data):
        (length, length_crc) = struct.unpack_from("<QI", data, at)
        event = data[at + 12 : at + 12 + length]
        (event_crc,) = struct.unpack_from("<I", data, at + 12 + length)
        assert length_crc == masked_crc(data[at : at + 8])
        assert event_crc == masked_crc(event)
        yield fields(event)
        at += 16 + length


def fields(message):
    """Field number -> value, for one level of a protocol buffer."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            found[key >> 3] = varint()
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        part = message[at : at + size]
        at += size
        found[key >> 3] = struct.unpack({1: "<d", 5: "<f"}[kind], part)[0] if kind != 2 else part
    return found


def test_tensorboard_and_csv_files_hold_the_curves(runs):
    runs.ok("report", "out/a", "out/b", "--csv", "tables", "--tensorboard", "board")
    with (runs.folder / "tables/curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    (file,) = (runs.folder / "board/b").iterdir()
    assert "tfevents" in file.name
    first, *events = records(file.read_bytes())
    assert first[3] == b"brain.Event:2"
    scalars = {}
    for event in events:
        value = fields(fields(event[5])[1])
        scalars.setdefault(value[1].decode(), []).append((event[2], value[2]))
    assert {"train_loss", "valid_loss", "tokens_per_second", "consensus", "lag"} <= set(scalars)
    for name, points in scalars.items():
        table = [row for row in rows if (row["run"], row["curve"]) == ("b", name)]
        assert [int(row["update"]) for row in table] == [step for step, _ in points]
        for row, (_, value) in zip(table, points):
            assert math.isclose(float(row["value"]), value, rel_tol=1e-6)
    assert scalars["valid_loss"][-1][0] == 12
    names = {path.name for path in (runs.folder / "tables").iterdir()}
    assert names == {
        "runs.csv", "curves.csv", "workers.csv", "histograms.csv", "traffic.csv",
        "configuration.csv",
    }  # fmt: skip


def test_json_has_the_numbers_of_the_summaries(runs):
    told = json.loads(runs.ok("report", "out/a", "out/b/", "--json", "--out", "p.html").stdout)
    assert told["page"] == "p.html" and (runs.folder / "p.html").exists()
    assert [run["run"] for run in told["runs"]] == ["a", "b"]
    for run in told["runs"]:
        summary = runs.summaries[run["run"]]
        assert run["state"] == "finished" and run["notes"] == []
        for key in ("valid_loss", "train_loss", "tokens_per_second", "bytes_averaging",
                    "bytes_allreduce", "consensus", "lag_mean", "updates"):
            assert run[key] == summary[key], key


def test_a_verdict_compares_only_what_can_be(runs):
    assert ", after the same tokens" in runs.ok("report", "out/a", "--against", "out/b").stdout
    runs.train("out/c", *runs.sets(run__evaluate_windows=2, run__driver="sim"))
    told = runs.ok("report", "out/a", "--against", "out/c").stdout
    loss, busy = [line for line in told.splitlines() if line.startswith(("loss ", "busy "))]
    assert "not comparable, because validation had a different number of windows" in loss
    assert "%" not in loss
    assert "of simulated time in c: these shares are not comparable" in busy
    assert "(simulated) of c: these clocks are not comparable" in told


def test_wrong_folders_get_one_sentence(place):
    assert "corpus is not a run folder" in place.refused(2, "report", "corpus")
    assert "nowhere is not a run folder" in place.refused(2, "report", "nowhere")
    folder = write_run(place, pipeline(stages=1, updates=2, update_every=1))
    assert "r is named twice" in place.refused(2, "report", "r", "./r")
    assert "there is no folder no" in place.refused(2, "report", "r", "--out", "no/page.html")
    assert "must end in .html" in place.refused(2, "report", "r", "--out", "r/events.jsonl")
    (place.folder / "notes.html").write_text("my own")
    assert "was not written by" in place.refused(2, "report", "r", "--out", "notes.html")
    for _ in range(2):  # may overwrite its own page
        place.ok("report", "r", "--out", "page.html")
    assert "--csv tiny.toml is a file" in place.refused(2, "report", "r", "--csv", "tiny.toml")
    with (folder / "events.jsonl").open("a") as file:
        file.write("garbage\n")
    sentence = place.refused(1, "report", "r")
    assert "r/events.jsonl:" in sentence and "is not an event" in sentence


def test_a_diverged_run_says_so(place):
    sets = place.sets(optimizer__name="sgd", optimizer__rate=100, optimizer__clip=0)
    place.refused(1, "train", "tiny.toml", "--out", "r", *sets, "--set", "run.updates=20")
    done = place.ok("report", "r")
    (row,) = [line.split() for line in done.stdout.splitlines() if line.startswith("r ")]
    assert row[1] == "diverged"
    assert "the run diverged" in done.stderr and "has not ended" not in done.stderr


def test_an_unfinished_run_is_reported_so_far(place):
    folder = write_run(place, pipeline(stages=1, updates=2, update_every=1))
    with (folder / "events.jsonl").open("a") as file:
        file.write('{"event":"upd')
    os.utime(folder / "events.jsonl", (time.time() - 600,) * 2)
    notes = place.ok("report", "r").stderr
    assert "incomplete line" in notes
    assert "was cut off, or goes on where its lock cannot be seen" in notes
    assert "last event 10 min" in notes
    (folder / "events.jsonl").unlink()
    assert "there is no events.jsonl" in place.ok("report", "r").stderr
    (folder / "events.jsonl").write_text("")
    assert "no update was completed" in place.ok("report", "r").stderr
    (folder / "summary.json").write_text('{"version": "9.9.9", "finished": true}')
    (folder / "events.jsonl").write_text('{"event":"ended","update":0,"finished":true}\n')
    assert "made by version 9.9.9" in place.ok("report", "r").stderr
