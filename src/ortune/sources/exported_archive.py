"""Rewrites a ``.pt2`` file from its checked contents, so no other reader can interpret it differently.

Readers of zip files disagree about files with two directories or entries with two names, and unpacking may fill the
disk. PyTorch gets an archive without such problems, with only the entries listed here, as they were checked.
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
from .source import SourceRefused
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
"""Entries that ``torch.load`` reads with weights_only; they are archives themselves."""
_CONFIGS = re.compile(r"data/(weights/model_weights|constants/model_constants)_config\.json", re.ASCII)
_PROGRAMS = ("models/model.json", "serialized_exported_program.json")
_LEFT_OUT = re.compile(r"extra(_files)?/.*", re.ASCII)
"""Texts next to the program, which are not copied."""
_OLD = ("serialized_exported_program.json", "version")
"""Entries of the format before PyTorch 2.8, which has no folder."""


def write_checked(path: str, target: str) -> None:
    """Check an archive, and write its allowed contents.

    Args:
        path: The file.
        target: Path of the new file.

    Raises:
        SourceRefused: The archive contains something that is not allowed; the message names it.
        OSError, ValueError, zipfile.BadZipFile: The file is not such an archive.
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
                raise SourceRefused(
                    "the archive contains more than a program and its weights: %r" % name[:200], _INSTEAD
                )


def _root(entries: Iterable[zipfile.ZipInfo]) -> str:
    """Return the folder of all entries, with a slash; "" for the older format, which has none."""
    names = [entry.filename for entry in entries]
    if set(_OLD) <= set(names):
        return ""
    roots = {name.partition("/")[0] for name in names}
    if len(roots) != 1:
        raise SourceRefused(
            "the archive has more than one folder, or none: %s" % ", ".join(sorted(roots)[:3]), _INSTEAD
        )
    return roots.pop() + "/"


def _require_stored_tensors(name: str, data: bytes) -> None:
    """Check tensors: a nested archive must not unpack to more than its size, and pickles are refused."""
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as inner:
            stored_entries(inner, len(data), _SAVER)
    elif name.endswith(".pt") and data:
        raise SourceRefused("%r is a pickle, which executes code when loaded" % name, _INSTEAD)
