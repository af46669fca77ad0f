"""``.keras`` files and SavedModels of attackers: only what is listed is copied for the framework."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ortune.sources.checkpoints import misplaced
from ortune.sources.saved_files import copy_keras, copy_saved_model
from ortune.sources.source import SourceRefused
from ortune.sources.tensorflow_operators import ALLOWED

CONFIG = {
    "module": "keras",
    "class_name": "Sequential",
    "config": {
        "layers": [
            {"module": "keras.layers", "class_name": "Dense", "config": {"units": 2}},
            {"module": "keras.src.ops.numpy", "class_name": "Add", "config": {}},
            {"module": "builtins", "class_name": "function", "config": "relu"},
            {"module": None, "class_name": "__tuple__", "config": []},
        ]
    },
}


def written(place: Path, layer: Any = None, compression: int = zipfile.ZIP_STORED, **more: bytes) -> Path:
    config = json.loads(json.dumps(CONFIG))
    config["config"]["layers"] += [layer] if layer else []
    held = {"config.json": json.dumps(config).encode(), "metadata.json": b"{}", "model.weights.h5": bytes(64)}
    with zipfile.ZipFile(place, "w", compression) as archive:
        for name, data in (held | more).items():
            archive.writestr(name, data)
    return place


def test_an_ordinary_file_is_copied(tmp_path: Path) -> None:
    source = written(tmp_path / "net.keras", **{"assets/layers/lookup/vocabulary.txt": b"a\nb\n"})
    copy_keras(str(source), str(tmp_path / "copy.keras"))
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(tmp_path / "copy.keras") as new:
        assert {name: old.read(name) for name in old.namelist()} == {
            name: new.read(name) for name in new.namelist()
        }


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        ({"module": "keras.layers", "class_name": "Lambda"}, "Lambda"),
        ({"module": "keras.layers", "class_name": "TFSMLayer"}, "TFSMLayer"),
        ({"module": "keras.layers", "class_name": "TorchModuleWrapper"}, "TorchModuleWrapper"),
        ({"module": "os", "class_name": "function", "config": "system"}, "os"),
        ({"module": "keras.utils", "class_name": "function", "config": "get_file"}, "keras.utils"),
        (
            {"module": "keras.src.saving.saving_lib", "class_name": "function", "config": "load_model"},
            "saving",
        ),
        ({"config": {"activation": [{"module": "pip._internal", "class_name": "main"}]}}, "pip"),
    ],
)
def test_code_and_modules_beyond_keras_are_refused_by_name(
    tmp_path: Path, layer: dict[str, Any], told: str
) -> None:
    with pytest.raises(SourceRefused) as error:
        copy_keras(str(written(tmp_path / "net.keras", layer)), str(tmp_path / "copy.keras"))
    assert told in error.value.what and error.value.do


@pytest.mark.parametrize("name", ["StringLookup", "TextVectorization", "mine>Lookup"])
def test_a_vocabulary_in_another_file_is_named_with_what_to_do(tmp_path: Path, name: str) -> None:
    layer = {"module": "keras.layers", "class_name": name, "config": {"vocabulary": "/home/me/words.txt"}}
    with pytest.raises(SourceRefused) as error:
        copy_keras(str(written(tmp_path / "net.keras", layer)), str(tmp_path / "copy.keras"))
    assert name in error.value.what and "/home/me/words.txt" in error.value.what
    assert "vocabulary=[" in error.value.do
    layer["config"] = {"vocabulary": ["a", "b"]}
    copy_keras(str(written(tmp_path / "net.keras", layer)), str(tmp_path / "copied.keras"))


@pytest.mark.parametrize(
    "name", ["code.py", "assets/../../a", "../a", "/a", "model.weights.pkl", "assets/a\nb"]
)
def test_an_entry_on_no_list_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceRefused):
        copy_keras(str(written(tmp_path / "net.keras", **{name: b"x"})), str(tmp_path / "copy.keras"))


def test_what_unpacks_and_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    packed = written(tmp_path / "a.keras", None, zipfile.ZIP_DEFLATED, **{"model.weights.h5": bytes(1 << 22)})
    (tmp_path / "b.keras").write_bytes(b"no archive")
    (tmp_path / "c.keras").write_bytes(b"")
    for source in (packed, tmp_path / "b.keras", tmp_path / "c.keras"):
        with pytest.raises(SourceRefused) as error:
            copy_keras(str(source), str(tmp_path / "copy.keras"))
        assert "\n" not in error.value.what and "model.save" in error.value.do


def test_a_saved_model_is_its_graph_and_its_variables(tmp_path: Path) -> None:
    """TensorFlow knows other descriptions of a graph, which it might prefer."""
    source = tmp_path / "net"
    (source / "variables").mkdir(parents=True)
    (source / "assets").mkdir()
    for name in (
        "saved_model.pb", "saved_model.cpb", "saved_model.pbtxt", "fingerprint.pb", "keras_metadata.pb",
        "assets/words.txt", "variables/variables.index", "variables/variables.data-00000-of-00001", "variables/x.py",
    ):  # fmt: skip
        (source / name).write_bytes(name.encode())
    copy_saved_model(str(source), str(tmp_path / "copy"))
    found = {str(p.relative_to(tmp_path / "copy")) for p in (tmp_path / "copy").rglob("*") if p.is_file()}
    assert found == {
        "saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"
    }  # fmt: skip


@pytest.mark.parametrize("name", ["saved_model.pb", "variables", "variables/variables.index"])
def test_a_link_out_of_a_saved_model_is_named_and_one_inside_is_followed(tmp_path: Path, name: str) -> None:
    (source := tmp_path / "net").mkdir()
    (source / "variables").mkdir()
    for part in ("saved_model.pb", "variables/variables.index"):
        (source / part).write_bytes(b"x")
    place = source / name
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SourceRefused) as error:
        copy_saved_model(str(source), str(tmp_path / "copy"))
    assert name in error.value.what and "cp -rL" in error.value.do
    place.unlink()
    (tmp_path / "elsewhere").rename(source / "moved")
    place.symlink_to(source / "moved")
    copy_saved_model(str(source), str(tmp_path / "copied"))
    assert (tmp_path / "copied" / "saved_model.pb").read_bytes() == b"x"


def test_operators_that_name_files_or_call_python_are_on_no_list() -> None:
    compute = (
        "Conv2D MatMul While StatefulPartitionedCall If RandomUniform HashTableV2 LookupTableImportV2 SaveV2"
    )
    reach = (
        "ReadFile WriteFile MatchingFiles PyFunc EagerPyFunc PrintV2 Print DebugIdentity DebugIdentityV2 DebugNanCount "
        "WriteSummary CreateSummaryFileWriter WriteImageSummary InitializeTableFromTextFileV2 ImmutableConst "
        "TextLineDataset TFRecordDatasetV2 LoadDataset SaveDataset RemoteCall LoadAndRemapMatrix RecordInput "
        "FixedUnigramCandidateSampler WholeFileReaderV2 DecodeProtoV2 XlaCallModule OutfeedEnqueue RpcCall CopyHost "
        "FlushSummaryWriter IteratorFromStringHandle GetSessionTensor LMDBDataset RestoreSparse Abort"
    )
    assert set(compute.split()) <= ALLOWED
    assert not set(reach.split()) & ALLOWED


def node(name: str, op: str, *inputs: str, calls: str = "") -> SimpleNamespace:
    called = SimpleNamespace(func=SimpleNamespace(name=calls), list=SimpleNamespace(func=[]))
    return SimpleNamespace(name=name, op=op, input=list(inputs), attr={"f": called} if calls else {})


def meta_graph(
    nodes: Sequence[SimpleNamespace], concrete: Sequence[str] = (), restore: str = "restore"
) -> SimpleNamespace:
    """A graph as TensorFlow saves it: the saver's functions are called by nodes that no signature needs."""
    bodies = {
        "save": [node("w", "ShardedFilename"), node("s", "SaveV2")],
        "load": [node("r", "RestoreV2")],
        "serve": [node("m", "MatMul")],
        "evil": [node("c", "StatefulPartitionedCall", calls="save")],
    }
    functions = [
        SimpleNamespace(signature=SimpleNamespace(name=name), node_def=body) for name, body in bodies.items()
    ]
    output = SimpleNamespace(name="out:0")
    return SimpleNamespace(
        graph_def=SimpleNamespace(
            node=[
                node("save", "PartitionedCall", calls="save"),
                node("restore", "PartitionedCall", calls="load"),
                *nodes,
            ],
            library=SimpleNamespace(function=functions),
        ),
        signature_def={"serving_default": SimpleNamespace(outputs={"y": output})},
        collection_def={"saved_model_main_op": SimpleNamespace(node_list=SimpleNamespace(value=["init"]))},
        object_graph_def=SimpleNamespace(concrete_functions=dict.fromkeys(concrete)),
        saver_def=SimpleNamespace(restore_op_name=restore),
    )


def test_only_the_saver_runs_operators_of_checkpoints() -> None:
    serve = node("out", "StatefulPartitionedCall", "x", calls="serve")
    init = node("init", "NoOp")
    assert not misplaced(meta_graph([serve, init], ["serve"]))
    for nodes, concrete, operator in (
        ([node("out", "StatefulPartitionedCall", calls="evil"), init], [], "ShardedFilename"),
        ([node("out", "Identity", "^hidden"), node("hidden", "SaveV2"), init], [], "SaveV2"),
        ([serve, node("init", "NoOp", "^hidden"), node("hidden", "RestoreV2")], [], "RestoreV2"),
        ([serve, init], ["serve", "evil"], "ShardedFilename"),
        ([node("out", "save"), init], [], "ShardedFilename"),
    ):
        assert misplaced(meta_graph(nodes, concrete)) == operator
    assert misplaced(meta_graph([serve, init], restore="save")) == "SaveV2"
