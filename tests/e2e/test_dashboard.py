"""`leeway train --dashboard` and `leeway dashboard`, as seen by a browser and by a stranger."""

import contextlib
import http.client
import json
import math
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from conftest import Workplace
from hand_made_run import pipeline, write_run
from places import LEEWAY

SECONDS_MAX = 60  # for anything, on a busy machine
TOKEN = "0123456789abcdef-dash"


class Served:
    """A process with a dashboard, and its address."""

    def __init__(self, place, *arguments):
        self._process = subprocess.Popen(
            [LEEWAY, *arguments], cwd=place.folder, text=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, env={**os.environ, "OMP_WAIT_POLICY": "passive"},
        )  # fmt: skip
        for line in self._process.stderr:
            found = re.match(r"dashboard: http://(.*):(\d+)/", line)
            if found:
                break
        assert found, "it has ended without a dashboard"
        self.host, self.port, self.pid = found[1], int(found[2]), self._process.pid
        # Drain the rest of its output: a full pipe would block it.
        threading.Thread(target=self._process.stderr.read, daemon=True).start()

    def request(self, path, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)
        connection.request(method, path, headers=headers)
        return connection.getresponse()

    def get(self, path, **headers):
        answer = self.request(path, **headers)
        text = answer.read().decode()
        assert answer.status == 200, (path, answer.status, text)
        return text

    def status(self, path, method="GET", **headers):
        answer = self.request(path, method, **headers)
        answer.read()
        return answer.status

    def data(self):
        return json.loads(self.get("/data.json"))["runs"][0]

    def stop(self):
        """Sends Ctrl-C and returns the exit status."""
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(SECONDS_MAX)

    def end(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


def events(answer):
    """The server-sent events of an answer: (name, data)."""
    name = "message"
    for line in answer:
        word, _, rest = line.decode().rstrip("\n").partition(": ")
        if word == "event":
            name = rest
        elif word == "data":
            yield name, rest
            name = "message"


LONG = ["--set", "run.updates=1000000", "--set", "run.checkpoint_every=0"]
MESH = ["--set", "mesh.stages=2", "--set", "mesh.replicas=2", "--set", "data.batch=32"]


@contextlib.contextmanager
def serving(place, *arguments):
    served = Served(place, *arguments)
    try:
        yield served
    finally:
        served.end()


def check_requests_are_limited(live):
    with contextlib.suppress(ConnectionError, http.client.HTTPException):
        assert live.status("/" + "a" * 20_000) >= 400
    with contextlib.suppress(ConnectionError, http.client.HTTPException):
        assert live.status("/", **{f"X-{i}": "a" * 1000 for i in range(100)}) >= 400
    with socket.create_connection(("127.0.0.1", live.port), timeout=SECONDS_MAX) as half:
        half.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        begin = time.monotonic()
        while half.recv(4096):  # an answer or not, but it ends
            pass
        assert time.monotonic() - begin < SECONDS_MAX / 2
    assert live.status("/nothing") in (401, 404)


def test_the_end_is_prompt_and_announced(place):
    arguments = ["train", "tiny.toml", "--out", "r", *LONG, "--dashboard", "0"]
    with serving(place, *arguments) as served:
        readers = [served.request("/events") for _ in range(2)]
        told = events(readers[0])
        while json.loads(next(told)[1])["runs"][0]["headline"]["updates"] == 0:
            pass
        idle = socket.create_connection(("127.0.0.1", served.port))
        status = served.stop()  # the second reader and the idle one are not reading
        farewell = time.time() - (place.folder / "r/summary.json").stat().st_mtime
        assert status == 130 and farewell < SECONDS_MAX
        *_, (before, text), (last, sentence) = told
        run = json.loads(text)["runs"][0]
        assert (before, last) == ("message", "ended") and run["state"] == "stopped"
        summary = json.loads((place.folder / "r/summary.json").read_text())
        assert run["headline"]["updates"] == summary["updates"]
        assert "has ended" in sentence
        idle.close()


def test_other_machines_need_the_token(place):
    place.train("r")
    (place.folder / "token").write_text(TOKEN + "\n")
    arguments = ["dashboard", "r", "--host", "0.0.0.0", "--token-file", "token"]
    with serving(place, *arguments) as served:
        assert served.host == "0.0.0.0"
        for path in "/", "/data.json", "/events", "/metrics", "/nothing":
            assert served.status(path) == 401
            assert served.status(path + "?token=" + TOKEN[:-1] + "x") == 401
            assert served.status(path, Authorization="Bearer " + TOKEN[1:]) == 401
        answer = served.request("/")
        assert answer.getheader("WWW-Authenticate") == "Bearer"
        assert TOKEN not in answer.read().decode()
        assert served.status("/metrics", Authorization="Bearer " + TOKEN) == 200
        assert served.status("/?token=" + TOKEN) == 200
        assert served.status("/?token=" + TOKEN, Host="node7.example") == 200
        answer = served.request("/events?token=" + TOKEN)
        (_, text), (name, _) = events(answer)  # the run has ended, so there is no more
        assert name == "ended"
        summary = json.loads((place.folder / "r/summary.json").read_text())
        head = json.loads(text)["runs"][0]["headline"]
        assert head["valid_loss"] == summary["valid_loss"]
        check_requests_are_limited(served)
        assert served.stop() == 0


def test_a_log_that_cannot_be_read_is_refused_as_by_a_report(place):
    log = write_run(place, pipeline(stages=1, updates=2, update_every=1)) / "events.jsonl"
    first, rest = log.read_text().split("\n", 1)
    log.write_text(f"{first}\ngarbage\n{rest}")
    sentence = place.refused(1, "dashboard", "r")
    assert "r/events.jsonl:2 is not an event" in sentence
    assert sentence == place.refused(1, "report", "r")


def test_an_alert_can_see_that_a_run_diverged(place):
    sets = place.sets(optimizer__name="sgd", optimizer__rate=100, optimizer__clip=0)
    place.refused(1, "train", "tiny.toml", "--out", "r", *sets, "--set", "run.updates=20")
    with serving(place, "dashboard", "r") as served:
        assert 'state="diverged"} 1' in served.get("/metrics")
        (_, text), (name, _) = events(served.request("/events"))
        assert json.loads(text)["runs"][0]["state"] == "diverged" and name == "ended"


def test_a_page_says_when_an_unfinished_run_last_wrote(place, browser):
    log = write_run(place, pipeline(stages=1, updates=2, update_every=1)) / "events.jsonl"
    with serving(place, "dashboard", "r") as served:
        for age, text in (5, "Running in another program"), (600, "Cut off, or still running"):
            os.utime(log, (time.time() - age,) * 2)
            with log.open("a") as file:  # something new to show
                file.write(json.dumps({"event": "update", "update": 3, "loss": 1.0}) + "\n")
            os.utime(log, (time.time() - age,) * 2)
            until_shown = served.request("/events")
            for _, data in events(until_shown):
                written_at = json.loads(data)["runs"][0]["written_at"]  # none before it is read
                if written_at and time.time() - written_at > age - 1:
                    break
            until_shown.close()
            browser.visit(f"http://127.0.0.1:{served.port}/")
            told = browser.value("document.getElementById('activity').textContent")
            assert told.startswith(text) and "last event" in told
        browser.visit("about:blank")  # or the page would keep asking for its server


def test_a_page_shows_that_a_replica_is_away(place, browser):
    folder = write_run(place, [{"event": "update", "update": 1, "loss": 1.0}])
    (folder / "config.toml").write_text("[mesh]\nreplicas = 3\n")
    with serving(place, "dashboard", "r") as served:
        browser.visit(f"http://127.0.0.1:{served.port}/")
        assert browser.value("document.getElementById('members')") is None
        with (folder / "events.jsonl").open("a") as file:
            for line in (
                {"event": "members", "update": 1, "table": 1, "replicas": "0 2"},
                {"event": "update", "update": 2, "loss": 1.0, "replicas": "0 2"},
            ):
                file.write(json.dumps(line) + "\n")
        stream = served.request("/events")
        for _, data in events(stream):
            if json.loads(data)["runs"][0]["members"]:
                break
        stream.close()
        browser.value(
            "new Promise((done) => { const look = () => document.getElementById('members')"
            " ? done() : requestAnimationFrame(look); look(); })"
        )
        rows = "[...document.querySelectorAll('#members td:nth-child(2)')].map(c => c.textContent)"
        assert browser.value(rows) == ["1 to 2", "1", "1 to 2"]
        browser.visit("about:blank")  # or the page would keep asking for its server


def test_dashboard_errors_come_before_training(place):
    train = ["train", "tiny.toml", "--out", "r"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        sentence = place.refused(2, *train, "--dashboard", port)
    assert sentence == (
        f"leeway: --dashboard {port}: the port is taken; choose another, or 0 for a free one"
    )
    for port in "-1", "65536", "80x":
        assert "give a port from 1 to 65535" in place.refused(2, *train, f"--dashboard={port}")
    for empty in (*train, "--dashboard", ""), ("dashboard", "corpus", "--port", ""):
        assert "the port is empty; give one" in place.refused(2, *empty)
    free = [*train, "--dashboard", "0"]
    sentence = place.refused(2, *free, "--dashboard-host", "0.0.0.0")
    assert "needs a token" in sentence and "--dashboard-token-file" in sentence
    sentence = place.refused(2, *train, "--dashboard-host", "127.0.0.1")
    assert "--dashboard-host needs --dashboard PORT" in sentence
    (place.folder / "token").write_text("short\n")
    sentence = place.refused(2, *free, "--dashboard-token-file", "token")
    assert "token has no valid token" in sentence
    (place.folder / "token").write_text(TOKEN)
    elsewhere = [*free, "--dashboard-token-file", "token", "--dashboard-host"]
    assert "not an address of this machine" in place.refused(2, *elsewhere, "192.0.2.1")
    assert "is not a run folder" in place.refused(2, "dashboard", "corpus")
    assert not (place.folder / "r").exists()


# From here on a run is in progress during the tests; tests that do not need it are above.
@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A run that lasts until the tests are done."""
    place = Workplace(tmp_path_factory.mktemp("live"))
    place.ok("train", "tiny.toml", "--out", "first")  # prepares the text
    arguments = ["train", "tiny.toml", "--out", "r", *LONG, *MESH, "--dashboard", "0"]
    with serving(place, *arguments) as served:
        served.folder = place.folder / "r"
        answer = served.request("/events")
        for _, text in events(answer):  # until there is some of everything
            headline = json.loads(text)["runs"][0]["headline"]
            known = [headline[name] for name in ("lag_mean", "consensus", "valid_loss")]
            if headline["updates"] > 8 and None not in known:
                break
        answer.close()
        yield served


def test_the_page_and_its_data_are_those_of_the_run(live):
    page = live.request("/")
    policy = page.getheader("Content-Security-Policy")
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert "http" not in policy
    text = page.read().decode()
    assert text.startswith("<!doctype html>") and "EventSource" in text
    run = live.data()
    text = (live.folder / "events.jsonl").read_text()
    logged = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    losses = {event["update"]: event["loss"] for event in logged if event["event"] == "update"}
    points = run["curves"]["train_loss"]["points"]
    assert len(points) > 1 and run["state"] == "running"
    assert 0 < run["headline"]["epochs"] and 0 < run["headline"]["seconds_left"]
    assert all(math.isclose(point[5], losses[point[0]], rel_tol=1e-6) for point in points)
    assert run["headline"]["updates"] == points[-1][0]


def test_prometheus_can_read_the_numbers(live):
    answer = live.request("/metrics")
    assert answer.getheader("Content-Type").startswith("text/plain; version=0.0.4")
    text = answer.read().decode()
    helped = set(re.findall(r"^# HELP (\w+) \S.*$", text, re.M))
    typed = dict(re.findall(r"^# TYPE (\w+) (gauge|counter)$", text, re.M))
    sample = re.compile(r'(\w+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')
    samples = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels, value = sample.fullmatch(line).groups()
            assert (name, labels) not in samples
            samples[name, labels] = float(value)
    names = {name for name, _ in samples}
    assert helped == set(typed) == names
    wanted = "train_loss tokens_total updates_total tokens_per_second busy_share bytes_total"
    wanted += " learning_rate epochs progress seconds_left"
    assert {f"leeway_{word}" for word in f"{wanted} lag_mean consensus".split()} <= names
    assert samples["leeway_bytes_total", 'purpose="averaging"'] > 0
    assert 0 < samples["leeway_busy_share", 'replica="1",stage="1"'] <= 1
    assert samples["leeway_tokens_total", None] == 2048 * samples["leeway_updates_total", None]
    assert live.data()["headline"]["updates"] >= samples["leeway_updates_total", None] > 0


def test_only_known_requests_are_answered(live):
    assert live.status("/nothing") == live.status("/../config.toml") == 404
    for method in "POST", "PUT", "DELETE", "OPTIONS", "PATCH":
        answer = live.request("/", method)
        assert (answer.status, answer.getheader("Allow")) == (405, "GET, HEAD"), method
        assert b"read-only" in answer.read()
    answer = live.request("/data.json", "HEAD")
    assert answer.status == 200 and answer.read() == b""
    assert live.status("/", Host="evil.example") == 403
    assert live.status("/", Host=f"evil.example:{live.port}") == 403
    assert live.status("/", Host=f"localhost:{live.port}") == 200
    assert live.status("/?token=whatever", Authorization="Bearer whatever") == 200


def test_four_streams_are_served_and_the_fifth_is_refused(live):
    streams = [free_stream(live) for _ in range(4)]
    assert streams[0].getheader("Content-Type") == "text/event-stream"
    fifth = live.request("/events")
    assert fifth.status == 503 and b"/data.json" in fifth.read()
    told = [events(stream) for stream in streams]
    seen = []
    while len(set(seen)) < 3:
        name, text = next(told[0])
        assert name == "message"
        seen.append(json.loads(text)["runs"][0]["headline"]["updates"])
    assert seen == sorted(seen)
    for stream in streams:
        stream.close()
    for stream in [free_stream(live) for _ in range(4)]:
        stream.close()


def free_stream(live):
    """A stream; one is free again soon after a reader has left."""
    begin = time.monotonic()
    while time.monotonic() - begin < SECONDS_MAX:
        answer = live.request("/events")
        if answer.status == 200:
            return answer
        answer.read()
    raise AssertionError("no stream is free")


def test_a_browser_sees_the_numbers_change(live, browser):
    free_stream(live).close()
    address = f"http://127.0.0.1:{live.port}/"
    browser.visit(address)
    updates = "shown.runs[0].headline.updates"
    first = browser.value(updates)
    again = (
        "new Promise((done) => { const wait = () => "
        f"{updates} > {first} ? done({updates}) : requestAnimationFrame(wait); wait(); }})"
    )
    browser.value("document.querySelector('#configuration details').open = true")
    assert browser.value(again) > first
    assert browser.value("document.querySelector('#configuration details').open")
    assert browser.value("document.getElementById('live').textContent") == "live"
    activity = browser.value("document.getElementById('activity').textContent")
    assert activity == "Running: this page comes from the program that trains it."
    progress = browser.value("document.getElementById('progress').textContent")
    assert re.fullmatch(r"update [\d,]+ of 1,000,000 \(\d+ %\), .* epochs, about .* left", progress)
    assert browser.value("document.querySelectorAll('canvas').length") >= 8
    rows = "[...document.querySelectorAll('#runs tr')]"
    names, values = browser.value(rows + ".map((row) => row.innerText.split('\\t'))")
    assert int(dict(zip(names, values))["updates"].replace(",", "")) > first
    assert browser.complaints == []
    assert set(browser.requests) == {address, address + "events"}
