"""What a source is, and what is wrong with it, is told from its text: nothing is installed for what cannot work."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortune.engines.conversion.kinds import kind_of
from ortune.errors import ModelError, UsageError
from ortune.graph.model.open import open_model

MODULE = """
from helpers import *

def unrelated():
    import torch

def forest(size=3):
    from sklearn.ensemble import RandomForestClassifier
    return RandomForestClassifier(size)

if True:
    net = lambda: None
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my_models.py"
    path.write_text(MODULE.replace("from helpers import *", ""))
    return path


def test_the_framework_is_that_of_the_function_itself(module: Path) -> None:
    assert kind_of("my_models:forest").kind == "fitted"
    assert kind_of("my_models:unrelated").kind == "torch"


def test_a_function_that_is_not_there_is_named_with_those_that_are(module: Path) -> None:
    for framework in (None, "sklearn"):
        with pytest.raises(UsageError, match="defines no 'frst'") as refused:
            kind_of("my_models:frst", framework)
        assert refused.value.do == "did you mean my_models:forest?"
    with pytest.raises(UsageError, match="defines no 'quite_else'") as refused:
        kind_of("my_models:quite_else", "pytorch")
    assert "my_models:net" in refused.value.do


@pytest.mark.parametrize("text", [MODULE, "def __getattr__(name): ..."])
def test_a_module_that_may_have_any_name_is_asked_by_its_framework(module: Path, text: str) -> None:
    module.write_text(text)
    assert kind_of("my_models:frst", "sklearn").kind == "fitted"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("from helpers import build\ndef net(): return build()", "my_models.py imports none itself"),
        ("def net():\n    import torch, sklearn", "my_models.py imports sklearn and torch"),
        (None, "there is no my_models.py in this folder"),
    ],
)
def test_why_a_framework_is_not_detected(module: Path, text: str | None, why: str) -> None:
    module.unlink() if text is None else module.write_text(text)
    with pytest.raises(UsageError) as refused:
        kind_of("my_models:net")
    assert why in refused.value.what and "--framework" in refused.value.do


def test_a_keras_file_that_is_no_archive_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "m.keras"
    path.write_bytes(b"\x89HDF\r\n")
    with pytest.raises(ModelError, match="zip archive"):
        kind_of(str(path))
    path.write_bytes(b"PK\x03\x04")
    assert kind_of(str(path)).kind == "tensorflow"


@pytest.mark.parametrize("name", ["conv.pt2", "m.keras", "Net.TFLITE"])
def test_a_source_that_is_given_for_a_model_is_to_be_converted(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(ModelError) as refused:
        open_model(path)
    assert f"ortune convert {path} --tune" in refused.value.do
