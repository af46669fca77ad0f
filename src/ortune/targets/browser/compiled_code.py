"""Cache of the code that a browser compiled for onnxruntime-web, used by later trials of the same build.

Each trial has its own browser and profile. It would fetch the build again and run its WebAssembly until V8 has
recompiled the hot functions, which takes a second: as long as the rest of a small model's trial. A profile that
contains both from earlier trials is fast at once. One trial compiles only a part: of the default build the first left 4
MB, the fourth 15 and later ones no more, and each kept compiling while it was timed. Plans share the cache, so none has
an advantage. It is only used for trials in a group, which do not measure load times; a separate trial always starts
with an empty profile.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ortune import monotonic
from ortune.targets.browser.page_job import COMPILING

_PARTS = ("Default/Cache", "Default/Code Cache")
_COMPILED = Path("Default/Code Cache/wasm")
_LEAST_BYTES = 100_000
"""Size in bytes above which a folder contains compiled code; without any, a browser leaves only an index."""


_LOOK_S = 0.1
"""Seconds of observation to determine whether V8 is compiling."""
_LARGE_S = 2.0
"""CPU time in seconds after which a page that began with compiled code is compiling a very large function, which takes
ten times as long; V8 records the functions that it has begun."""
_FIRST_S, _WRITTEN_S = 5.0, 2.2
"""Longest wait for the first page of a build to finish compiling, and the delay before V8 writes its cache, in seconds:
later pages then take 3 s each instead of 9."""


class CompiledCode:
    """Compiled code of one build of onnxruntime-web, about 30 MB.

    Args:
        scratch: Folder of this invocation.
        same: Properties that must be equal for the compiled code to be usable, such as the browser and the build.
    """

    def __init__(self, scratch: Path, same: Sequence[str]) -> None:
        name = hashlib.sha256("\0".join(same).encode()).hexdigest()[:24]
        self.folder = scratch / "compiled" / name

    def is_awaited(self) -> bool:
        """Return whether compiled code is stored or was requested by an earlier call; a call records its request."""
        mark = self.folder.with_suffix(".awaited")
        if self.folder.is_dir() or mark.exists():
            return True
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
        return False

    def copy_into(self, profile: Path) -> bool:
        """Copy the compiled code into a new profile; return False if none is stored."""
        if not self.folder.is_dir():
            return False
        for part in _PARTS:
            shutil.copytree(self.folder / part, profile / part)
        return True

    def is_behind(self, profile: Path) -> bool:
        """Return whether a browser has compiled more than the stored code."""
        return _compiled_bytes(profile) > max(_LEAST_BYTES, _compiled_bytes(self.folder))

    def wait_for_new_code(
        self, profile: Path, compiling_s: Callable[[], float], *, began_compiled: bool
    ) -> bool:
        """Return whether a browser leaves useful compiled code; waits briefly for it to be written.

        If V8 is still compiling, later trials would repeat that work.

        Args:
            profile: Profile of the browser.
            compiling_s: Callback that returns V8's CPU time of compiling so far.
            began_compiled: Whether the profile started with stored code.
        """
        first = not self.is_awaited()
        if not first and not self.is_behind(profile):
            return False
        if began_compiled and compiling_s() > _LARGE_S:
            return False
        quiet, until = _quiet(compiling_s), monotonic.now_s() + _FIRST_S
        while first and not quiet and monotonic.now_s() < until:
            quiet = _quiet(compiling_s)
        if quiet:
            time.sleep(_WRITTEN_S)  # the file written last may call complete functions unfinished
        return quiet

    def store(self, profile: Path) -> None:
        """Move a browser's compiled code here if it exceeds the stored code; the profile cannot be used again."""
        if not self.is_behind(profile):
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            for part in _PARTS:
                (self.folder / part).parent.mkdir(parents=True, exist_ok=True)
                (profile / part).rename(self.folder / part)
        except OSError:  # another browser's profile has other folders: later trials compile again
            shutil.rmtree(self.folder, ignore_errors=True)


def _quiet(compiling_s: Callable[[], float]) -> bool:
    before_s = compiling_s()
    time.sleep(_LOOK_S)
    return compiling_s() - before_s < COMPILING * _LOOK_S


def _compiled_bytes(profile: Path) -> int:
    return sum(file.stat().st_size for file in (profile / _COMPILED).glob("*_0"))
