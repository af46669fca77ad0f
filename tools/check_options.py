"""Looks up the names of providers' options in the string tables of released libraries: none is typed from memory.

python tools/check_options.py WHEEL... [TARGET=HEADER]...

A wheel is searched for the names of the providers that it brings (onnxruntime-gpu, -qnn, -openvino, -directml,
-migraphx, the plug-ins, and for CoreML the wheel of macOS), as the package index has it. A provider without a wheel is
looked up in a text of ONNX Runtime's sources: ``nnapi=nnapi_provider_factory.h``. Ends with 1 where one lacks.
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

from ortune.catalogue import knobs, providers
from ortune.catalogue.provider import Provider

PLATFORMS = {"Linux": "linux", "Windows": "win_", "Darwin": "macosx"}


def libraries(wheel: Path) -> bytes:
    """ONNX Runtime's own shared libraries in a wheel, one after another."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if re.search(r"\.(so|dll|dylib)(\.[\d.]+)?$", name)]
        return b"\0".join(archive.read(name) for name in names if "onnxruntime" in Path(name).name)


def brings(wheel: Path, provider: Provider) -> bool:
    """Whether a wheel has the library of a provider, by its file name."""
    name = wheel.name.partition("-")[0].replace("_", "-").lower()
    named = {provider.wheel, provider.plugin, *(build.wheel for build in provider.builds)}
    own = [PLATFORMS[system] for system in provider.systems]
    return name in named and any(word in wheel.name for word in own)


def options_of(provider: Provider) -> list[str]:
    """Every option of a provider that a knob or a plan sets; of one inside a text of JSON, that text's name."""
    set_by_knobs = [
        k.key
        for k in knobs.all_knobs().values()
        if k.provider == provider.name and k.channel in ("provider_option", "session_config")
    ]
    return sorted({key.partition("/")[0] for key in (*provider.options, *set_by_knobs)})


def stands(name: str, data: bytes) -> bool:
    """Whether a name is in a library as a word of its own."""
    word, start = name.encode(), -1
    while (start := data.find(word, start + 1)) >= 0:
        around = data[start - 1 : start] + data[start + len(word) : start + len(word) + 1]
        if not re.search(rb"\w", around):
            return True
    return False


def main() -> None:
    """Prints each provider with the names that its library lacks."""
    wheels = [Path(word) for word in sys.argv[1:] if "=" not in word]
    sources = [word.partition("=") for word in sys.argv[1:] if "=" in word]
    lacking = 0
    for provider in providers.all_providers():
        names = options_of(provider)
        texts = {w.name: libraries(w) for w in wheels if names and brings(w, provider)}
        texts |= {text: Path(text).read_bytes() for target, _, text in sources if target == provider.target}
        if not names or provider.in_page:
            continue
        if not texts:
            print(f"{provider.name}: not checked, none of its libraries is given")
            continue
        missing = [name for name in names if not any(stands(name, data) for data in texts.values())]
        lacking += len(missing)
        print(f"{provider.name}: {len(names) - len(missing)} of {len(names)} in {', '.join(texts)}", *missing)
    sys.exit(1 if lacking else 0)


if __name__ == "__main__":
    main()
