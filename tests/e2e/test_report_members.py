"""`leeway report` and who took part when: hand-made runs in which replicas leave and come back."""

import csv
import json

from places import BUILD

PICTURES = BUILD / "report-pictures"  # kept for inspection


def members(update, replicas, **more):
    return {"event": "members", "update": update, "table": 1, "replicas": replicas, **more}


def write_run(place, name, lines, replicas=3, updates=600):
    """A run with these lines, each before the update after its own; returns the folder."""
    folder = place.folder / name
    folder.mkdir()
    (folder / "config.toml").write_text(
        f"[run]\nupdates = {updates}\n[mesh]\nreplicas = {replicas}\n"
    )
    log = [{"event": "started", "seed": 1}]
    for update in range(1, updates + 1):
        log += [line for line in lines if line["update"] == update - 1]
        numbers = {"loss": 3 + 100 / (20 + update), "tokens": 96 * update, "seconds": update / 9}
        log.append({"event": "update", "update": update, **numbers})
    (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    return folder


LEFT_AND_BACK = [
    members(200, "0 2"),
    members(200, "0 2"),  # a coordinator that was started again
    members(250, "0 two"),
    members(303, "0 1 2", joined=1, **{"from": 303}),
]
TWO_STRETCHES = "1 to 200, 304 to 600"


def test_json_and_text_say_who_was_away(place):
    write_run(place, "r", LEFT_AND_BACK)
    write_run(place, "whole", [])
    told = json.loads(place.ok("report", "r", "whole", "--json", "--out", "p.html").stdout)
    assert [run["members"] for run in told["runs"]] == [
        [
            {"replica": 0, "updates": [[1, 600]]},
            {"replica": 1, "updates": [[1, 200], [304, 600]]},
            {"replica": 2, "updates": [[1, 600]]},
        ],
        [],
    ]
    notes = place.ok("report", "r", "whole").stderr
    assert f"r: replica 1 took part in updates {TWO_STRETCHES}\n" in notes
    assert notes.count("took part") == 1


def test_a_resumed_session_has_all_replicas_again(place):
    resumed = {"event": "resumed", "update": 400}
    write_run(place, "r", [members(200, "0 2"), members(300, "0"), resumed])
    (run,) = json.loads(place.ok("report", "r", "--json").stdout)["runs"]
    assert run["members"][1:] == [
        {"replica": 1, "updates": [[1, 200], [401, 600]]},
        {"replica": 2, "updates": [[1, 300], [401, 600]]},
    ]


# The drawn rows, and what each box says when the mouse is over it.
DRAWN = """(() => {
  const {chart} = charts.find(({canvas}) => canvas.closest('#members'));
  const words = chart.options.plugins.tooltip.callbacks.label;
  return {rows: chart.data.labels, ends: [chart.scales.x.min, chart.scales.x.max],
    told: chart.data.datasets.flatMap((dataset) => dataset.data.map(
      (raw) => words({raw, dataset}))),
    seen: chart.getDatasetMeta(0).data.map(({x, base}) => x - base)};
})()"""


def test_the_page_shows_a_band_for_each_replica(place, browser):
    folder = write_run(place, "r", LEFT_AND_BACK)
    place.ok("report", "r")
    browser.prefer("light")
    browser.size(1280, 900)
    browser.open(folder / "report.html")
    assert browser.complaints == []
    drawn = browser.value(DRAWN)
    assert drawn["rows"] == ["replica 0", "replica 1", "replica 2"] and drawn["ends"] == [0, 600]
    assert drawn["told"] == [
        "replica 0: took part in updates 1 to 600",
        "replica 1: took part in updates 1 to 200",
        "replica 1: took part in updates 304 to 600",
        "replica 2: took part in updates 1 to 600",
        "replica 1: away in updates 201 to 303",
    ]
    whole, before, after, _ = drawn["seen"]
    assert abs(before / whole - 200 / 600) < 0.01 and abs(after / whole - 297 / 600) < 0.01
    cells = browser.value(
        "[...document.querySelectorAll('#members tbody tr')]"
        ".map((row) => [...row.children].map((cell) => cell.textContent))"
    )
    assert cells == [["0", "1 to 600", "0"], ["1", TWO_STRETCHES, "103"], ["2", "1 to 600", "0"]]
    title = browser.value("document.querySelector('#members h2').textContent")
    assert title == "Replicas taking part"
    browser.screenshot(PICTURES / "members.png")
    browser.value("document.getElementById('theme').click()")
    assert browser.value(DRAWN)["told"] == drawn["told"]


def test_runs_of_one_page_have_their_own_rows(place, browser):
    write_run(place, "a", LEFT_AND_BACK)
    write_run(place, "b", [members(0, "1"), members(50, "")], replicas=2, updates=50)
    write_run(place, "c", [])
    place.ok("report", "a", "b", "c", "--out", "p.html")
    browser.open(place.folder / "p.html")
    assert browser.complaints == []
    drawn = browser.value(DRAWN)
    assert drawn["rows"] == [f"a, replica {r}" for r in range(3)] + ["b, replica 0", "b, replica 1"]
    assert "b, replica 0: away in updates 1 to 50" in drawn["told"]
    text = browser.value(
        """(async () => {
          let blob = null;
          URL.createObjectURL = (given) => { blob = given; return '#'; };
          document.querySelector('[data-csv=members]').click();
          return blob.text();
        })()"""
    )
    assert list(csv.reader(text.splitlines())) == [
        ["run", "replica", "from_update", "to_update"],
        ["a", "0", "1", "600"],
        ["a", "1", "1", "200"],
        ["a", "1", "304", "600"],
        ["a", "2", "1", "600"],
        ["b", "1", "1", "50"],
    ]


def test_nothing_is_shown_if_nobody_was_away(place, browser):
    folder = write_run(place, "r", [members(0, "0 1 2")])
    place.ok("report", "r")
    browser.open(folder / "report.html")
    assert browser.complaints == []
    assert browser.value("document.getElementById('members')") is None
