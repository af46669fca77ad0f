"""The bundle of an application is a stranger's file: what it may set, and what it may not."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import ortune
from facts import facts
from ortune.bundle import app, digests, format
from ortune.errors import UsageError
from ortune.targets.machine import Machine

SHA = "ab" * 32


def bundle(folder: Path, *sessions: dict[str, Any], **more: Any) -> Path:
    path = folder / "app.ortune"
    path.mkdir(exist_ok=True)
    entries = [{"name": "model.onnx", "sha256": [SHA], **session} for session in sessions]
    index = {"schema": app.SCHEMA, "sessions": entries, **more}
    (path / "ortune.json").write_text(json.dumps(index), encoding="utf-8")
    digests.write(path)
    return path


def replaced(path: Path, **more: Any) -> dict[str, Any]:
    """An entry with a model that lies in the bundle."""
    (path / "models").mkdir(parents=True, exist_ok=True)
    (path / "models" / "ours.onnx").write_bytes(b"ours")
    (path / "models" / "ours.onnx.data").write_bytes(b"weights")
    digest = hashlib.sha256(b"ours").hexdigest()
    return {"replacement": "models/ours.onnx", "replacement_sha256": digest, **more}


def test_settings_are_read_and_bounded_by_this_machine(tmp_path: Path) -> None:
    ours = replaced(tmp_path / "app.ortune", only_shapes=[[{"name": "x", "shape": [1, 2]}]])
    path = bundle(
        tmp_path,
        {
            "settings": {"intra_op_num_threads": "min(2, cpus)", "allow_spinning": 0},
            "share": True,
            "keep_s": 5.0,
        },
        {"settings": {"execution_mode": "sequential"}, "sizes_bytes": [4], **ours},
        variables={"ORT_INTRA_OP_NUM_THREADS": "2"},
        unknown={"later": 1},
    )
    read = app.read(path)
    (first, second), notes = app.changes(path, read)
    assert notes == ()
    assert first.options == {"intra_op_num_threads": 2}
    assert first.entries == {"session.intra_op.allow_spinning": "0"}
    assert (first.share, first.keep_s, first.sizes, first.replacement) == (True, 5.0, (), "")
    assert (second.options, second.sizes) == ({"execution_mode": "ORT_SEQUENTIAL"}, (4,))
    assert second.replacement == str((path / "models" / "ours.onnx").resolve())
    assert second.shapes == ((("x", (1, 2)),),)


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "elsewhere": ({"provider": "WebGPUPage"}, {}, "WebGPUPage"),
    "variable": ({}, {"variables": {"LD_PRELOAD": "/tmp/x.so"}}, "LD_PRELOAD"),
    "flag": ({}, {"variables": {"ORT_LOAD_CONFIG_FROM_MODEL": "1"}}, "ORT_LOAD_CONFIG_FROM_MODEL"),
    "value": ({}, {"variables": {"ORT_INTRA_OP_NUM_THREADS": "2; rm"}}, "ORT_INTRA_OP_NUM_THREADS"),
    "setting": ({"settings": {"optimized_model_filepath": "/etc/x"}}, {}, "optimized_model_filepath"),
    "channel": ({"settings": {"allocator": "jemalloc"}}, {}, "allocator"),
    "environment": ({"settings": {"ort_intra_op_num_threads": 2}}, {}, "ort_intra_op_num_threads"),
    "provider": ({"settings": {"dml_spin": 1}}, {}, "dml_spin"),
    "kind": ({"settings": {"intra_op_num_threads": "many"}}, {}, "many"),
    "hash": ({"sha256": ["model.onnx"]}, {}, "sha256"),
    "no hash": ({"sha256": []}, {}, "sha256"),
    "kept": ({"keep_s": 1e9}, {}, "keep_s"),
    "outside": ({"replacement": "../theirs.onnx"}, {}, "outside"),
    "absolute": ({"replacement": "/etc/passwd"}, {}, "outside"),
    "missing": ({"replacement": "models/none.onnx"}, {}, "none.onnx"),
    "schema": ({}, {"schema": "ortune/bundle/1"}, "ortune/bundle/1"),
    "type": ({"share": "yes"}, {}, "share"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_bundle_may_have_is_refused(case: str, tmp_path: Path) -> None:
    session, more, fact = REFUSED[case]
    with pytest.raises(UsageError) as refused:
        app.read(bundle(tmp_path, session, **more))
    assert fact in str(refused.value)
    assert refused.value.where.endswith(("ortune.json", "app.ortune"))


def test_a_replacement_is_what_it_was_when_the_bundle_was_made(tmp_path: Path) -> None:
    path = tmp_path / "app.ortune"
    ours = replaced(path)
    assert app.read(bundle(tmp_path, ours)).sessions[0].replacement
    for name, data in (("ours.onnx", b"theirs"), ("ours.onnx.data", b"others")):
        before = (path / "models" / name).read_bytes()
        (path / "models" / name).write_bytes(data)
        with pytest.raises(UsageError, match="changed"):
            app.read(path)
        (path / "models" / name).write_bytes(before)
    (path / "SHA256SUMS").unlink()
    with pytest.raises(UsageError, match="SHA256SUMS"):
        app.read(path)


@pytest.mark.parametrize("linked", ["ours.onnx", "ours.onnx.data"])
def test_links_out_of_the_bundle_are_refused(linked: str, tmp_path: Path) -> None:
    path = tmp_path / "app.ortune"
    ours = replaced(path)
    (tmp_path / "theirs").write_bytes(b"ours")
    (path / "models" / linked).unlink(missing_ok=True)
    bundle(tmp_path, ours)
    (path / "models" / linked).symlink_to(tmp_path / "theirs")
    with pytest.raises(UsageError, match="link"):
        app.read(path)


@pytest.mark.parametrize("linked", ["SHA256SUMS", "ortune.json", "page.html", "models/more.bin"])
def test_no_link_of_the_bundle_shows_another_file(linked: str, tmp_path: Path) -> None:
    path = bundle(tmp_path, replaced(tmp_path / "app.ortune"))
    secret = tmp_path / "secret"
    secret.write_text("password=hunter2 of somebody\n")
    for soft in (True, False):
        place = path / linked
        kept = place.read_bytes() if place.exists() else None
        place.unlink(missing_ok=True)
        (place.symlink_to if soft else place.hardlink_to)(secret)
        if soft or kept is not None:
            with pytest.raises(UsageError) as refused:
                app.read(path)
            assert "hunter2" not in str(refused.value)
            assert not soft or "link" in str(refused.value)
        else:
            app.read(path)  # no list names it, so it is not read
        place.unlink()
        if kept is not None:
            place.write_bytes(kept)
    assert secret.read_text() == "password=hunter2 of somebody\n"


def test_a_model_for_another_cpu_is_not_used_here(tmp_path: Path) -> None:
    path = tmp_path / "app.ortune"
    bundle(tmp_path, replaced(path, hardware_bound=True), ort_versions=["1.2.3"])
    read = app.read(path)
    (there,), notes = app.changes(path, read)
    assert (there.version, notes) == ("1.2.3", ())
    elsewhere = replace(read, host=replace(Machine().host, cpu="another"))
    (there,), notes = app.changes(path, elsewhere)
    assert there.replacement == ""
    facts(notes[0], "model.onnx", "another CPU")


def test_what_is_no_bundle_of_an_application_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a bundle"):
        app.read(tmp_path / "none.ortune")
    with pytest.raises(UsageError, match="of an application") as refused:
        ortune.load(bundle(tmp_path))
    assert "ortune run --with" in refused.value.do
    with pytest.raises(UsageError, match="of an application"):
        format.read(bundle(tmp_path))
