"""Every setting there is goes into a bundle and into the code that loads it."""

from __future__ import annotations

import ast

import pytest

from ortune import platform
from ortune.bundle.languages import emit_all
from ortune.bundle.settings import portable, resolve
from ortune.bundle.shared import thread_cap
from ortune.bundle.snippet import python_lines
from ortune.catalogue import knobs
from ortune.catalogue.knobs import Knob
from ortune.records import BundleInfo, Plan, ProviderSpec, Value


def some_value(knob: Knob) -> Value:
    """A value of the knob's type."""
    if knob.kind == "bool":
        return True
    if knob.kind == "int":
        return (knob.minimum or 0) + 3
    return knob.choices[-1] if knob.choices else "0"


@pytest.mark.parametrize("name", [n for n, k in knobs.all_knobs().items() if not k.is_only_in_browsers])
def test_is_in_the_code_of_every_language(name: str) -> None:
    knob = knobs.find(name)
    own = (ProviderSpec(name=knob.provider),) if knob.provider else ()
    given = Plan(settings={name: some_value(knob)}, providers=own)
    plan = portable(given)
    (setting,) = resolve(plan)
    emitted = emit_all(
        BundleInfo(
            schema="ortune/bundle/1",
            model="m.onnx",
            sha256="",
            plan=plan,
            applied=(setting,),
            host=platform.host(),
        )
    )
    tree = ast.parse(emitted["load.py"], feature_version=(3, 8))
    default = emit_all(
        BundleInfo(
            schema="ortune/bundle/1",
            model="m.onnx",
            sha256="",
            plan=Plan(providers=own),
            host=platform.host(),
        )
    )
    assert default["load.py"] != emitted["load.py"] or given.settings[name] == "run"
    # Node can append no provider beside its own, which is said once for all that belongs to it.
    assert default["load.mjs"] != emitted["load.mjs"] or given.settings[name] == "run" or own
    assert tree.body
    ast.parse(python_lines(given))
    ast.parse(python_lines(plan))


def test_counts_of_threads_are_never_bare_numbers() -> None:
    # A provider's option is plain text in every language.
    own = [k for k in knobs.all_knobs().values() if k.channel != "provider_option"]
    counts = [k for k in own if any("{cpus" in text for text in k.tries)]
    assert counts
    for knob in counts:
        stored = portable(Plan(settings={knob.name: 6})).settings[knob.name]
        assert stored == "min(6, cpus)" and thread_cap(stored) == 6


def test_other_numbers_stay_numbers() -> None:
    settings: dict[str, Value] = {"dynamic_block_base": 4, "intra_op_num_threads": 0}
    assert portable(Plan(settings=settings)).settings == settings
