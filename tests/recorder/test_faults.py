"""Programs that run for long, that end badly or that are recorded at the same time: nothing is lost or changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
from programs import LONG, counts, run, written

from ortune.records import RecordedWorkload

LINES = """
opened().run(None, X)
for number in range(100000): print("line", number)
"""


def test_the_files_of_a_program_that_runs_for_long_are_bounded(tmp_path: Path) -> None:
    """More calls than are kept one by one, and more sessions than a log of this size holds."""
    recording = run(
        tmp_path,
        """
        recorder = sys.modules["ortune_recorder"]
        recorder.LOG_BYTES = 40000
        session = opened()
        def call(): session.run(None, X)
        call()
        folder = os.environ["ORTUNE_RECORD"]
        def size(): return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
        before = size()
        for _ in range(recorder.KEPT + 1000): call()
        after = size()
        for _ in range(300): opened().run(None, X)
        sys.exit(0 if before == after and size() - after < 60000 else 7)
        """,
    )
    assert recording.code == 0
    (process,) = recording.processes
    assert process.stopped == "" and process.lost_events > 0
    assert len(process.arrivals) == 16384
    assert recording.sessions[0].n_calls >= 17385
    assert 20 < len(recording.sessions) < 300


def ortune(folder: Path, app: Path, *options: str, **more: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ortune", "record", *options, "--", sys.executable, str(app)]
    return subprocess.Popen(command, cwd=folder, text=True, stderr=subprocess.PIPE, **more)  # type: ignore[call-overload,no-any-return]


def into_a_closed_pipe(command: list[str]) -> tuple[int, str]:
    """Return the exit code and stderr of a program with nobody who reads its output."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writer)
    return done.returncode, done.stderr


def test_a_closed_pipe_ends_a_program_as_it_does_without(tmp_path: Path) -> None:
    app = written(tmp_path, LINES)
    code, said = into_a_closed_pipe([sys.executable, str(app)])
    place = tmp_path / "app.workload"
    command = [sys.executable, "-m", "ortune", "record", "-o", str(place), "--", sys.executable, str(app)]
    recorded, also = into_a_closed_pipe(command)
    assert (recorded, "BrokenPipeError" in also) == (code, "BrokenPipeError" in said)
    assert code != 0
    saved = msgspec.json.decode(place.read_bytes(), type=RecordedWorkload).recording
    assert saved is not None and counts(saved) == [(0, 1)]


def test_a_recording_within_a_recording_is_named(tmp_path: Path) -> None:
    """The inner program belongs to the inner recording."""
    app = written(tmp_path, f"opened().run(None, X)\n{LONG}")
    command = [
        sys.executable,
        "-m",
        "ortune",
        "record",
        "-o",
        "inner.workload",
        "--",
        sys.executable,
        str(app),
    ]
    outer = tmp_path / "outer.py"
    outer.write_text(f"import os\nos.execv({sys.executable!r}, {command!r})\n", encoding="utf-8")
    with ortune(tmp_path, outer, "-o", "outer.workload") as process:
        _, said = process.communicate()
    assert process.returncode == 3, said
    assert "another ortune record" in " ".join(said.split())
    saved = msgspec.json.decode((tmp_path / "inner.workload").read_bytes(), type=RecordedWorkload).recording
    assert saved is not None and counts(saved) == [(0, 1)]


def test_two_recordings_in_one_folder_have_a_file_each(tmp_path: Path) -> None:
    app = written(tmp_path, "opened().run(None, X)\nimport time; time.sleep(1)\n")
    both = [ortune(tmp_path, app), ortune(tmp_path, app)]
    said = [each.communicate()[1] for each in both]
    assert [each.returncode for each in both] == [0, 0], said
    files = sorted(path.name for path in tmp_path.glob("*.workload"))
    assert files == ["app-2.workload", "app.workload"]
    for name in files:
        saved = msgspec.json.decode((tmp_path / name).read_bytes(), type=RecordedWorkload).recording
        assert saved is not None and counts(saved) == [(0, 1)]
        assert sum(f"written to {name}" in text for text in said) == 1
