"""Copies of Keras and TensorFlow files for the framework, with only the allowed parts, after checking them."""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from typing import Any

from .source import SourceRefused
from .stored_archive import objects, stored_entries

INSTEAD = "pass the function that creates the model: module:function"
_ENTRIES = re.compile(
    r"(config|metadata|model\.weights)\.json|model\.weights(_\d+)?\.h5|assets(/[\w.,@+ -]+)*/?", re.ASCII
)
_VARIABLES = re.compile(r"variables\.(index|data-\d{5}-of-\d{5})", re.ASCII)
_MODULE = re.compile(
    r"builtins|keras(\.(layers|models|initializers|regularizers|constraints|activations|optimizers|losses|metrics"
    r"|dtype_policies|quantizers|random|ops|src\.(layers|models|initializers|regularizers|constraints|activations"
    r"|optimizers|losses|metrics|dtype_policies|quantizers|backend\.common|random|ops)(\.\w+)*))?"
    r"|keras\.src\.applications\.\w+",
    re.ASCII,
)
_RUN_CODE = frozenset({"Lambda", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer", "__lambda__"})


def copy_keras(path: str, target: str) -> None:
    """Write a ``.keras`` file again from its allowed entries, which must not unpack to more than the file's size.

    Raises:
        SourceRefused: The file contains something else, or is not a ``.keras`` file; the message gives the reason.
    """
    try:
        with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as copy:
            for entry in stored_entries(source, os.path.getsize(path), "model.save('model.keras')"):
                name = entry.filename
                if not _ENTRIES.fullmatch(name) or ".." in name.split("/"):
                    raise SourceRefused("the archive contains more than a model: %r" % name[:200], INSTEAD)
                info = zipfile.ZipInfo(name)
                info.file_size = entry.file_size
                if name == "config.json":
                    _require_layers(json.loads(source.read(entry)))
                with source.open(entry) as old, copy.open(info, "w") as new:
                    shutil.copyfileobj(old, new, 1 << 20)
    except (zipfile.BadZipFile, ValueError, RecursionError) as error:
        what = "it is not a .keras file: %s" % (str(error).partition("\n")[0] or type(error).__name__)
        raise SourceRefused(what, "save it with model.save('model.keras')") from error


def _require_layers(config: Any) -> None:
    """Refuse objects of modules other than Keras' own, and classes that would run code of the file."""
    for part in objects(config):
        if "class_name" not in part:
            continue
        module, name = part.get("module"), str(part["class_name"])
        if name in _RUN_CODE:
            raise SourceRefused("the file contains code, such as a Lambda layer: %s" % name[:200], INSTEAD)
        if module is not None and not _MODULE.fullmatch(str(module)):
            raise SourceRefused("the file creates %s of %s" % (name[:200], str(module)[:200]), INSTEAD)
        settings = part.get("config")
        words = settings.get("vocabulary") if isinstance(settings, dict) else None
        if isinstance(words, str):
            raise SourceRefused(
                "the layer %s reads its vocabulary from a file outside of the archive: %r"
                % (name[:200], words[:200]),
                "create the layer with the words themselves, vocabulary=[...], and save the model again",
            )


def copy_saved_model(folder: str, target: str) -> None:
    """Copy the graph and variables of a SavedModel; if it describes the graph several times, only the checked one.

    Raises:
        SourceRefused: A part of the SavedModel is a link out of its folder; the message names the link.
    """
    os.makedirs(os.path.join(target, "variables"))
    _copy(folder, "saved_model.pb", target)
    _require_inside(folder, "variables")
    variables = os.path.join(folder, "variables")
    for name in sorted(os.listdir(variables)) if os.path.isdir(variables) else ():
        if _VARIABLES.fullmatch(name):
            _copy(folder, os.path.join("variables", name), target)


def _copy(folder: str, name: str, target: str) -> None:
    _require_inside(folder, name)
    shutil.copyfile(os.path.join(folder, name), os.path.join(target, name))


def _require_inside(folder: str, name: str) -> None:
    own, place = os.path.realpath(folder), os.path.realpath(os.path.join(folder, name))
    if os.path.commonpath([own, place]) != own:
        raise SourceRefused(
            "%s is a link to a place outside of the folder" % name,
            "copy the folder with what its links lead to (cp -rL), and pass the copy",
        )
