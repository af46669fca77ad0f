"""Checks of the base before a race: emulated devices, dependent rows, and latency that depends on values."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from ortune import targets
from ortune.catalogue.provider import Provider
from ortune.catalogue.providers import WEB_WEBGPU as WEBGPU
from ortune.errors import MeasurementError
from ortune.graph.model.open import OpenModel
from ortune.graph.rows import mixed_rows
from ortune.graph.shapes.symbols import feedable
from ortune.measuring import feed_kinds, row_check
from ortune.measuring.executor import Arm
from ortune.measuring.measuring import Measuring
from ortune.measuring.sides import ResolvedSide
from ortune.records import CaseTimes, Finding, Measured, Plan, RowCheck, messages
from ortune.rules import rule_of
from ortune.rules.graph import rows_combined
from ortune.rules.measurement import (
    data_dependent_latency,
    emulated_device,
    non_finite_outputs,
    rows_depend_on_neighbours,
)
from ortune.rules.quantization import range_over_the_batch
from ortune.rules.web import wrong_outputs_in_browser


def require_real_times(measuring: Measuring) -> None:
    """Check that the times of the base are not those of an emulated device.

    Raises:
        MeasurementError: The GPU or NPU is emulated in software.
    """
    if measuring.functional_only:
        raise emulation_error(measuring.side.label, targets.target_of(measuring.side.plan).provider)


def emulation_error(label: str, provider: Provider) -> MeasurementError:
    """Return the error for a provider with a GPU or NPU that is emulated in software."""
    in_page, device = provider.in_page, "an NPU" if provider.hardware == "npu" else "a GPU"
    what = "the browser emulates its GPU in software" if in_page else "the CPU emulates the device"
    do = f"use {'--headful on ' if in_page else ''}a machine with {device}; "
    return MeasurementError(
        f"{what}, so nothing is measured",
        where=label,
        do=f"{do}ortune compare --b-target {WEBGPU.target if in_page else provider.target} compares outputs here",
        code="functional-only",
    )


def compare_with_cpu(measuring: Measuring, base: Arm, first: Measured) -> None:
    """Compare the outputs of a browser with the outputs on the CPU outside of the browser, and add findings.

    Args:
        measuring: The measurement, whose findings and alerts are extended.
        base: The arm that runs in the browser.
        first: A trial of the arm; if it kept its outputs, no further trial is needed.
    """
    emulated = targets.target_of(base.plan).emulated(first)
    facts = replace(measuring.facts(), emulated=emulated)
    measuring.findings += rule_of(emulated_device).findings(facts)
    if first.done.page is None:
        return
    run_natively(measuring)
    native, difference = measuring.pilot.native, None
    ours = first if Path(first.outputs_path or "-").is_dir() else measuring.executor.untimed(base)
    if isinstance(ours, Measured):
        _alert_non_finite(measuring, Path(ours.outputs_path))
    if isinstance(native, Measured) and isinstance(ours, Measured) and not measuring.comparer.moments:
        difference = measuring.comparer.difference(
            Path(native.outputs_path), Path(ours.outputs_path), measuring.refs, None
        )
    facts = replace(measuring.facts(), page=first.done.page, native=difference)
    for rule in (emulated_device, wrong_outputs_in_browser):
        measuring.findings += rule_of(rule).findings(facts)


def _alert_non_finite(measuring: Measuring, outputs: Path) -> None:
    """Add an alert if a page's outputs are not finite, which needs no other outputs for comparison."""
    check = measuring.check
    check.nonfinite = measuring.comparer.not_finite(outputs, measuring.refs)
    facts = replace(measuring.facts(), nonfinite=check.nonfinite)
    measuring.alert(rule_of(non_finite_outputs).findings(facts))


def run_natively(measuring: Measuring) -> None:
    """Run the base on the CPU outside of the browser before any page; its outputs limit the size of a page's reply."""
    pilot = measuring.pilot
    if pilot.native is None and measuring.side.plan.is_web:
        pilot.native = measuring.executor.untimed(measuring.arm("native", plan=Plan()))
        if isinstance(pilot.native, Measured):
            measuring.executor.reference = Path(pilot.native.outputs_path)


