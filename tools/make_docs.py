"""Write the pages of ``docs`` that are generated from the modules' own words: settings, rewrites and rules."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

from ortune import rewrites, rules
from ortune.catalogue import knobs
from ortune.catalogue.knobs import Knob
from ortune.rewrites import Param, Rewrite
from ortune.rules import Rule
from ortune.search import phases
from ortune.verbs.explain.run import capitalised

DOCS = Path(__file__).resolve().parents[1] / "docs"
HEADINGS = ("What it is", "Why it costs", "Evidence", "Fix and its safety", "Example", "References")

HEAD = """# Settings

Every setting that `--set`, `--a-set`, `--b-set` and a plan file accept. This page is generated from the
descriptions in `src/ortune/catalogue/`; to add one, see [add-a-knob.md](add-a-knob.md).

A setting that is omitted keeps ONNX Runtime's own default. After each trial, ortune checks that a setting was applied.
*Verified*: its effect was observed (threads counted, a library mapped). *Accepted*: ONNX Runtime returned the value and
recognised the key. *Not verified*: neither was possible.

The last line of each section shows how the setting reaches ONNX Runtime. The *channel* is one of these:

- of a session: an option (`session_option`) or a configuration entry (`session_config`)
- of a run: a configuration entry (`run_config`)
- of an execution provider: one of its options (`provider_option`)
- of all sessions of a process: the allocator (`env_allocator`) or the thread pool (`global_pool`)
- of the process: an environment variable (`env`), a preloaded library (`preload`), the process itself (`process`), or
  how the program calls the session (`call_style`)
- of a page: onnxruntime-web's `ort.env` (`web_env`), an option of `InferenceSession.create` (`web_session`), or the
  page itself (`web_page`)

The *key* is the setting's own name there.

| setting | short | values | default | |
|---|---|---|---|---|
"""

REWRITES_HEAD = """# Rewrites

Every change to a model that `--rewrite NAME[:k=v,...]` and plan files support. `ortune tune` proposes the exact
ones that fit the model and the target. Others need `--allow` or `--tolerance`, and some are never proposed, as their
sections note. This page is generated from the descriptions in `src/ortune/rewrites/`.

