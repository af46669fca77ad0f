"""A profile beside other programs: the run without interference is its headline, and orders the nodes."""

from __future__ import annotations

import re

import msgspec
import pytest

import golden
import golden_profile
from facts import facts
from ortune import rules
from ortune.records import Envelope
from ortune.show import profile_nodes
from ortune.show.html import pages
from ortune.show.numbers import duration
from ortune.trace.undisturbed import as_profile, undisturbed_run
from ortune.verbs.profile import note_words
from ortune.verbs.profile import page as profile_page
from ortune.verbs.profile import words as profile_words


def disturbed(share: float) -> Envelope:
    """A profile of whose mean run so much is interference: all of it in the node that is otherwise the cheapest."""
    result = golden_profile.usual()
    first, *rest = sorted(result.nodes, key=lambda n: n.time_ns)
    fast = [msgspec.structs.replace(n, fast_ns=n.time_ns) for n in rest]
    slow = msgspec.structs.replace(first, time_ns=result.wall_ns, fast_ns=first.time_ns, name="late")
    late = msgspec.structs.replace(slow, originals=("late",))
    nodes = tuple(msgspec.structs.replace(n, device_ns=None) for n in (late, *fast))
    scaled = [msgspec.structs.replace(c, ns=(1 - share) * c.ns) for c in result.categories]
    whole = sum(c.ns for c in scaled)
    return golden_profile.profiled(
        msgspec.structs.replace(
            result,
            nodes=nodes,
            fast_ns=whole,
            device_ns={},
            wall_ns=whole / (1 - share),
            undisturbed=undisturbed_run(whole / (1 - share), scaled, nodes),
        )
    )


def test_the_headline_is_the_run_without_interference_and_names_its_largest_node() -> None:
    envelope = disturbed(0.9)
    result = envelope.result
    text = profile_words.run_sentence(result)
    facts(
        text, f"{duration(result.undisturbed.wall_ns)} a run without interference", duration(result.wall_ns)
    )
    assert "late" not in text
    assert profile_page.document(envelope).head.large == duration(result.undisturbed.wall_ns)
    facts(pages.render(envelope), "without interference")


def test_shares_of_providers_are_of_the_run_without_interference() -> None:
    result = disturbed(0.9).result
    nodes = [
        msgspec.structs.replace(
            node,
            fast_ns=0.1 * node.least_ns,
            provider="OpenVINOExecutionProvider" if node.name == "late" else node.provider,
        )
        for node in result.nodes
    ]
    times = {node.provider: node.time_ns for node in nodes}
    run = undisturbed_run(result.wall_ns, result.undisturbed.categories, nodes)
    both = msgspec.structs.replace(result, nodes=tuple(nodes), undisturbed=run, providers=times)
    shown = dict(note_words.notes(both))["providers"]
    assert shown.startswith("CPU ")
    assert sum(float(share) for share in re.findall(r"([\d.]+) %", shown)) < 100


def test_waits_are_a_part_of_the_time_beside_them() -> None:
    result = disturbed(0.9).result
    node = msgspec.structs.replace(result.nodes[0], time_ns=9e6, wait_ns=8e6, fast_ns=1e6, fast_wait_ns=0.1e6)
    assert profile_nodes.wait(node, result) == "10 %"
    assert profile_nodes.wait(node, msgspec.structs.replace(result, undisturbed=None)) == "89 %"


def test_nodes_are_ordered_by_their_undisturbed_times_and_have_their_means() -> None:
    envelope = disturbed(0.9)
    text = golden.printed(profile_words.document(envelope), 140, whole=True)
    facts(" ".join(text.split()), "nodes (", "without interference", "mean")
    listed = text[text.index("nodes (") :]
    assert "late" not in listed.split("operators")[0]


def test_every_table_divides_up_the_run_of_the_headline() -> None:
    envelope = disturbed(0.9)
    alone_ns = envelope.result.undisturbed.wall_ns
    unit = profile_nodes.category_unit(envelope.result)
    *parts, whole = profile_nodes.category_rows(envelope.result)
    assert float(whole[2]) == pytest.approx(alone_ns / unit.scale, rel=0.01)
    assert sum(float(row[2]) for row in parts) == pytest.approx(float(whole[2]), rel=0.01)
    operators = profile_nodes.operators(envelope.result)
    assert "without interference" in operators.title
    text = " ".join(golden.printed(profile_words.document(envelope), 140, whole=True).split())
    facts(text, "where the time goes (without interference)")
    assert "mean run," not in text
    page = pages.render(envelope)
    assert "in the mean run" not in page


def test_rules_see_the_run_of_the_headline() -> None:
    result = disturbed(0.9).result
    run = as_profile(result)
    assert run.wall_ns == result.undisturbed.wall_ns
    assert {n.name: n.time_ns for n in run.nodes} == {n.name: n.least_ns for n in result.nodes}
    assert run.nodes[0].name != "late" and result.nodes[0].name == "late"
    assert sum(n.share_ratio for n in run.nodes) == pytest.approx(1.0)
    codes = {True: set[str](), False: set[str]()}
    for alone, profile in ((True, run), (False, result)):
        found = rules.findings(rules.Facts(profile=profile), without=("ENV",))
        codes[alone] = {f.code for f in found if any("late" in place for place in f.where)}
    assert codes[False] and not codes[True]


def test_a_run_without_much_interference_is_the_mean_run_for_rules() -> None:
    result = disturbed(0.05).result
    assert result.undisturbed is None and as_profile(result) is result


@pytest.mark.parametrize("share", [0.0, 0.05])
def test_next_to_no_interference_changes_nothing(share: float) -> None:
    envelope = disturbed(share)
    text = " ".join(golden.printed(profile_words.document(envelope), 140).split())
    facts(text, f"{duration(envelope.result.wall_ns)} a run, profiled", "late")
    assert "without interference" not in text


def test_a_profile_that_does_not_know_its_fast_end_tells_the_mean() -> None:
    envelope = disturbed(0.9)
    result = msgspec.structs.replace(envelope.result, fast_ns=None, undisturbed=None)
    facts(profile_words.run_sentence(result), f"{duration(result.wall_ns)} a run, profiled")
