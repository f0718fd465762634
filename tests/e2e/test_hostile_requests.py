"""A dashboard under hostile requests: it answers or hangs up, and goes on serving.

LEEWAY_REQUESTS of them, a function of LEEWAY_SEED; a failure names the request.
"""

import json
import os
import random
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import Workplace
from hand_made_run import pipeline, write_run
from test_dashboard import SECONDS_MAX, Served

COUNT = int(os.environ.get("LEEWAY_REQUESTS", "400"))
SEED = int(os.environ.get("LEEWAY_SEED", "1"))
CLIENTS = 4
MEGABYTES_MAX = 64  # more than before, after all of them
ANSWER_MAX = 1 << 22
STATUSES = {100, 200, 400, 403, 404, 405, 408, 411, 413, 414, 415, 416, 417, 431, 501, 503, 505}
TYPES = (b"text/html", b"application/json", b"text/plain", b"text/event-stream")

METHODS = [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"CONNECT", b"TRACE", b"PATCH",
           b"PRI", b"get", b"", b"G" * 9000, b"GET\0", b"\xff\xfe"]  # fmt: skip
PATHS = [
    b"/", b"/data.json", b"/metrics", b"/events", b"/nowhere", b"*", b"", b"//", b"/./", b"/?",
    b"/../../../../etc/passwd", b"/..%2f..%2f..%2fetc%2fpasswd", b"/%2e%2e/%2e%2e/etc/passwd",
    b"/..\\..\\etc\\passwd", b"/data.json%00.html", b"/data.json\0", b"/%", b"/%zz", b"/%u0041",
    b"/\xff\xfe", b"/%ff%fe", b"/" + b"a/" * 3000, b"/" + b"%41" * 20000, b"http://evil/",
    b"http://127.0.0.1/data.json", b"/data.json?" + b"a=b&" * 3000, b"/?token=" + b"x" * 9000,
    b"/data.json#x", b"/ /x", b"/data.json;x=1", b"file:///etc/passwd", b"/\r\nX: y", b"/DATA.JSON",
]  # fmt: skip
VERSIONS = [b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/9.9", b"http/1.1", b"",
            b"HTTP/1.1" * 500, b"HTTP/1.1 \0"]  # fmt: skip
HEADERS = [
    b"Host: evil.example", b"Host: ", b"Host: [::1", b"Host: localhost:99999", b"Host", b": x",
    b"Content-Length: -1", b"Content-Length: 9223372036854775808", b"Content-Length: 1e9",
    b"Content-Length: 18446744073709551616", b"Content-Length: 5, 6", b"Content-Length: 40000",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: x",
    b"Range: bytes=0-0", b"Range: bytes=-1", b"Range: bytes=9-1", b"Range: x",
    b"Range: bytes=" + b"0-1," * 2000, b"Range: bytes=0-18446744073709551616",
    b"Expect: 100-continue", b"Connection: keep-alive, Upgrade", b"Upgrade: websocket",
    b"Authorization: Bearer " + b"x" * 5000, b"Authorization: Basic \xff",
    b"Accept-Encoding: gzip, br, deflate", b"Cookie: " + b"a=b; " * 3000, b"X: \0", b"X:\x1b[31m",
    b" folded", b"X" * 9000 + b": y", b"X: " + b"y" * 70000, b"Content-Type: multipart/form-data",
    b"Content-Type: multipart/form-data; boundary=" + b"b" * 300, b"Content-Encoding: gzip",
    b"Content-Encoding: br", b"X-Forwarded-For: 127.0.0.1", b"Origin: null",
]  # fmt: skip
BODIES = [b"", b"x" * 100, b"0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n", b"-1\r\nx", b"zz\r\nx\r\n",
          b"ffffffffffffffff\r\nx", b"\x1f\x8b\x08\0" + b"\xff" * 50, b"x" * 50000]  # fmt: skip
STRANGERS = [b"", b"\0" * 500, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\r\n" * 200,
             b"GET /", b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"SSH-2.0-x\r\n"]  # fmt: skip


