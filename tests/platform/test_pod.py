"""A pod where neither control groups nor affinity are to be had, as on macOS and Windows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ortune.errors import UsageError
from ortune.platform.pod import Pod
from ortune.records import PodSize


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a system without control groups, which binds no process to CPUs."""
    monkeypatch.delattr(os, "sched_getaffinity")
    return tmp_path


def test_cpus_that_cannot_be_limited_are_refused_with_what_to_do(elsewhere: Path) -> None:
    with pytest.raises(UsageError, match="neither") as error:
        Pod(PodSize(cpus=2), elsewhere)
    assert error.value.where == "--cpus"
    assert "measure in a Linux container" in error.value.do


def test_memory_is_watched_there(elsewhere: Path) -> None:
    pod = Pod(PodSize(memory_bytes=1 << 30), elsewhere)
    assert (pod.how, pod.affinity) == ("1024 MiB by ortune's watcher", "")


def test_without_control_groups_linux_limits_by_affinity(tmp_path: Path) -> None:
    pod = Pod(PodSize(cpus=0.5), tmp_path)
    assert pod.how == "1 CPU by affinity"
    assert pod.affinity == str(min(os.sched_getaffinity(0)))
