"""Write ``docs/glossary.md``: the words of the code, what they mean, and what stands for each.

python tools/make_glossary.py
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "glossary.md"
HEAD = """# Glossary

The words of the source code and of JSON documents, for people who read or change them. Pages and the terminal prefer
the words of the second column where they differ; [concepts](concepts.md) explains them at length. This page is generated
by `tools/make_glossary.py`, and a test checks that every name in the last column exists.

"""
TABLE = "| word | for users | meaning | in the code |\n|---|---|---|---|\n"


@dataclass(frozen=True, kw_only=True)
class Term:
    """One word.

    Attributes:
        word: As code and JSON have it.
        meaning: One sentence.
        name: What stands for it, as ``module:name``; below the package.
        shown: What pages and the terminal call it; "" where that is the same.
    """

    word: str
    meaning: str
    name: str
    shown: str = ""


GROUPS: dict[str, tuple[Term, ...]] = {
    "What is run": (
        Term(
            word="workload",
            meaning="How a model is used: input shapes with weights, values, seed, arrival of calls.",
            name="records:Workload",
        ),
        Term(word="case", meaning="One input shape of a workload, with its weight.", name="records:Case"),
        Term(
            word="feeds",
            meaning="The values of all inputs of one case, kept as files.",
            name="records:FeedRef",
            shown="inputs",
        ),
        Term(
            word="runtime",
            meaning="One Python interpreter with one build of ONNX Runtime, or one onnxruntime-web in a browser.",
            name="records:Runtime",
        ),
        Term(
            word="provider",
            meaning="An execution provider of ONNX Runtime; its description is one file.",
            name="providers:Provider",
            shown="execution provider",
        ),
        Term(
            word="target",
            meaning="A place where models run: an execution provider in a process or a browser.",
            name="targets.target:Target",
        ),
        Term(
            word="knob",
            meaning="One setting: its values, first version, channel to ONNX Runtime, and read-back.",
            name="knobs:Knob",
            shown="setting",
        ),
        Term(
            word="rewrite",
            meaning="One change from a model to a model, with its safety class.",
            name="rewrites:Rewrite",
        ),
        Term(
            word="pass pipeline",
            meaning="Rewrites applied one after another, each to the result of the one before.",
            name="rewrites:pipeline",
        ),
        Term(
            word="plan",
            meaning="An immutable set of rewrites, settings and execution providers; the empty plan is the default.",
            name="records:Plan",
            shown="configuration",
        ),
        Term(
            word="side",
            meaning="One model with one plan and one runtime, resolved and ready to compare.",
            name="records:Side",
        ),
    ),
    "What is measured": (
        Term(
            word="trial", meaning="One plan in one fresh process, measured once.", name="records:TrialRequest"
        ),
        Term(
            word="arm",
            meaning="One side of a measurement: a plan on a model under a runtime, with its feeds.",
            name="trials.executor:Arm",
        ),
        Term(
            word="block",
            meaning="One trial of every live arm, alive together and taking turns; the unit of analysis.",
            name="records:Block",
        ),
        Term(
            word="turn",
            meaning="A batch of runs of one trial while the others of its block sleep.",
            name="records:Batch",
        ),
        Term(
            word="schedule",
            meaning="What decides which arms the next block holds: fixed, sequential or halving.",
            name="search.schedule:Schedule",
        ),
        Term(
            word="phase",
            meaning="One share, floor or margin of a verb's budget.",
            name="search.phases:Phase",
        ),
        Term(
            word="outcome",
            meaning="What a trial became: Measured or Failed; a failure is data and is never dropped.",
            name="records:Outcome",
        ),
        Term(
            word="comparison",
            meaning="Candidate against baseline over blocks: ratio, interval, minimum detectable effect, verdict.",
            name="records:Comparison",
        ),
        Term(
            word="verdict",
            meaning="The conclusion of a comparison, from a closed list: faster, slower, equivalent, inconclusive, ...",
            name="records:VerdictName",
        ),
        Term(
            word="statistic",
            meaning="The statistic that is compared, such as the median latency; a field of JSON documents.",
            name="search.figures:Statistic",
            shown="statistic",
        ),
        Term(
            word="guard",
            meaning="A figure that must not get worse while the objective improves.",
            name="records:Guard",
        ),
        Term(
            word="control",
            meaning="A check of the measurement itself: identical sides (A/A), or a known slowdown.",
            name="records:Control",
            shown="A/A check, sensitivity check",
        ),
        Term(
            word="status",
            meaning="What became of a candidate of tune: won, pruned, rejected by a guard, failed, ...",
            name="records:PlanStatus",
        ),
    ),
    "What is known about a model": (
        Term(
            word="initializer",
            meaning="A tensor that the file stores. It is constant unless it is also a graph input.",
            name="graph.constants:is_overridable",
        ),
        Term(
            word="fingerprint",
            meaning="A hash of structure that ignores the names of nodes and values.",
            name="graph.fingerprints:Fingerprints",
        ),
        Term(
            word="form",
            meaning="A pattern of operators, matched on a graph; a mismatch is reported by its cause.",
            name="graph.forms:Matching",
        ),
        Term(
            word="match",
            meaning="A place where a rewrite applies; a near miss comes with the reason why it does not.",
            name="rewrites._pattern:Pattern",
        ),
        Term(
            word="mapping",
            meaning="The nodes of an optimised graph with the original nodes that they came from.",
            name="analysis.mapping:Mapping",
        ),
        Term(
            word="cost",
            meaning="Operations and bytes of every node, counted from shapes.",
            name="records:ModelCost",
        ),
        Term(
            word="finding",
            meaning="What a rule reports: code, severity, nodes, evidence, estimated gain, fix.",
            name="records:Finding",
        ),
        Term(
            word="facts",
            meaning="Everything that rules may read: model, plan, machine, profile.",
            name="rules:Facts",
        ),
        Term(
            word="brought",
            meaning="The gain that the same rewrite had on similar models; the basis of an estimate.",
            name="records:Brought",
            shown="estimated gain",
        ),
    ),
    "Where time goes": (
        Term(
            word="trace",
            meaning="A profile of ONNX Runtime, parsed once into columns.",
            name="trace.table:Trace",
            shown="profile",
        ),
        Term(
            word="attribution",
            meaning="The time of each run divided among nodes and categories; the parts sum to the whole.",
            name="trace.attribution:Attribution",
        ),
        Term(
            word="category",
            meaning="One of a closed list of kinds of time: kernels, thread waits, data movement, ...",
            name="records:Category",
        ),
        Term(
            word="floor",
            meaning="The least time that a node needs on this machine, by arithmetic or memory bandwidth.",
            name="trace.roofline:with_floors",
            shown="roofline bound",
        ),
        Term(
            word="headroom",
            meaning="The part of a run that could still be saved, and by what.",
            name="records:Headroom",
        ),
        Term(
            word="peak",
            meaning="The highest rates of this machine, measured once.",
            name="records:MachinePeak",
        ),
    ),
    "What is kept": (
        Term(
            word="envelope",
            meaning="The one JSON document that a verb prints; `result` differs by verb.",
            name="records:Envelope",
        ),
        Term(
            word="session",
            meaning="Everything that one invocation measured, stored as it happens.",
            name="store.reading:SessionHead",
        ),
        Term(
            word="snapshot",
            meaning="ONNX Runtime's optimised graphs of a model, without times; the content of a lock file.",
            name="records:Snapshot",
            shown="lock file",
        ),
        Term(
            word="bundle",
            meaning="The deliverable of tune: model, plan, code, and the measurements.",
            name="records:BundleInfo",
        ),
        Term(
            word="skeleton",
            meaning="A model without weights, names or metadata, for bug reports.",
            name="graph.skeleton:Skeleton",
        ),
    ),
}


def resolved(name: str) -> object:
    """What a term's name stands for.

    Raises:
        AttributeError: The module has no such name.
        ImportError: There is no such module.
    """
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(f"ortune.{module}"), attribute)


def page() -> str:
    """The page, one table a group."""
    groups = []
    for title, terms in GROUPS.items():
        rows = [
            f"| {t.word} | {t.shown or t.word} | {t.meaning} | `{t.name.replace(':', '.')}` |\n"
            for t in terms
        ]
        groups.append(f"## {title}\n\n{TABLE}{''.join(rows)}")
    return HEAD + "\n".join(groups)


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
