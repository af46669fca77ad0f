"""Models that cannot be used: one clear error, exit code 2 (3 where only the new side does not run)."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import helper

from box import Box, refused, save_graph, save_model


def truncated(path: Path) -> None:
    save_model(path)
    path.write_bytes(path.read_bytes()[:3000])


def corrupt(path: Path) -> None:
    save_model(path)
    data = bytearray(path.read_bytes())
    data[-60:] = bytes(byte ^ 0x5A for byte in data[-60:])
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def text(path: Path) -> None:
    path.write_text("hello, world\n")


def folder(path: Path) -> None:
    path.mkdir()


def missing(path: Path) -> None:
    assert not path.exists()


def data_missing(path: Path) -> None:
    data_truncated(path)
    (path.parent / "bad.data").unlink()


def data_truncated(path: Path) -> None:
    save_model(path, save_as_external_data=True, location="bad.data", size_threshold=0)
    (path.parent / "bad.data").write_bytes(b"\0" * 1000)


FAULTS = [truncated, corrupt, empty, text, folder, missing, data_missing, data_truncated]


@pytest.mark.parametrize("make", FAULTS, ids=lambda make: make.__name__)
def test_a_file_that_is_no_usable_model(box: Box, make) -> None:
    make(box.folder / "bad.onnx")
    as_base = refused(box.here("compare", "bad.onnx", "m.onnx", "--json"), 2, "model")
    assert "bad.onnx" in as_base["where"]
    assert as_base["do"]


def test_the_same_as_the_new_side(box: Box) -> None:
    text(box.folder / "bad.onnx")
    refused(box.here("compare", "m.onnx", "bad.onnx", "--json"), 2, "model")


def custom_operator(path: Path) -> None:
    save_graph(path, [helper.make_node("Zap", ["x"], ["y"], domain="acme")], [1, 4])


def test_an_unknown_operator_in_the_base_is_unusable_input(box: Box) -> None:
    save_graph(box.folder / "new.onnx", [helper.make_node("Relu", ["x"], ["y"])], [1, 4])
    custom_operator(box.folder / "custom.onnx")
    error = refused(box.here("compare", "custom.onnx", "new.onnx", "--json"), 2, "model")
    assert "Zap" in error["what"]
    assert "--custom-ops" in error["do"]


def test_a_new_side_that_cannot_run_at_all_is_a_failed_trial(box: Box) -> None:
    save_graph(box.folder / "base.onnx", [helper.make_node("Relu", ["x"], ["y"])], [1, 4])
    custom_operator(box.folder / "custom.onnx")
    error = refused(box.here("compare", "base.onnx", "custom.onnx", "--json"), 3, "load-error")
    assert "B does not run" in error["what"]
    assert "custom.onnx" in error["where"]
    assert [t["outcome"]["outcome"] for t in box.events("outcome")].count("failed") == 1


def test_a_name_that_is_not_utf8(box: Box) -> None:
    name = b"m\xff.onnx".decode(errors="surrogateescape")
    (box.folder / name).write_bytes((box.folder / "m.onnx").read_bytes())
    refused(box.here("compare", name, "m.onnx", "--json"), 2, "usage")


def test_wrong_outputs_are_a_verdict(box: Box) -> None:
    done = box.compare("m.onnx", "other.onnx")
    assert done.code == 1, done.err
    assert (done.document["status"], done.document["verdict"]) == ("ok", "wrong-output")
    assert done.document["result"]["outputs"]["what"]


def test_a_model_that_is_replaced_while_it_is_measured(box: Box) -> None:
    # Within this budget nothing can be claimed; what was measured is of another model all the same.
    running = box.start(
        "compare", "m.onnx", "m.onnx", "--budget", "1s", "--no-why", "--set", "intra=1", "--json"
    )
    running.until(lambda: box.events("outcome"))
    save_model(box.folder / "next.onnx", scale=0.5)
    (box.folder / "next.onnx").replace(box.folder / "m.onnx")
    error = refused(running.wait(), 3, "model-changed")
    assert error["where"] == "m.onnx"
    assert "changed during" in error["what"]
