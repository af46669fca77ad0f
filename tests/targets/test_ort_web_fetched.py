"""onnxruntime-web from npm: what is said where its registry is blocked."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

from ortune.errors import RuntimeNotFound
from ortune.runtimes import npm
from ortune.targets.browser import setup


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm")
def test_a_registry_that_never_answers_is_given_up_with_npms_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in [*os.environ]:
        if name.startswith("npm_config_fetch"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(npm, "SILENCE_MS", 500)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        with pytest.raises(RuntimeNotFound, match=r"npm could not fetch onnxruntime-web 1\.29\.99") as caught:
            setup.ort_web(setup.BrowserSetup(ort_web="1.29.99"))
    assert "timeout" in caught.value.what and "this run" not in caught.value.what
    assert not list(tmp_path.rglob("*.tgz"))


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm")
@pytest.mark.skipif(sys.platform != "linux", reason="a full queue drops connections on Linux")
def test_a_registry_whose_packets_are_dropped_is_given_up_before_npm_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a firewall: npm's own limit is one of answers, and it would wait for a connection for minutes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in [*os.environ]:
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(npm, "SILENCE_MS", 500)
    with contextlib.ExitStack() as kept:
        silent = kept.enter_context(socket.socket())
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        for _ in range(4):
            waiting = kept.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(silent.getsockname())
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        with pytest.raises(RuntimeNotFound, match=r"cannot connect to 127\.0\.0\.1 \(timed out\)"):
            setup.ort_web(setup.BrowserSetup(ort_web="1.29.99"))
    assert not list(tmp_path.rglob("*.tgz"))
