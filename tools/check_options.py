"""Holds the names of providers' options against the string tables of released libraries: none is typed from memory.

python tools/check_options.py WHEEL...

Each wheel is one of onnxruntime-gpu, -qnn, -openvino, -ep-webgpu, ... as the package index has it. Every name that a
knob or a plan may set, of a provider whose library is in one of them, is looked for there. Ends with 1 where one lacks.
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

from ortune import knobs, providers
from ortune.providers import Provider


def libraries(wheels: list[Path]) -> dict[str, bytes]:
    """The shared libraries in the wheels, by the stem of their names without "lib" and the version."""
    found: dict[str, bytes] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if re.search(r"\.(so|dll|dylib)(\.[\d.]+)?$", name):
                    stem = Path(name).name.partition(".")[0].removeprefix("lib")
                    found[stem] = found.get(stem, b"") + archive.read(name)
    return found


def stem_of(provider: Provider) -> str:
    """How the library of a provider is called."""
    return f"onnxruntime_providers_{providers.short(provider.name).lower()}"


def options_of(provider: Provider) -> list[str]:
    """Every option of a provider that a knob or a plan sets; of one inside a text of JSON, that text's name."""
    set_by_knobs = [k.key for k in knobs.all_knobs().values() if k.provider == provider.name]
    return sorted({key.partition("/")[0] for key in (*provider.options, *set_by_knobs)})


def main() -> None:
    """Prints each provider with the names that its library lacks."""
    there, lacking = libraries([Path(text) for text in sys.argv[1:]]), 0
    for provider in providers.every():
        own = [data for stem, data in there.items() if stem.startswith(stem_of(provider))]
        names = options_of(provider)
        if not own or not names or provider.in_page:
            continue
        absent = [name for name in names if not any(name.encode() in data for data in own)]
        lacking += len(absent)
        print(
            f"{provider.name}: {len(names) - len(absent)} of {len(names)} names are in its library", *absent
        )
    sys.exit(1 if lacking else 0)


if __name__ == "__main__":
    main()
