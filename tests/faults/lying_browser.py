"""A browser that is none: it speaks to ortune as a page does, and says what it likes.

Usage: lying_browser.py SAYS.json FLAG..., with what a browser is started with. What it likes is of SAYS.json.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

SAYS = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
PORT = int(re.search(r"127\.0\.0\.1:(\d+)", " ".join(sys.argv))[1])  # type: ignore[index]


def page() -> str:
    """The address that it is told to open, over the pipe of its debugger."""
    rest = b""
    while True:
        *messages, rest = (rest + os.read(3, 65536)).split(b"\0")
        for message in map(json.loads, messages):
            os.write(4, json.dumps({"id": message["id"], "result": {"targetId": "t"}}).encode() + b"\0")
            if message["method"] == "Target.createTarget":
                return str(message["params"]["url"])


HERE = urlsplit(page()).path
posted = 0


def ask(path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    connection.request("GET" if body is None else "POST", HERE + path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def say(**message: Any) -> int:
    global posted
    posted += 1
    return ask("say", json.dumps(message).encode(), **{"x-number": str(posted)})[0]


request = json.loads(ask("next/0")[1])
say(message="ready", version=request["version"], ort_version="1.30.0")
say(message="loaded", load_ns=1)
while SAYS.get("endlessly"):  # the first are heard, and nobody waits for them
    say(message="turn-over")
ask("next/1")
for about, size in SAYS["outputs"]:
    body = b"\0" * min(size, 1 << 20)
    number = {"x-number": f"output {about['index']}"} if SAYS.get("again") else {}
    for _ in range(2 if number else 1):
        ask("output", body, **{"x-about": quote(json.dumps(about)), "content-length": str(size)}, **number)
say(message="turn-over")
ask("next/2")
say(message="turn-over")
ask("next/3")
say(**SAYS["last"])
time.sleep(600)
