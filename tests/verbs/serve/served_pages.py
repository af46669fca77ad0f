"""A browser that opens the address that ortune says, as somebody with a phone would."""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from chromium import CHROMIUM, Browser
from onnx_text import model_of, saved
from ortune.targets.browser.remote import Remote


def net(path: Path) -> Path:
    """One product of matrices."""
    text = "g (float[4,16] x) => (float[4,16] y) { y = MatMul (x, w) }"
    return saved(path, model_of(text, weights={"w": np.eye(16, dtype=np.float32)}))


def inputs(folder: Path) -> str:
    """Real inputs: pages that ask whether invented ones are like them are left out."""
    np.savez(folder / "x.npz", x=np.ones((4, 16), np.float32))
    return str(folder / "x.npz")


class Phone:
    """Reads what is said, and opens the address that it finds there."""

    def __init__(self, profile: Path, *, leaves_at: str = "") -> None:
        self.said: list[str] = []
        self.profile, self.leaves_at = profile, leaves_at
        self.browser: Browser | None = None
        self.refused = 0

    def say(self, sentence: str) -> None:
        self.said.append(sentence)
        if self.leaves_at and self.leaves_at in sentence:
            threading.Timer(0.3, self.leave).start()
        found = re.search(r"(http://127\.0\.0\.1:\d+)/\S+/$", sentence)
        if found:
            try:
                urllib.request.urlopen(f"{found[1]}/model", timeout=10)
            except urllib.error.HTTPError as error:
                self.refused = error.code
            self.browser = Browser(found[0], self.profile)

    def leave(self) -> None:
        if self.browser is not None:
            self.browser.close()


@contextmanager
def phone(profile: Path, leaves_at: str = "") -> Iterator[Phone]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is on this machine")
    made = Phone(profile, leaves_at=leaves_at)
    try:
        yield made
    finally:
        made.leave()


def hello(remote: Remote, who: str, page: str) -> int:
    told = {"id": who * 32, "page": page * 32, "agent": "x", "secure": True, "isolated": True}
    asked = urllib.request.Request(f"{remote.url}hello", data=json.dumps(told).encode(), method="POST")
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