Your file is never changed: a rewrite writes a new model, and its outputs are compared before anything is timed. To
measure the gain of a rewrite, run `ortune compare model.onnx --b-rewrite NAME`. To write the changed model, use
[`ortune rewrite`](rewrite.md). [Concepts](concepts.md#safety-class) explains `exact`, `numerics` and `behaviour`.

| rewrite | what it does | safety |
|---|---|---|
"""


RULES_HEAD = """# Findings

Every finding that ortune's rules can report, about models, runs, machines and measurements. The meaning of a code never
changes. "Preview" rules cover problems that no test has reproduced yet, and apply with `--preview`. Rules marked "if
measured" apply in `ortune diagnose` if it can measure their fix, or if you name their code. This page is generated from
the descriptions in `src/ortune/rules/`; to add a rule, see [add-a-rule.md](add-a-rule.md).

| code | name | what it finds |
|---|---|---|
"""


def rules_page() -> str:
    """The page on rules: a table of all, then one section each."""
    found = rules.all_rules().values()
    return RULES_HEAD + "\n".join(map(_rule_row, found)) + "\n\n" + "\n".join(map(_rule_section, found))


def _rule_row(rule: Rule) -> str:
    title = rule.doc.partition("\n")[0].rstrip(".")
    label = "" if rule.tier == "stable" else f" ({rule.tier.replace('-', ' ')})"
    return f"| [`{rule.code}`](#{rule.code.lower()}-{rule.name}) | {rule.name} | {title}{label} |"


def _rule_section(rule: Rule) -> str:
    return f"## {rule.code}: {rule.name}\n\n{_described(rule.doc)}"


def rewrites_page() -> str:
    """The page on rewrites: a table of all, then one section each."""
    found = rewrites.all_rewrites()
    rows = [f"| [`{name}`](#{name}) | {r.summary} | {r.safety} |" for name, r in found.items()]
    return REWRITES_HEAD + "\n".join(rows) + "\n\n" + "\n".join(map(_rewrite, found.values()))


def _rewrite(rewrite: Rewrite) -> str:
    module = importlib.import_module(f"{rewrites.__name__}.{rewrite.name.replace('-', '_')}")
    facts = [f"- {_parameter(param)}" for param in rewrite.params]
    if rewrite.settings:
        needed = ", ".join(f"`{name}={value}`" for name, value in rewrite.settings.items())
        facts.append(f"- the plan also sets {needed}")
    if rewrite.hardware_bound:
        facts.append("- the new model is bound to the kind of hardware it was created on")
    return "\n".join([f"## {rewrite.name}\n", _described(module.__doc__ or ""), *facts, ""])


def _parameter(param: Param) -> str:
    kinds = {"int": f"an integer from {param.minimum}", "text": "text"}
    values = ", ".join(f"`{choice}`" for choice in param.choices) or kinds[param.kind]
    default = f"; default `{param.default}`" if param.default else ""
    name = "any name" if param.name == rewrites.ANY_NAME else f"`{param.name}`"
    return f"{name}: {param.summary} ({values}{default})"


def knobs_page() -> str:
    """The page on settings: a table of all, then one section each."""
    found = knobs.all_knobs()
    rows = [_row(knob) for knob in found.values()]
    sections = [_section(knob) for knob in found.values()]
    return HEAD + "\n".join(rows) + "\n\n" + "\n".join(sections)


def _values(knob: Knob) -> str:
    if knob.choices:
        return ", ".join(f"`{choice}`" for choice in knob.choices)
    if knob.kind == "bool":
        return "`0`, `1`"
    if knob.kind == "int":
        return "an integer" + (f" from {knob.minimum}" if knob.minimum is not None else "")
    return "text"


def _row(knob: Knob) -> str:
    short = ", ".join(f"`{alias}`" for alias in knob.aliases)
    link = f"[`{knob.name}`](#{knob.name})"
    return f"| {link} | {short} | {_values(knob)} | {knob.default} | {knob.summary} |"


def _section(knob: Knob) -> str:
    """One setting: its documentation, its facts below."""
    since = "any version" if knob.since == "0" else f"ONNX Runtime {knob.since} and newer"
    facts = [f"channel `{knob.channel}`", f"key `{knob.key}`", since, f"safety: {knob.safety}"]
    if knob.builds:
        facts.append(
            f"in the build{'s' * (len(knob.builds) > 1)} " + " and ".join(f"`{name}`" for name in knob.builds)
        )
    if knob.conflicts:
        facts.append("excludes " + ", ".join(f"`{name}`" for name in knob.conflicts))
    return f"## {knob.name}\n\n{_described(knob.documentation)}\n*{'; '.join(facts)}*\n"


def _described(docstring: str) -> str:
    """A documentation as Markdown, with its headings as bold words."""
    title, _, body = docstring.partition("\n")
    flat = re.sub(r"\n {4}", " ", body.strip()).replace("``", "`")  # Markdown's code, not reST's
    lines = []
    for line in flat.splitlines():
        heading, sign, text = line.partition(":")
        known = sign and heading in HEADINGS
        words = text.strip()
        lines.append(f"**{heading}.** {capitalised(words)}\n" if known else f"{line}\n")
    return f"{title}\n\n" + "\n".join(lines)


BUDGETS_HEAD = """# Where a budget goes

Every share, floor and margin by which a verb divides its `--budget`, in the order in which a session spends its time.
This page is generated from `src/ortune/search/phases.py`. [What a budget means](measurement.md#what-a-budget-means)
explains how the shares work together.

| phase | verbs | how much | what for |
|---|---|---|---|
"""


def budgets_page() -> str:
    """The table of phases; shares as percentages."""
    rows = []
    for phase in phases.TABLE:
        share = phase.unit.startswith("of ")
        amount = f"{100 * phase.amount:g} %" if share else f"{phase.amount:g}"
        rows.append(f"| {phase.name} | {phase.verbs} | {amount} {phase.unit} | {phase.what} |\n")
    return BUDGETS_HEAD + "".join(rows)


PAGES = {
    "budgets.md": budgets_page,
    "knobs.md": knobs_page,
    "rewrites.md": rewrites_page,
    "rules.md": rules_page,
}


def main() -> int:
    """Write every generated page."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
