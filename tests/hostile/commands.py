"""Files that try to run a command: each maker builds one, and its command would leave the file ``mark``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from onnx_text import assemble
from ortune.bundle import digests


def script(path: Path, mark: Path) -> Path:
    """A program that leaves the mark."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho run > '{mark}'\n")
    path.chmod(0o755)
    return path


def bare_repository(folder: Path, mark: Path) -> None:
    """A bare repository of plain files, which any commit can hold, whose objects are to be fetched by a program."""
    program = script(folder / "program", mark)
    (folder / "objects").mkdir()
    (folder / "objects" / "kept").write_text("")
    (folder / "refs" / "heads").mkdir(parents=True)
    (folder / "refs" / "heads" / "main").write_text("1" * 40 + "\n")
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    settings = f"[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tworktree = ..\n{fetching(program)}"
    (folder / "config").write_text(settings)


def fetching(program: Path) -> str:
    """Settings of a repository by which git starts the program where an object is missing, or the index is read."""
    return (
        "[extensions]\n\tpartialClone = origin\n"
        f'[remote "origin"]\n\turl = .\n\tpromisor = true\n\tuploadpack = "{program}; false"\n'
        '[protocol]\n\tallow = always\n[protocol "file"]\n\tallow = always\n'
        f"[core]\n\tfsmonitor = {program}\n\thooksPath = {program.parent}\n\tsshCommand = {program}\n"
        f"\tpager = {program}\n\tgitProxy = {program}\n"
        f"[diff]\n\texternal = {program}\n"
    )


def native_library(path: Path, mark: Path) -> Path:
    """A shared library that leaves the mark when it is loaded, whoever loads it; needs a C compiler."""
    source = (
        "#include <fcntl.h>\n#include <unistd.h>\n"
        "__attribute__((constructor)) static void run(void)"
        f' {{ close(open("{mark}", O_CREAT | O_WRONLY, 0644)); }}\n'
        "void *RegisterCustomOps(void *options, void *base) { return 0; }\n"
    )
    build = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)]
    subprocess.run(build, input=source, text=True, check=True)
    return path


def bundle_index(bundle: Path, **changes: Any) -> None:
    """Changes parts of ``ortune.json``, by name; those of its plan as ``plan_settings`` and ``plan_providers``.

    The digests are made again, as whoever changed it on purpose would do.
    """
    index = bundle / "ortune.json"
    read = json.loads(index.read_text(encoding="utf-8"))
    for name, value in changes.items():
        part, _, inner = name.partition("_")
        if part == "plan" and inner:
            read["plan"][inner] = value
        else:
            read[name] = value
    index.write_text(json.dumps(read), encoding="utf-8")
    digests.write(bundle)


def applied(channel: str, key: str, value: str) -> dict[str, str]:
    """One entry of ``applied`` in ``ortune.json``."""
    return {"knob": "x", "channel": channel, "key": key, "provider": "", "value": value, "probe": ""}


LIBRARY_OPTIONS = (
    ("QNNExecutionProvider", {"backend_path": "/tmp/evil.so"}),
    ("QNNExecutionProvider", {"op_packages": "Relu:/tmp/evil.so:Provider:CPU"}),
    ("TensorrtExecutionProvider", {"trt_extra_plugin_lib_paths": "/tmp/evil.so"}),
    ("TensorrtExecutionProvider", {"trt_engine_cache_path": "/home"}),
    ("CUDAExecutionProvider", {"gpu_external_alloc": "94000000000000"}),
    ("CUDAExecutionProvider", {"device_id": "/tmp/evil.so"}),
    ("OpenVINOExecutionProvider", {"cache_dir": "/home"}),
    ("OpenVINOExecutionProvider", {"load_config": '{"CPU": {}}'}),
    ("VitisAIExecutionProvider", {"config_file": "evil.json"}),
    ("TomorrowExecutionProvider", {"library_path": "/tmp/evil.so"}),
)
"""Options of providers by which a file would have code loaded, called or files written."""


def linked_weights(folder: Path) -> Path:
    """A model whose weights lie in its folder by way of a link, and above it for who reads the name alone."""
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "sub").symlink_to("deep/er")
    weight = numpy_helper.from_array(np.ones((64, 8), np.float32), "w")
    for place in (folder, folder.parent):
        (place / "w.bin").write_bytes(weight.raw_data)
    del weight.external_data[:]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "sub/../../w.bin"), ("offset", "0"), ("length", str(64 * 8 * 4))):
        weight.external_data.add(key=key, value=value)
    model = assemble(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "float[n,64] x",
        "float[n,8] y",
        [weight],
        ir_version=9,
    )
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    return folder / "net.onnx"
