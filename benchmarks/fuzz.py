"""Does any damaged file make ortune fail in a way of its own? A part of ``make test-long``.

    python benchmarks/fuzz.py [--mutations 10000] [--first 0] [--kinds model,plan,...]

Good files of every kind that ortune reads are damaged and read again, each in a process that may use 2 GiB and 20 s.
``--mutations`` of each kind are made; the same number gives the same file, so ``--first`` goes on where an earlier run
ended, and a failure is seen again by ``--first NUMBER --mutations 1 --kinds KIND``. Ends with 1 where one failed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from fuzzing import Row, kinds, one


def table(rows: list[Row]) -> str:
    """A row a kind, as Markdown."""
    lines = ["| file | damaged | read | refused | failed |\n|---|---:|---:|---:|---:|"]
    for kind in dict.fromkeys(row.kind for row in rows):
        mine = [row for row in rows if row.kind == kind]
        count = Counter(row.outcome for row in mine if row.good)
        failed = sum(not row.good for row in mine)
        lines.append(f"| {kind} | {len(mine)} | {count['read']} | {count['refused']} | {failed} |")
    return "\n".join(lines)


def main() -> int:
    """Damages and reads, and prints what failed as it happens."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutations", type=int, default=10_000, help="of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--kinds", default="", help="these alone")
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="stop after so many seconds")
    options = parser.parse_args()
    wanted, began = set(filter(None, options.kinds.split(","))), time.monotonic()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        all_kinds = [kind for kind in kinds(Path(folder)) if not wanted or kind.name in wanted]
        for number in range(options.first, options.first + options.mutations):
            if time.monotonic() - began > options.limit_s:
                print(f"stopped after {options.limit_s:g} s; go on with --first {number}")
                break
            for kind in all_kinds:
                rows.append(one(kind, number))
                if not rows[-1].good:
                    print(
                        f"{kind.name} {number} ({rows[-1].damage}): {rows[-1].outcome}\n{rows[-1].trace}",
                        flush=True,
                    )
    print(table(rows))
    return int(any(not row.good for row in rows))


if __name__ == "__main__":
    sys.exit(main())
