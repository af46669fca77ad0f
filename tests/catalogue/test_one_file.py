"""A setting is one row: everything else that must know of it finds it there."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from knob_models import transformer_block
from ortune import loader, platform
from ortune.bundle.settings import portable, providers, resolve
from ortune.bundle.snippet import python_lines
from ortune.bundle.triton import config
from ortune.catalogue import files, knobs
from ortune.catalogue.facts import facts_of
from ortune.inputs import feed_files
from ortune.measuring.executor import Arm, Executor, Timing
from ortune.records import (
    BundleInfo,
    Case,
    FeedRef,
    InputChoice,
    Measured,
    Plan,
    ProviderSpec,
    Runtime,
    Workload,
)
from ortune.search.plan_edits import with_change
from ortune.search.proposals.neighbours import neighbours
from ortune.search.proposals.settings import proposals
from ortune.store.db import SessionLog
from ortune.targets import requests
from ortune.targets.machine import Machine
from ortune.worker import channels

DOCUMENTATION = """documentation = '''
{}

What it is: {}.
Why it costs: it does not.
Evidence: none.
Fix and its safety: leave it; exact.
Example: ``--set newest={}``
References: none.
'''
"""
NEW = (
    "[general.newest_thing]\n"
    + DOCUMENTATION.format("Whether the newest thing is done.", "a key that ONNX Runtime knows", 0)
    + """aliases = ["newest"]
channel = "session_config"
key = "session.allow_released_opsets_only"
kind = "int"
default = "1"
conflicts = ["enable_mem_reuse"]
summary = "the newest thing"
threads = "intra"
tries = ["0"]
applies.fact = "gelu"
prior = 0.03
priors.latency = 0.77
triton = "newest_parameter"
"""
)
OF_A_PROVIDER = (
    "[general.second_threads]\n"
    + DOCUMENTATION.format("Threads of the second provider.", "an option of its own", 3)
    + """aliases = ["newest"]
channel = "provider_option"
provider = "XnnpackExecutionProvider"
key = "threads"
kind = "int"
default = "1"
summary = "threads of the second provider"
tries = ["3"]
prior = 0.5
"""
)
RUNTIME = Runtime(python=sys.executable, ort_version=onnxruntime.__version__)
BLOCK = facts_of(ir.from_proto(transformer_block()))


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test adds is gone after it."""
    yield
    monkeypatch.undo()
    forget()


def forget() -> None:
    files.clear_caches()
    for cached in (knobs.rows, knobs.all_knobs):
        cached.cache_clear()


