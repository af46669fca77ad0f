"""Does a rewrite ever break a model? A part of ``make test-long``.

    python benchmarks/rewrite_fuzz.py [--graphs 100000] [--first 0] [--limit-s SECONDS] [--no-node-cases]

Every rewrite that changes graphs in memory is applied to every node case that comes with onnx (as it is, with all that
is fed as constants, and with all but the first), and to random graphs. What comes out must be valid, give the same
outputs in ONNX Runtime within the rewrite's class, and not change when the rewrite is applied again. The same number
gives the same graph. Ends with 1 where one failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "rewrites"))

from rewrite_fuzzing import IN_MEMORY, Tally, over_node_cases, over_random_graphs


def table(cases: Tally, graphs: Tally) -> str:
    """A row a rewrite, as Markdown."""
    lines = ["| rewrite | node cases changed | random graphs changed | wrong |\n|---|---:|---:|---:|"]
    for rewrite in IN_MEMORY:
        name = rewrite.name
        wrong = sum(text.startswith(f"{name} on ") for text in (*cases.wrong, *graphs.wrong))
        lines.append(f"| {name} | {cases.changed[name]:,} | {graphs.changed[name]:,} | {wrong} |")
    wrong = len(cases.wrong) + len(graphs.wrong)
    lines.append(f"| models tried | {cases.models:,} | {graphs.models:,} | {wrong} |")
    return "\n".join(lines)


def main() -> int:
    """Tries, and prints what is wrong as it happens."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--graphs", type=int, default=100_000, help="random graphs")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="stop after so many seconds")
    parser.add_argument("--node-cases", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    began, cases, graphs = time.monotonic(), Tally(), Tally()
    if options.node_cases:
        left_out = over_node_cases(cases)
        print(f"{left_out} forms of node cases are not run by this build of ONNX Runtime")
        print(*cases.wrong, sep="\n", flush=True)
    for number in range(options.first, options.first + options.graphs):
        if time.monotonic() - began > options.limit_s:
            print(f"stopped after {options.limit_s:g} s; go on with --first {number}")
            break
        seen = len(graphs.wrong)
        over_random_graphs(range(number, number + 1), graphs)
        print(*graphs.wrong[seen:], sep="\n", end="\n" if graphs.wrong[seen:] else "", flush=True)
    print(table(cases, graphs))
    return int(bool(cases.wrong or graphs.wrong))


if __name__ == "__main__":
    sys.exit(main())
