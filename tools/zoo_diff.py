"""Which rules fire on the real test models: a table for docs/results.md, and every finding in full."""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from ortune import rules
from ortune.graph.model.open import open_model
from ortune.records import Finding
from ortune.rules import ABOUT_MODELS, Facts, Selection
from ortune.rules._words import listed
from ortune.targets.machine import Machine
from zoo import MODELS, model_path

NAMED = 6


def main() -> None:
    """Asks all rules that need no more than a file, of every tier."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cpu", help="where the models would run")
    parser.add_argument("--full", action="store_true", help="every finding, with what it marks")
    options = parser.parse_args()
    host = Machine().host
    found: dict[str, Sequence[Finding]] = {}
    started = time.monotonic()
    asked = [*rules.all_rules(ABOUT_MODELS).values()]
    for name in MODELS:
        facts = Facts(model=open_model(model_path(name)), host=host, target=options.target)
        found[name] = rules.found_by(asked, facts)
        for finding in found[name] if options.full else ():
            print(f"{name}: {finding.code} {finding.name}: {finding.what}; {finding.evidence}")
    taken_s = time.monotonic() - started
    print(table(found, options.target, taken_s))


def table(found: Mapping[str, Sequence[Finding]], target: str, taken_s: float) -> str:
    """Rules that fire somewhere, with the models."""
    models: defaultdict[str, list[str]] = defaultdict(list)
    for name, findings in found.items():
        for finding in findings:
            models[finding.code].append(name)
    stable = {rule.code for rule in Selection().rules()}
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, {len(found)} models, target {target}, {taken_s:.1f} s in all.",
        "",
        "| rule | reported by `check` | models | which |",
        "|---|---|---|---|",
    ]
    for code, names in sorted(models.items()):
        rule = rules.all_rules()[code]
        said = "yes" if code in stable else rule.tier
        lines.append(f"| {code} {rule.name} | {said} | {len(names)} | {listed(names, NAMED)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