def add(file: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a file one of those of the catalogue."""
    file.write_text(text, encoding="utf-8")
    monkeypatch.setattr(files, "FOLDERS", [*files.FOLDERS, file.parent])
    forget()


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a setting that is one row."""
    add(tmp_path / "newest.toml", NEW, monkeypatch)
    return "newest_thing"


def test_it_is_proposed_with_its_prior_where_it_applies(new: str) -> None:
    (found,) = [p for p in proposals(BLOCK, 4, "1.31.1", [])[0] if new in p.settings]
    assert (found.settings, found.prior) == ({new: 0}, 0.77)
    (found,) = [p for p in proposals(BLOCK, 4, "1.31.1", [], objective="memory")[0] if new in p.settings]
    assert found.prior == 0.015
    found_none, _ = proposals(dataclasses.replace(BLOCK, gelu=False), 4, "1.31.1", [])
    assert not any(new in p.settings for p in found_none)


def test_it_is_parsed_and_told(new: str) -> None:
    settings = knobs.parse_settings(["newest=4"])
    assert settings == {new: 4}
    assert Plan(settings=settings).describe() == "newest_thing=4"


def test_what_it_says_of_another_setting_holds_for_both(new: str) -> None:
    assert knobs.find("enable_mem_reuse").conflicts == (new,)
    assert with_change(Plan(settings={new: 4}), Plan(settings={"enable_mem_reuse": False}), Plan()) is None


def test_its_role_decides_its_neighbours_and_what_a_bundle_keeps(new: str) -> None:
    assert neighbours(knobs.find(new), 4, 4) == [3]
    assert portable(Plan(settings={new: 6})).settings == {new: "min(6, cpus)"}


def test_it_reaches_the_session_and_is_read_back(new: str, tmp_path: Path) -> None:
    onnx.save(transformer_block(), tmp_path / "m.onnx")
    feed_files.write_feeds(tmp_path / "feeds", {"x": np.ones((1, 16, 32), np.float32)})
    choice = InputChoice(name="x", dtype="float", shape=(1, 16, 32))
    workload = Workload(cases=(Case(name="all", inputs=(choice,)),))
    executor = Executor({}, workload, tmp_path, SessionLog(None, ""), Machine())
    executor.timing = Timing(runs=3, warmup_runs=1, warmup_ns=0)
    feeds = (FeedRef(name="all", path=str(tmp_path / "feeds")),)
    plan = Plan(settings=knobs.parse_settings(["newest=0"]))
    arm = Arm(name="new", plan=plan, model=tmp_path / "m.onnx", runtime=RUNTIME, feeds=feeds)
    outcome = executor.trial(arm)
    assert isinstance(outcome, Measured), outcome
    assert [(r.knob, r.level, r.ok, r.seen) for r in outcome.done.read_back] == [(new, "echo", True, "0")]


def test_it_is_in_the_code_and_in_what_is_deployed(new: str) -> None:
    plan = Plan(settings={new: 0})
    info = BundleInfo(
        schema="ortune/bundle/1",
        model="m.onnx",
        sha256="",
        plan=plan,
        applied=resolve(plan),
        host=platform.host(),
    )
    assert "'session.allow_released_opsets_only', '0'" in python_lines(plan)
    parameter = 'parameters { key: "newest_parameter" value: { string_value: "0" } }'
    assert parameter in config(info, ir.from_proto(transformer_block()), ())


def test_it_is_documented(new: str) -> None:
    path = Path(__file__).resolve().parents[2] / "tools" / "make_docs.py"
    spec = importlib.util.spec_from_file_location("make_docs", path)
    assert spec is not None and spec.loader is not None
    make_docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_docs)
    page = make_docs.knobs_page()
    assert "| [`newest_thing`](#newest_thing) | `newest` | an integer | 1 | the newest thing |" in page
    assert "**What it is.** A key that ONNX Runtime knows." in page
    assert "safety: exact; excludes `enable_mem_reuse`" in page


# --- settings of an execution provider -------------------------------------------------------------------

FIRST, SECOND = "FirstExecutionProvider", "XnnpackExecutionProvider"
BOTH = (ProviderSpec(name=FIRST), ProviderSpec(name=SECOND, options={"intra_op_num_threads": "0"}))


@pytest.fixture
def of_a_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an option of a provider, in the file of that provider."""
    add(tmp_path / "second.toml", OF_A_PROVIDER, monkeypatch)
    return "second_threads"


def test_an_option_reaches_the_provider_that_it_belongs_to(of_a_provider: str) -> None:
    plan = Plan(settings={of_a_provider: 3}, providers=BOTH)
    sent = requests.applied(plan, RUNTIME)
    asked = [{"name": p.name, "options": p.options} for p in plan.providers]
    settings = channels.apply(onnxruntime, [msgspec.to_builtins(item) for item in sent])
    given = channels._providers(asked, settings.provider_options)
    assert given == [FIRST, (SECOND, {"intra_op_num_threads": "0", "threads": "3"})]
    assert providers(plan, resolve(plan)) == [
        (FIRST, {}),
        (SECOND, {"intra_op_num_threads": "0", "threads": "3"}),
    ]
    parts = ast.walk(ast.parse(python_lines(plan)))
    (keyword,) = (part for part in parts if isinstance(part, ast.keyword))
    assert ast.literal_eval(keyword.value) == given
    stored = [msgspec.to_builtins(item) for item in resolve(plan)]
    assert loader._providers({"plan": msgspec.to_builtins(plan)}, stored) == given


def test_a_plan_without_the_provider_cannot_have_its_option(of_a_provider: str) -> None:
    with pytest.raises(requests.CannotApply, match="a setting of XnnpackExecutionProvider"):
        requests.applied(Plan(settings={of_a_provider: 3}), RUNTIME)


def test_it_is_proposed_only_to_plans_with_the_provider(of_a_provider: str) -> None:
    found, _ = proposals(BLOCK, 4, "1.31.1", [], providers=[SECOND])
    assert {of_a_provider: 3} in [p.settings for p in found]
    found, left_out = proposals(BLOCK, 4, "1.31.1", [])
    assert not any(of_a_provider in p.settings for p in found)
    assert not any(of_a_provider in reason for reason in left_out)
