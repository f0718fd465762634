"""What a report must not leave to guessing: which losses compare, what busy means, fitting axes."""

import json
import math
import os
import subprocess

from hand_made_run import pipeline, write_run
from places import LEEWAY
from test_report import BLANK_CANVASES, only_itself


def validated_run(place, name, text_hash, loss):
    started = {"event": "started", "valid_hash": text_hash, "tokenizer_hash": "b1"}
    update = {"event": "update", "update": 1, "loss": 3.0, "tokens": 16, "seconds": 2.0}
    valid = {"event": "evaluated", "update": 1, "valid_loss": loss, "windows": 4, "seconds": 2.0}
    write_run(place, [started, *pipeline(1, 1, 1), update, valid], name)


def test_losses_on_other_validation_text_are_told_apart(place, browser):
    for name, text_hash, loss in ("a", "1f", 2.5), ("b", "1f", 2.25), ("c", "2e", 2.125):
        validated_run(place, name, text_hash, loss)
    done = place.ok("report", "a", "b", "c", "--out", "mixed.html")
    note = "the validation losses of a, b and of c are not comparable"
    assert f"{note}: validation had a different text" in done.stderr
    assert "2.5000 on A" in done.stdout and "2.1250 on B" in done.stdout
    browser.open(place.folder / "mixed.html")
    assert note in browser.value("document.querySelector('.note').textContent")
    assert "2.1250 on B" in browser.value("document.getElementById('runs').innerText")
    labels = browser.value("charts[0].chart.data.datasets.map((set) => set.label)")
    assert "a, validation on A" in labels and "c, validation on B" in labels
    rows = json.loads(place.ok("report", "a", "c", "--out", "two.html", "--json").stdout)["runs"]
    assert [row["validated_on"] for row in rows] == ["A", "B"]
    alike = place.ok("report", "a", "b", "--out", "alike.html")
    assert "not comparable" not in alike.stderr and " on A" not in alike.stdout
    told = place.ok("report", "a", "--against", "c", "--out", "v.html").stdout
    assert "not comparable, because validation had a different text" in told
    assert "speed  8 tokens/s against 8 of c: equally fast" in told and "to loss" not in told


def test_more_threads_than_cores_are_told(place, browser):
    """A process may use one core: taskset makes waiting for it certain."""
    done = subprocess.run(
        ["taskset", "-c", str(min(os.sched_getaffinity(0))), LEEWAY, "train", "tiny.toml", "--out",
         "crowded", "--json", *place.sets(mesh__stages=2)],
        cwd=place.folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    summary = json.loads(done.stdout)
    assert (summary["cores"], summary["threads"]) == (1, 2)
    told = place.ok("report", "crowded")
    assert "busy of crowded includes waiting for a core: 2 threads on 1 core" in told.stderr
    browser.open(place.folder / "crowded/report.html")
    told = browser.value("document.getElementById('runs').innerText")
    assert "busy or waiting for a core (2 threads on 1 core)" in told
    assert "Waiting for a core" in browser.value("document.getElementById('busy').innerText")
    assert "waiting for a core" in place.ok("timeline", "crowded").stderr


def test_axes_fit_what_matters(place, browser):
    lines = []
    for update in range(1, 1001):
        loss = 2 + 8 * math.exp(-update / 20) + (update % 2) / 10
        line = {"event": "update", "update": update, "loss": loss, "tokens": update * 16}
        lines.append({**line, "gradient_norm": 1.0, "rate_factor": 1.0, "seconds": update / 10})
        if update % 100 == 0:
            valid = {"event": "evaluated", "update": update, "valid_loss": loss, "windows": 4}
            lines.append({**valid, "seconds": update / 10})
    folder = write_run(place, lines)
    (folder / "config.toml").write_text("[run]\nupdates = 2000\n[optimizer]\nrate = 0.5\n")
    place.ok("report", "r")
    page = place.folder / "r/report.html"
    browser.open(page)

    def choose(name, value):
        browser.value(
            f"{{ const tool = document.getElementById('{name}'); tool.value = '{value}';"
            "tool.dispatchEvent(new Event(tool.type === 'range' ? 'input' : 'change')) }"
        )

    def ends(axis):
        return [browser.value(f"charts[0].chart.scales.{axis}.{end}") for end in ("min", "max")]

    assert ends("x") == [0, 16000]
    low, high = ends("y")
    assert 1.9 < low < 2 and 2.1 < high < 2.3, "the first tenth is steep"
    choose("part", "all")
    assert ends("y")[1] > 9
    choose("part", "tenth")
    assert ends("x") == [14400, 16000] and ends("y")[1] - ends("y")[0] < 0.12
    choose("part", "whole")
    choose("smooth", "0.9")
    sets = browser.value("charts[0].chart.data.datasets.map((set) => set.data.slice(-2))")
    assert len(sets) == 3 and abs(sets[1][0]["y"] - sets[1][1]["y"]) < 0.02, "training, smoothed"
    assert math.isclose(abs(sets[2][0]["y"] - sets[2][1]["y"]), 0.1, rel_tol=0.01), "as it was"
    choose("measure", "perplexity")
    last = browser.value("charts[0].chart.data.datasets[0].data.at(-1).y")
    assert math.isclose(last, math.exp(lines[-1]["valid_loss"]), rel_tol=1e-6)
    choose("axis", "time")
    assert ends("x") == [0, 100]
    browser.value("charts[0].chart.options.plugins.legend.onClick(null, {text: 'training'})")
    browser.frame()
    assert browser.value("charts[0].chart.isDatasetVisible(1)") is False
    for box in "logarithmic-x", "logarithmic":
        browser.value(f"document.getElementById('{box}').click()")
    assert browser.value(BLANK_CANVASES) == []
    titles = browser.value(
        "charts.map(({chart}) => [chart.options.scales.x.title.text,"
        " chart.options.scales.y.title.text])"
    )
    assert all(x and y for x, y in titles), "every axis has its unit"
    assert browser.value("shown.runs[0].headline.learning_rate") == 0.5
    assert "update 1,000 of 2,000 (50 %)" in browser.value(
        "document.getElementById('progress').textContent"
    )
    only_itself(browser, page)
