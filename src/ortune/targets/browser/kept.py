"""What a browser has compiled of onnxruntime-web, kept from one trial of a plan for its later ones.

A trial has a browser and a profile of its own. Each would fetch the build again and run its WebAssembly until V8 has
compiled what is hot once more, faster, which takes a second: as much as all the rest of a small model's trial. A
profile that begins with both, from an earlier trial of the same plan, comes to the same speed at once. That is for
trials in a group alone, whose loads are nobody's figure; a trial alone always begins with an empty profile.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

MOST_PLANS = 8
"""Each takes some 30 MB of the scratch folder; no more plans than that are in one group."""
_PARTS = ("Default/Cache", "Default/Code Cache")
_COMPILED = Path("Default/Code Cache/wasm")
_LEAST_BYTES = 100_000
"""Of compiled code; a browser that had not yet written any leaves an index alone."""


class Kept:
    """What is kept for one plan.

    Args:
        scratch: Folder of this invocation.
        same: All that must be the same for what was compiled to be of use.
    """

    def __init__(self, scratch: Path, same: Sequence[str]) -> None:
        name = hashlib.sha256("\0".join(same).encode()).hexdigest()[:24]
        self.folder = scratch / "compiled" / name

    def give(self, profile: Path) -> bool:
        """Puts it into a profile that no browser has yet; whether there is any."""
        if not self.folder.is_dir():
            return False
        for part in _PARTS:
            shutil.copytree(self.folder / part, profile / part)
        return True

    def take(self, profile: Path) -> None:
        """Keeps what the first browser to have compiled something leaves; its profile is not used again."""
        compiled = profile / _COMPILED
        if self.folder.is_dir() or sum(f.stat().st_size for f in compiled.glob("*_0")) < _LEAST_BYTES:
            return
        with contextlib.suppress(OSError):  # a profile as another browser makes it: nothing is lost but time
            for part in _PARTS:
                (self.folder / part).parent.mkdir(parents=True, exist_ok=True)
                (profile / part).rename(self.folder / part)
            others = sorted(self.folder.parent.iterdir(), key=lambda folder: folder.stat().st_mtime_ns)
            for old in others[:-MOST_PLANS]:
                shutil.rmtree(old)
            return
        shutil.rmtree(self.folder, ignore_errors=True)