def hostile_request(dice):
    if dice.random() < 0.05:
        return dice.choice(STRANGERS)

    def pick(valid, list_of_others, share):
        return dice.choice(list_of_others) if dice.random() < share else valid

    end = pick(b"\r\n", [b"\n", b"\r", b"\r\r\n", b""], 0.05)
    known = dice.choice(PATHS[:4])
    words = [pick(b"GET", METHODS, 0.3), pick(known, PATHS, 0.6), pick(b"HTTP/1.1", VERSIONS, 0.1)]
    lines = [pick(b" ", [b"  ", b"\t", b""], 0.03).join(words)]
    if dice.random() < 0.9:
        lines.append(b"Host: localhost")
    lines += dice.choices(HEADERS, k=dice.choice([0, 0, 1, 1, 2, 3, 200]))
    request = end.join(lines) + end + end + pick(b"", BODIES, 0.3)
    if dice.random() < 0.2:
        request = bytearray(request)
        for _ in range(dice.randint(1, 5)):
            request[dice.randrange(len(request))] = dice.randrange(256)
        request = bytes(request)
    if dice.random() < 0.1:
        request = request[: dice.randrange(len(request) + 1)]
    return request * 2 if dice.random() < 0.03 else request


def talk(port, request, dice):
    """Sends the request in one of several manners; returns what comes back, if that is awaited."""
    manner = dice.choice(["whole", "whole", "half", "half", "pieces", "reset"])
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX) as client:
        try:
            step = dice.randint(1, 5000) if manner == "pieces" else max(1, len(request))
            for at in range(0, len(request), step):
                client.sendall(request[at : at + step])
            if manner == "reset":
                linger = struct.pack("ii", 1, 0)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                return b""
            # Without an end the server rightly waits for more of the request, for some seconds.
            if manner == "half" or b"\r\n\r\n" not in request:
                client.shutdown(socket.SHUT_WR)
            answer = b""
            while len(answer) < ANSWER_MAX and b"text/event-stream" not in answer:
                received = client.recv(1 << 16)
                if not received:
                    break
                answer += received
            return answer
        except (ConnectionResetError, BrokenPipeError):
            return b""  # it may hang up


def check_answer(answer):
    if not answer:
        return
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n")[0].split(b" ")
    assert status[0] == b"HTTP/1.1" and int(status[1]) in STATUSES, head
    assert b"root:" not in body
    if int(status[1]) == 200:
        assert b"default-src 'none'" in head and b"no-store" in head, head
        kind = head.lower().partition(b"content-type: ")[2]
        assert kind.startswith(TYPES), head


def number_in(pid, key):
    """A number of /proc/PID/status."""
    for line in open(f"/proc/{pid}/status"):
        if line.startswith(key + ":"):
            return int(line.split()[1])


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.fixture
def served(tmp_path):
    place = Workplace(tmp_path)
    write_run(place, pipeline(2, 6, 2))
    found = Served(place, "dashboard", "r", "--port", "0")
    yield found
    found.end()


def test_the_dashboard_survives_hostile_requests(served):
    for _ in range(20):  # all of its threads have run once
        served.get("/"), served.get("/metrics")
    before = served.data()
    memory, files = number_in(served.pid, "VmRSS"), open_files(served.pid)
    threads = number_in(served.pid, "Threads")

    def attack(index):
        dice = random.Random(f"{SEED} {index}")
        request = hostile_request(dice)
        try:
            check_answer(talk(served.port, request, dice))
        except Exception as failure:
            raise AssertionError(f"request {index} of seed {SEED}: {request[:2000]}") from failure
        if index % 50 == 0:
            assert served.data() == before, index

    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(attack, range(COUNT)))

    assert served.data() == before
    assert served.get("/").startswith("<!doctype html>") and "leeway_" in served.get("/metrics")
    assert number_in(served.pid, "Threads") == threads
    grown = number_in(served.pid, "VmRSS") - memory
    assert grown < MEGABYTES_MAX * 1024, f"{grown} kB more memory"
    until = time.monotonic() + SECONDS_MAX  # streams whose readers have gone end within a moment
    while open_files(served.pid) > files + 1 and time.monotonic() < until:
        json.loads(served.get("/data.json"))
    assert open_files(served.pid) <= files + 1
    assert served.stop() == 0
