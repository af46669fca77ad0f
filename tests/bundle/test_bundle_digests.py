from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from conftest import Bundle, matmul
from ortune.bundle import digests
from ortune.bundle import format as bundle_format
from ortune.errors import UsageError

FEEDS = {"x": np.ones((2, 64), np.float32)}


def check(bundle: Path) -> None:
    info = bundle_format.read(bundle)
    digests.require_intact(bundle, info.model, info.plain_model)


def test_the_list_is_what_sha256sum_reads(tmp_path: Path, make_bundle: Bundle) -> None:
    program = shutil.which("sha256sum")
    if program is None:
        pytest.skip("no sha256sum here")
    bundle = make_bundle(matmul(tmp_path / "a net.onnx"), FEEDS)
    names = {p.relative_to(bundle).as_posix() for p in bundle.rglob("*") if p.is_file()}
    done = subprocess.run(
        [program, "--check", digests.SUMS], cwd=bundle, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line.removesuffix(": OK") for line in done.stdout.splitlines()} == names - {digests.SUMS}
    check(bundle)


def test_a_name_that_must_be_escaped(tmp_path: Path) -> None:
    odd = tmp_path / "a\\b\nc"
    odd.write_bytes(b"1")
    digests.write(tmp_path)
    text = (tmp_path / digests.SUMS).read_text()
    assert text.startswith("\\") and text.count("\n") == 1
    assert list(digests._listed(text)) == ["a\\b\nc"]


def other_bytes(name: str) -> Callable[[Path], object]:
    return lambda bundle: (bundle / name).write_bytes((bundle / name).read_bytes() + b" ")


@pytest.mark.parametrize(
    ("harm", "name"),
    [
        (other_bytes("net.onnx"), "net.onnx"),
        (other_bytes("ortune.json"), "ortune.json"),
        (other_bytes("outputs/output_0.pb"), "outputs/output_0.pb"),
        (lambda bundle: (bundle / "workload.json").unlink(), "workload.json"),
    ],
)
def test_what_was_changed_is_named(
    tmp_path: Path, make_bundle: Bundle, harm: Callable[[Path], object], name: str
) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS)
    harm(bundle)
    with pytest.raises(UsageError) as error:
        check(bundle)
    assert name in str(error.value)


def test_code_and_report_may_be_changed(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS)
    for name in ("load.py", "report.html", "deploy/Dockerfile"):
        other_bytes(name)(bundle)
    check(bundle)


@pytest.mark.parametrize(
    "text", ["", "not a digest\n", f"{'0' * 64}  ../secret\n", f"{'0' * 64}  /etc/passwd\n", "\0"]
)
def test_a_list_that_says_nothing_of_the_model_is_refused(
    tmp_path: Path, make_bundle: Bundle, text: str
) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS)
    (bundle / digests.SUMS).write_text(text)
    with pytest.raises(UsageError):
        check(bundle)
