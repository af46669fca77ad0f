"""Pairs of values of two graphs, found by equal keys, equal names, equal elements and distances."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ortune.engines.bisection.keys import Keying, Keys
from ortune.engines.bisection.value_statistics import ValueStatistics, may_be_equal, relative_l2
from ortune.outputs.files import family
from ortune.records import MatchedBy

NEAR = 1e-2
"""Relative L2 below which two values are the same except for an error; that of unrelated values is about 1.4."""
NEAR_ENOUGH = 0.2
"""Limit in place of ``NEAR`` if no other candidate is close, for example after a conversion to a coarser type."""
RIVAL = 3.0
"""Ratio of distances below which a second candidate is too close for a unique match."""
NAMED_NEAR = 0.5
"""Limit in place of ``NEAR`` for values of one name, since exporters may give a numbered name to different values."""
SORTED_NEAR = 1e-4
FIGURES_NEAR = 1e-5
FEWEST = 16
"""Number of elements below which values, such as lengths, axes and flags, are too often equal by chance."""
MOST_COMPARED = 64
"""Maximum number of candidates that are compared with one value element by element."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A value of A and its counterpart in B.

    Attributes:
        sorted: Whether the layouts differ, so that sorted elements are compared.
    """

    a: str
    b: str
    by: MatchedBy
    sorted: bool = False


class Matching:
    """Matches values in successive steps, and stores the pairs found so far."""

    def __init__(
        self,
        seen_a: Mapping[str, ValueStatistics],
        seen_b: Mapping[str, ValueStatistics],
        makers_a: Mapping[str, str],
        makers_b: Mapping[str, str],
    ) -> None:
        self.seen_a, self.seen_b = seen_a, seen_b
        self.makers_a, self.makers_b = makers_a, makers_b
        self.pairs: dict[str, Pair] = {}
        self.taken: set[str] = set()
        self.differing: dict[str, str] = {}  # pairs that are computed differently
        self._by_size: dict[int, list[str]] = defaultdict(list)
        for name, value in seen_b.items():
            self._by_size[value.size].append(name)

    def take(self, mine: str, theirs: str, by: MatchedBy, *, any_order: bool = False) -> None:
        """Add a pair, unless either value is matched already."""
        if mine not in self.pairs and theirs not in self.taken:
            self.pairs[mine] = Pair(a=mine, b=theirs, by=by, sorted=any_order)
            self.taken.add(theirs)

    def fits(self, mine: str, theirs: str) -> bool:
        """Return whether two values can be compared element by element."""
        a, b = self.seen_a.get(mine), self.seen_b.get(theirs)
        if a is None or b is None:
            return False
        return a.shape == b.shape and family(a.onnx_type) == family(b.onnx_type)

    def comparable(self, mine: str, theirs: str) -> bool:
        """Return whether two values have the same rank and family of types; their sizes may differ."""
        a, b = self.seen_a.get(mine), self.seen_b.get(theirs)
        if a is None or b is None:
            return False
        return len(a.shape) == len(b.shape) and family(a.onnx_type) == family(b.onnx_type)

    def by_key(
        self, names: Iterable[str], sides: tuple[Keying, Keying], keys_before: tuple[Keys, Keys] | None = None
    ) -> tuple[Keys, Keys]:
        """Match values with equal keys, preferring equal names, and return the keys of both sides.

        Args:
            names: Names of A's values in the order of its nodes.
            sides: Computes the keys of A and of B.
            keys_before: Keys of the previous round. Pairs that they do not match are treated as equal from now on.

        Returns:
            The keys of both sides.
        """
        if keys_before is not None:
            mine, others = (keys.digests for keys in keys_before)
            # A pair that is computed differently on both sides gets one common key from now on, so later values can
            # have equal keys.
            unlike = (p for p in self.pairs.values() if p.a not in mine or mine[p.a] != others.get(p.b))
            self.differing |= {pair.a: pair.b for pair in unlike}
        keys_a = sides[0].keys({mine: mine for mine in self.differing})
        keys_b = sides[1].keys({theirs: mine for mine, theirs in self.differing.items()})
        theirs: dict[str, list[str]] = defaultdict(list)
        for name in self.seen_b:
            if name in keys_b.digests and name not in self.taken:
                theirs[keys_b.digests[name]].append(name)
        for name in names:
            digest = keys_a.digests.get(name)
            free = theirs.get(digest, []) if digest is not None and name not in self.pairs else []
            fitting = [other for other in free if self.fits(name, other)]
            if fitting:
                other = name if name in fitting else fitting[0]
                self.take(name, other, "name" if name == other else "structure")
                free.remove(other)
        return keys_a, keys_b

    def by_equal_name(self, name: str, near: float = NEAR) -> None:
        """Match the values of one name if they are close, since a numbered name may denote another value in B."""
        if self.fits(name, name) and relative_l2(self.seen_a[name], self.seen_b[name]) <= near:
            self.take(name, name, "name")

    def by_elements(self, name: str) -> None:
        """Match a value with a value of B that has the same elements, regardless of name and layout."""
        mine = self.seen_a[name]
        if name in self.pairs or mine.size < FEWEST or _flat(mine):
            return
        # Statistics first, and elements only if these do not exclude a match: few of thousands of values have one
        # size and similar statistics.
        near = [
            other
            for other in self._by_size[mine.size]
            if other not in self.taken and may_be_equal(mine, self.seen_b[other], NEAR)
        ]
        distances = {other: self._distance(name, other) for other in near[:MOST_COMPARED]}
        same = {other: distance for other, distance in distances.items() if distance is not None}
        if same:
            # Views and copies have the same elements: values of the same operator are preferred, in node order.
            def less_like(other: str) -> tuple[bool, float, bool, bool]:
                made_alike = self.makers_a[name] == self.makers_b[other]
                return not self.fits(name, other), same[other], other != name, not made_alike

            best = min(same, key=less_like)
            self.take(name, best, "values", any_order=not self.fits(name, best))

    def by_nearest(self, name: str, roots: Mapping[str, str]) -> bool:
        """Match a value with the nearest value of B if no other is similarly near; return whether it was matched.

        Args:
            name: Name of the value in A.
            roots: Maps each value of B that is a type conversion to its source; both count as one candidate.
        """
        mine = self.seen_a[name]
        if name in self.pairs or mine.size < FEWEST or _flat(mine):
            return False
        distances = {
            other: relative_l2(mine, self.seen_b[other])
            for other in self._by_size[mine.size]
            if other not in self.taken
            and self.fits(name, other)
            and may_be_equal(mine, self.seen_b[other], NEAR_ENOUGH)
        }
        if not distances or len(distances) > MOST_COMPARED:
            return False
        best = min(distances, key=lambda other: distances[other])
        # Several type conversions of one value count as one rival.
        limit = min(NEAR_ENOUGH, RIVAL * distances[best])
        rivals = {roots.get(other, other) for other, distance in distances.items() if distance <= limit}
        if distances[best] > NEAR_ENOUGH or rivals != {roots.get(best, best)}:
            return False
        self.take(name, best, "values")
        return True

    def _distance(self, name: str, other: str) -> float | None:
        """Return the distance of two values; None if they are different values."""
        mine, theirs = self.seen_a[name], self.seen_b[other]
        if self.fits(name, other):
            distance = relative_l2(mine, theirs)
            return distance if distance <= NEAR else None
        if mine.whole:
            distance = relative_l2(mine, theirs, any_order=True)
            return distance if distance <= SORTED_NEAR else None
        return FIGURES_NEAR if may_be_equal(mine, theirs, FIGURES_NEAR) else None


def _flat(value: ValueStatistics) -> bool:
    """Return whether all elements are equal, in which case matching by elements is ambiguous."""
    least, largest = value.figures[3:5]
    return least == largest
