"""Debian's headless Chromium, driven over a pipe with the DevTools protocol."""

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess

CHROMIUM = shutil.which("chromium")
SECONDS_MAX = 180  # for any one answer, on a busy machine


class Browser:
    """One page. Collects requests and console errors from the start."""

    def __init__(self, folder):
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()

        def pipes():  # Chromium reads from 3 and writes to 4
            read, write = os.dup(to_read), os.dup(to_write)
            high_read, high_write = os.dup2(read, 200), os.dup2(write, 201)
            os.dup2(high_read, 3)
            os.dup2(high_write, 4)

        arguments = [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--disable-background-networking", "--disable-component-update", "--no-first-run",
            "--disable-dev-shm-usage", f"--user-data-dir={folder}", "--remote-debugging-pipe",
            "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            arguments, preexec_fn=pipes, close_fds=False, stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, env={**os.environ, "HOME": str(folder)},
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._bytes, self._number, self._session = b"", 0, None
        self.requests, self.complaints = [], []
        self._pages, self._loaded = [], set()
        self.call("Target.setDiscoverTargets", discover=True)
        while not self._pages:  # Chromium answers before it has opened one
            self._next()
        attached = self.call("Target.attachToTarget", targetId=self._pages[0], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def _next(self):
        while b"\0" not in self._bytes:
            ready, _, _ = select.select([self._from], [], [], SECONDS_MAX)
            assert ready, "Chromium does not answer"
            more = os.read(self._from, 1 << 16)
            assert more, "Chromium has ended"
            self._bytes += more
        line, self._bytes = self._bytes.split(b"\0", 1)
        message = json.loads(line)
        self._note(message.get("method"), message.get("params"))
        return message

    def _note(self, method, parameters):
        if method == "Target.targetCreated" and parameters["targetInfo"]["type"] == "page":
            self._pages.append(parameters["targetInfo"]["targetId"])
        elif method == "Page.lifecycleEvent" and parameters["name"] == "load":
            self._loaded.add(parameters["loaderId"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])

    def call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def open(self, path):
        self.visit(pathlib.Path(path).resolve().as_uri())

    def visit(self, address):
        self.requests.clear()
        self.complaints.clear()
        loader = self.call("Page.navigate", url=address)["loaderId"]
        while loader not in self._loaded:  # not the event of an earlier page
            self._next()

    def value(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def size(self, width, height, phone=False):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=phone,
        )  # fmt: skip

    def prefer(self, scheme):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def frame(self):
        """Waits until pending changes are drawn, which takes at most two frames."""
        self.value("new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f)))")

    def screenshot(self, path):
        self.frame()
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(picture["data"]))
