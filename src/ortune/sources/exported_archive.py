"""A ``.pt2`` file rewritten from what was checked of it, so that no other reader finds anything else in it.

Readers of zip files disagree where a file has two directories, or an entry two names, and one that unpacks may fill the
disk. PyTorch gets an archive that has none of these: it holds the entries that are listed here, as they were checked.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterable

from .exported_program import plain
from .source import Refused
from .stored_archive import stored_entries

_SAVER = "torch.export.save"
_INSTEAD = "name the function that creates the model: module:function"
_BYTES = re.compile(
    r"archive_format|archive_version|byteorder|version|\.data/(version|serialization_id)|\.format_version"
    r"|\.storage_alignment|data/weights/weight_\d+|data/constants/tensor_\d+",
    re.ASCII,
)
_TENSORS = re.compile(
    r"data/sample_inputs/model\.pt|serialized_(state_dict|constants|example_inputs)\.(pt|json)", re.ASCII
)
"""What ``torch.load`` reads, weights alone: archives themselves."""
_CONFIGS = re.compile(r"data/(weights/model_weights|constants/model_constants)_config\.json", re.ASCII)
_PROGRAMS = ("models/model.json", "serialized_exported_program.json")
_LEFT_OUT = re.compile(r"extra(_files)?/.*", re.ASCII)
"""Texts next to the program, which are not read."""
_OLD = ("serialized_exported_program.json", "version")
"""Entries of the format before PyTorch 2.8, which lie in no folder."""


def rewritten(path: str, target: str) -> None:
    """Check an archive and write what it may hold.

    Args:
        path: The file.
        target: The new one.

    Raises:
        Refused: It holds something else; names what it is.
        OSError, ValueError, zipfile.BadZipFile: It is no such archive.
    """
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as copy:
        entries = stored_entries(source, os.path.getsize(path), _SAVER)
        root = _root(entries)
        names = {entry.filename[len(root) :]: entry for entry in entries}
        for name, entry in names.items():
            if _LEFT_OUT.fullmatch(name):
                continue
            info = zipfile.ZipInfo("model/" + name if root else name)
            info.file_size = entry.file_size
            if name in _PROGRAMS or _CONFIGS.fullmatch(name):
                data = json.dumps(plain(json.loads(source.read(entry)))).encode()
                info.file_size = len(data)
                copy.writestr(info, data)
            elif _TENSORS.fullmatch(name):
                data = source.read(entry)
                _require_stored_tensors(name, data)
                copy.writestr(info, data)
            elif _BYTES.fullmatch(name):
                with source.open(entry) as old, copy.open(info, "w") as new:
                    shutil.copyfileobj(old, new, 1 << 20)
            else:
                raise Refused(
                    "the archive contains more than a program and its weights: %r" % name[:200], _INSTEAD
                )


def _root(entries: Iterable[zipfile.ZipInfo]) -> str:
    """Return the folder in which all entries lie; "" of the older format, in which they lie in none."""
    names = [entry.filename for entry in entries]
    if set(_OLD) <= set(names):
        return ""
    roots = {name.partition("/")[0] for name in names}
    if len(roots) != 1:
        raise Refused(
            "the archive has more than one folder, or none: %s" % ", ".join(sorted(roots)[:3]), _INSTEAD
        )
    return roots.pop() + "/"


def _require_stored_tensors(name: str, data: bytes) -> None:
    """Of an archive within the archive too: nothing unpacks to more than there is."""
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as inner:
            stored_entries(inner, len(data), _SAVER)
    elif name.endswith(".pt") and data:
        raise Refused("%r is a pickle, which executes code when loaded" % name, _INSTEAD)
