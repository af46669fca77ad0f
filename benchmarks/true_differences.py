"""Are true differences found with the right sign, and do they come again? Run by hand; about ten minutes.

    python benchmarks/true_differences.py

Each pair is compared twice, the second time fresh: the first interval must hold the second estimate.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import ortune
from common import model_path

PAIRS = [
    ("minilm-int8", "level=basic against the default", [], ["level=basic"], "faster"),
    ("minilm-int8", "1 against 2 threads", ["intra=2"], ["intra=1"], "slower"),
    ("ppocrv4-rec", "1 against 2 threads", ["intra=2"], ["intra=1"], "slower"),
    ("silero-vad", "arena off, mimalloc", [], ["arena=0", "allocator=mimalloc"], "faster"),
]


def main() -> None:
    """Prints one Markdown row a pair."""
    store = Path(tempfile.mkdtemp(prefix="ortune-bench-"))
    print(f"{datetime.now(UTC):%Y-%m-%d}\n")
    print("| model | B against A | expected | first | interval | second | sign right | second in first |")
    print("|---|---|---|---:|---|---:|---|---|")
    for name, what, a_set, b_set, expected in PAIRS:
        model = model_path(name)
        first, second = (
            ortune.compare(model, a_set=a_set, b_set=b_set, store=store).result.comparison for _ in range(2)
        )
        holds = first.ratio_low <= second.ratio <= (first.ratio_high or float("inf"))
        high = "" if first.ratio_high is None else f"{first.ratio_high:.3f}"
        print(
            f"| {name} | {what} | {expected} | {first.ratio:.3f} | {first.ratio_low:.3f} to {high} "
            f"| {second.ratio:.3f} | {'yes' if first.verdict == expected else 'NO: ' + first.verdict} "
            f"| {'yes' if holds else 'NO'} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
