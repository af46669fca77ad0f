"""Is one thread faster than ONNX Runtime's default for this model? From Python.

python examples/compare_in_python.py model.onnx [seconds]
"""

from __future__ import annotations

import sys

import ortune
from ortune.errors import OrtuneError


def main(model: str, seconds: float = 60.0) -> int:
    """Compares the two and prints the answer in one line. Returns the exit code."""
    watcher = ortune.Watcher(say=lambda sentence: print(sentence, file=sys.stderr))
    try:
        document = ortune.compare(model, b_set=["intra=1"], budget=seconds, watcher=watcher)
    except OrtuneError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    comparison = document.result.comparison
    if comparison is None:
        print(document.summary())
        return 0
    low, high = comparison.ratio_low, comparison.ratio_high
    print(
        f"{document.verdict}: B takes {comparison.ratio:.3f} of A's time ({low:.3f} to {high or float('inf'):.3f})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *(float(text) for text in sys.argv[2:3])))
