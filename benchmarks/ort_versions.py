"""What three releases of ONNX Runtime are to real models. Run by hand on a quiet machine; a minute a model.

    python benchmarks/ort_versions.py [ppocrv4-det magika ...]

Each model under all releases in the same blocks (``ortune history``). ``latency`` is of each release; the change is
against the release before it, with its interval.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import ortune
from common import model_path
from ortune.errors import OrtuneError
from ortune.show import sides
from ortune.show.numbers import change, duration, span
from ortune.verbs.history.result import ReleaseRow

MODELS = (
    "ppocrv4-det", "ppocrv4-rec", "ppocrv2-cls", "magika", "minilm-int8", "basic-pitch", "oww-embedding",
    "light-squeezenet",
)  # fmt: skip
RELEASES = ("1.22.1", "1.27.0", "1.32.0")
BUDGET_S = 60.0


def cell(row: ReleaseRow, before: ReleaseRow | None) -> str:
    """Latency, where it shows the paired change, and that change since the release before."""
    if row.figures is None:
        return row.failed.splitlines()[0][:80]
    since = row.since_previous
    if since is None or before is None or before.figures is None:
        return duration(row.figures.latency_ns)
    value = sides.new_value(before.figures, row.figures, since)
    return ", ".join(
        filter(None, [value, f"{change(since.ratio)} ({span(since.ratio_low, since.ratio_high)})"])
    )


def row(name: str, store: Path) -> str:
    """One Markdown row, the oldest release first."""
    try:
        result = ortune.history(model_path(name), release=RELEASES, budget=BUDGET_S, store=store).result
    except OrtuneError as error:
        return f"| {name} | {error.what.splitlines()[0][:120]} |" + " |" * len(RELEASES)
    releases = result.rows[::-1]
    cells = [cell(release, before) for before, release in zip([None, *releases], releases, strict=False)]
    return f"| {name} | {' | '.join(cells)} | {', '.join(result.changed) or 'none'} |"


def main(names: list[str]) -> None:
    """The table."""
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n")
    print(f"| model | {' | '.join(RELEASES)} | changed in |\n|{'---|' * (len(RELEASES) + 2)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in names or MODELS:
            print(row(name, Path(folder)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
