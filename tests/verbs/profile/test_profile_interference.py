"""A profile beside other programs: the run without interference is its headline, and orders the nodes."""

from __future__ import annotations

import msgspec
import pytest

import golden
import golden_profile
from facts import facts
from ortune.records import Envelope
from ortune.show.html import pages
from ortune.show.numbers import duration
from ortune.verbs.profile import page as profile_page
from ortune.verbs.profile import words as profile_words


def disturbed(share: float) -> Envelope:
    """A profile of whose mean run so much is interference: all of it in the node that is otherwise the cheapest."""
    result = golden_profile.usual()
    first, *rest = sorted(result.nodes, key=lambda n: n.time_ns)
    fast = [msgspec.structs.replace(n, fast_ns=n.time_ns) for n in rest]
    slow = msgspec.structs.replace(first, time_ns=result.wall_ns, fast_ns=first.time_ns, name="late")
    late = msgspec.structs.replace(slow, originals=("late",))
    result = msgspec.structs.replace(
        result, nodes=(late, *fast), fast_ns=(1 - share) * result.wall_ns, device_ns={}
    )
    return golden_profile.profiled(
        msgspec.structs.replace(
            result, nodes=tuple(msgspec.structs.replace(n, device_ns=None) for n in result.nodes)
        )
    )


def test_the_headline_is_the_run_without_interference_and_names_its_largest_node() -> None:
    envelope = disturbed(0.9)
    result = envelope.result
    text = profile_words.run_sentence(result)
    facts(text, f"{duration(0.1 * result.wall_ns)} a run without interference", duration(result.wall_ns))
    assert "late" not in text
    assert profile_page.document(envelope).head.large == duration(0.1 * result.wall_ns)
    facts(pages.render(envelope), "without interference")


def test_nodes_are_ordered_by_their_undisturbed_times_and_have_their_means() -> None:
    envelope = disturbed(0.9)
    text = golden.printed(profile_words.document(envelope), 140, whole=True)
    facts(" ".join(text.split()), "nodes (", "without interference", "mean")
    listed = text[text.index("nodes (") :]
    assert "late" not in listed.split("operators")[0]
    facts(" ".join(text.split()), "where the time goes (mean run, 90 % interference)")


@pytest.mark.parametrize("share", [0.0, 0.05])
def test_next_to_no_interference_changes_nothing(share: float) -> None:
    envelope = disturbed(share)
    text = " ".join(golden.printed(profile_words.document(envelope), 140).split())
    facts(text, f"{duration(envelope.result.wall_ns)} a run, profiled", "late")
    assert "without interference" not in text


def test_a_profile_that_does_not_know_its_fast_end_tells_the_mean() -> None:
    envelope = disturbed(0.9)
    result = msgspec.structs.replace(envelope.result, fast_ns=None)
    facts(profile_words.run_sentence(result), f"{duration(result.wall_ns)} a run, profiled")
