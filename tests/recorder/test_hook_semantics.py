"""A program behaves with the recorder as it does without: its output, its errors, its objects."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from many_ways import RELEASES, SEMANTICS, environment
from programs import HEAD, counts, recorded, written


def compared(python: str, folder: Path) -> None:
    app = written(folder, SEMANTICS, head=HEAD)
    command = [python, str(app)]
    # Under -W error, a warning of the recorder's own would be an error.
    without = subprocess.run(command, capture_output=True, text=True)
    assert without.returncode == 0, without.stderr
    printed = folder / "printed"
    shell = f'exec "$0" "$@" > {printed} 2> {printed}.err'
    recording = recorded(["/bin/sh", "-c", shell, *command])
    assert printed.read_text(encoding="utf-8") == without.stdout
    assert Path(f"{printed}.err").read_text(encoding="utf-8") == without.stderr
    assert recording.code == 0
    (process,) = recording.processes
    assert process.stopped == ""
    methods = {calls.method for session in recording.sessions for calls in session.calls}
    assert methods >= {"run", "run_with_ort_values", "run_with_iobinding"}
    errors = [session.error for session in recording.sessions if session.error]
    assert len(errors) >= 3
    assert max(session.n_calls for session in recording.sessions) >= 20
    assert sum(calls.failed for session in recording.sessions for calls in session.calls) == 6
    assert sum(n for _, n in counts(recording)) >= 35


def test_the_program_is_the_same(tmp_path: Path) -> None:
    compared(sys.executable, tmp_path)


@pytest.mark.long  # installs each
@pytest.mark.parametrize(("release", "python", "numpy"), RELEASES, ids=[each[0] for each in RELEASES])
def test_it_is_the_same_with_other_releases(release: str, python: str, numpy: str, tmp_path: Path) -> None:
    compared(environment(release, python, numpy), tmp_path)