def time_input_kinds(measuring: Measuring, base: Arm, most_ns: float = math.inf) -> None:
    """Time the base on several kinds of generated inputs, and add findings about the differences.

    If a kind differs, all kinds are timed once more in a separate process and in reverse order, since a disturbance of
    some seconds can slow one kind of inputs, but hardly the same kind twice.

    Args:
        measuring: The measurement, whose findings are extended.
        base: The arm that runs.
        most_ns: Maximum time; if the check needs more, it is skipped with a note.
    """
    executor, work = measuring.executor, measuring.work
    pilot = measuring.pilot
    kinds_ns = feed_kinds.kinds_ns(executor.timing.runs, pilot.start_ns, pilot.run_ns)
    if kinds_ns > most_ns and not work.inputs_path:
        measuring.note(messages.Remark(code="values-not-tested"))
        return

    def timed(*, again: bool) -> tuple[CaseTimes, ...]:
        model = measuring.side.model.ir
        return feed_kinds.kinds_of_feed(executor, base, model, work, measuring.scratch, again=again)

    def seen(kinds: tuple[CaseTimes, ...]) -> tuple[Finding, ...]:
        return tuple(rule_of(data_dependent_latency).findings(replace(measuring.facts(), kinds=kinds)))

    kinds = timed(again=False)
    if seen(kinds):
        for finding in seen(feed_kinds.pooled(kinds, timed(again=True))):
            measuring.findings.append(finding)
            measuring.say(f"{finding.code} {finding.what}; {finding.fix}")


def alert_dependent_rows(measuring: Measuring, left_ns: float = math.inf) -> None:
    """Add an alert if the rows of a batch depend on each other.

    Args:
        measuring: The measurement, whose alerts are extended.
        left_ns: Time left; if it does not suffice for a run, the graph decides, or a note reports the skipped check.
    """
    side = measuring.side
    if side.plan.is_web or not row_check.has_batch(side.model.ir, measuring.work):
        return
    found = row_check.check_base(measuring, left_ns)
    findings = _of_rows(measuring, side, side.model, found)
    measuring.alert(findings)
    if not findings and row_check.needed_ns(measuring) > left_ns:
        measuring.note(messages.Remark(code="rows-not-tested"))


def alert_dependent_rows_of(
    measuring: Measuring, side: ResolvedSide, arm: Arm, name: str, left_ns: float
) -> None:
    """Add an alert if the rows of a batch depend on each other in a side's model, when it is not the base's.

    Only a model with a graph that mixes rows is run.

    Args:
        measuring: The measurement, whose processes run the side and whose alerts are extended.
        side: The other side.
        arm: The side with its inputs.
        name: The name of the side.
        left_ns: Time left; if it does not suffice for a run, the graph decides.
    """
    model = side.opened()
    mixed = mixed_rows(model.ir)
    another = model.info.sha256 != measuring.side.model.info.sha256
    if not (another and (mixed.ranges or mixed.over_batch)) or side.plan.is_web:
        return
    if not row_check.has_batch(model.ir, measuring.work):
        return
    same_inputs = {value.name for value in feedable(model.ir)} == {
        value.name for value in feedable(measuring.side.model.ir)
    }
    found = row_check.check_rows(measuring, arm, model.ir, lambda _: True, left_ns if same_inputs else 0.0)
    measuring.alert(_of_rows(measuring, side, model, found), name)


def _of_rows(
    measuring: Measuring, side: ResolvedSide, model: OpenModel, found: RowCheck | None
) -> list[Finding]:
    """Return the findings about dependent rows, which are from the graph if nothing was run."""
    facts = replace(measuring.facts(), model=model, plan=side.plan, row_check=found)
    if found is not None:
        return rule_of(rows_depend_on_neighbours).findings(facts)
    return [*rule_of(rows_combined).findings(facts), *rule_of(range_over_the_batch).findings(facts)]
