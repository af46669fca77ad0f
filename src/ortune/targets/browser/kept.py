"""What a browser has compiled of onnxruntime-web, kept from trials for later ones of the same build.

A trial has a browser and a profile of its own. Each would fetch the build again and run its WebAssembly until V8 has
compiled what is hot once more, faster, which takes a second: as much as all the rest of a small model's trial. A
profile that begins with both, from earlier trials, comes to the same speed at once. What one trial compiles is a part
of what there is: of the default build the first left 4 MB, the fourth 15 and later ones no more, where each had gone
on compiling while it was timed. Plans share it, so that none begins with less than another. That is for trials in a
group alone, whose loads belong to no figure; a trial alone always begins with an empty profile.
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
"""Of compiled code; a browser that had not yet written any leaves an index alone."""


_LOOK_S = 0.1
"""In which it is seen whether V8 compiles."""
_LARGE_S = 2.0
"""CPU time of that work from which on a page with compiled code has met a function that takes ten times as long; V8
notes which it has begun."""
_FIRST_S, _WRITTEN_S = 5.0, 2.2
"""The most that the first page of a build is given to end that work, and what V8 waits after it before it writes: later
pages are done in 3 s each, where they took 9."""


class CompiledCode:
    """What is kept of one build: some 30 MB.

    Args:
        scratch: Folder of this invocation.
        same: All that must be the same for what was compiled to be of use.
    """

    def __init__(self, scratch: Path, same: Sequence[str]) -> None:
        name = hashlib.sha256("\0".join(same).encode()).hexdigest()[:24]
        self.folder = scratch / "compiled" / name

    def awaited(self) -> bool:
        """Return whether something was kept, or this was asked before: then nobody need wait for it any more."""
        mark = self.folder.with_suffix(".awaited")
        if self.folder.is_dir() or mark.exists():
            return True
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
        return False

    def give(self, profile: Path) -> bool:
        """Put it into a profile that no browser has yet; returns whether there is any."""
        if not self.folder.is_dir():
            return False
        for part in _PARTS:
            shutil.copytree(self.folder / part, profile / part)
        return True

    def lacks(self, profile: Path) -> bool:
        """Return whether a browser has compiled more than those before it."""
        return _compiled_bytes(profile) > max(_LEAST_BYTES, _compiled_bytes(self.folder))

    def gains(self, profile: Path, compiling_s: Callable[[], float], *, began_compiled: bool) -> bool:
        """Return whether a browser leaves compiled code of use; waits a moment for it to be written.

        While V8 is at work, all that begin with what it leaves do that work again.

        Args:
            profile: The browser's.
            compiling_s: Gives the CPU time that V8 has compiled for.
            began_compiled: Whether the profile began with what was kept.
        """
        first = not self.awaited()
        if not first and not self.lacks(profile):
            return False
        if began_compiled and compiling_s() > _LARGE_S:
            return False
        quiet, until = _quiet(compiling_s), monotonic.now_s() + _FIRST_S
        while first and not quiet and monotonic.now_s() < until:
            quiet = _quiet(compiling_s)
        if quiet:
            time.sleep(_WRITTEN_S)  # what it wrote last may note as begun what is ready by now
        return quiet

    def take(self, profile: Path) -> None:
        """Keep what a browser leaves that has compiled more than those before it; its profile is not used again."""
        if not self.lacks(profile):
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            for part in _PARTS:
                (self.folder / part).parent.mkdir(parents=True, exist_ok=True)
                (profile / part).rename(self.folder / part)
        except OSError:  # a profile as another browser makes it: nothing is lost but time
            shutil.rmtree(self.folder, ignore_errors=True)


def _quiet(compiling_s: Callable[[], float]) -> bool:
    before_s = compiling_s()
    time.sleep(_LOOK_S)
    return compiling_s() - before_s < COMPILING * _LOOK_S


def _compiled_bytes(profile: Path) -> int:
    return sum(file.stat().st_size for file in (profile / _COMPILED).glob("*_0"))
