"""The comparison of a candidate with a baseline."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record

VerdictName = Literal[
    "faster",
    "slower",
    "equivalent",
    "inconclusive",
    "nothing-tested",
    "wrong-output",
    "invalid",
    "functional-only",
]


class Guard(Record, frozen=True, kw_only=True):
    """A metric that must not get worse while another one improves."""

    figure: Literal["mean", "p95", "memory", "cpu"]
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    limit_ratio: float
    failed: bool = False
    known: bool = True
    note: str = ""


class FigureChange(Record, frozen=True, kw_only=True):
    """The change of another metric over the same pairs, with a 95 % interval: a description without a verdict."""

    figure: Literal["p50", "load", "idle", "released"]
    ratio: float
    ratio_low: float
    ratio_high: float


BUSY = "busy"
"""Name in ``--allow`` of changes that are only known to be faster while other programs use the CPUs."""


class QuietRounds(Record, frozen=True, kw_only=True):
    """The same statistic over the rounds in which no side waited for a CPU.

    A round is selected by the waiting of all its sides together, so the selection favours no side.

    Attributes:
        n_rounds: Number of these rounds; ``of_rounds`` is the number of all rounds.
        n_blocks: Number of blocks with at least one of these rounds.
        ratio_high: Upper bound of the ratio; None if there are too few blocks for one, as in ``Comparison``.
    """

    n_rounds: int
    of_rounds: int
    n_blocks: int = 0
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    verdict: VerdictName = "inconclusive"


class CpuTime(Record, frozen=True, kw_only=True):
    """The change in CPU time per run, in the statistic and at the level of the comparison that it confirms.

    Attributes:
        ratio_high: Upper bound of the ratio; None if there are too few blocks for one, as in ``Comparison``.
    """

    ratio: float
    ratio_low: float
    ratio_high: float | None


class OtherPrograms(Record, frozen=True, kw_only=True):
    """Other programs that used the CPUs while a comparison was measured.

    Attributes:
        used_cpus: Number of CPUs that they used, the median over trials.
        cpus: Number of CPUs that the process may use.
        waited_ratio: Upper bound of the fraction of the slower side's timed runs for which its threads waited for such
            a CPU; above 1 if several threads waited at once. If the comparison is inconclusive, the side that waited
            longer counts.
        explains: Whether this waiting may explain the difference: neither the difference without it, nor the CPU time
            per run, nor the rounds without waiting confirm the verdict.
        favours: Whether the two sides differ in threads, spinning or affinity. Other programs change the effect of
            these settings, so a difference that may be explained by waiting recommends no default.
        quiet: The rounds without waiting; None if they were not needed, or if the waiting of each round is unknown.
        cpu_time: The change in CPU time per run if it confirms the verdict and nothing before it does; otherwise None.
        hides: Whether the comparison is inconclusive on a busy machine, where more time is unlikely to settle it.
        words: Consequence for the verdict, in words; "" if there is none.
    """

    used_cpus: float
    cpus: int
    waited_ratio: float
    explains: bool
    favours: bool = False
    hides: bool = False
    quiet: QuietRounds | None = None
    cpu_time: CpuTime | None = None
    words: str = ""

    @property
    def only_under_load(self) -> bool:
        """Whether the difference is known only for a busy machine, on which such settings have a different effect."""
        return self.explains and self.favours


class Comparison(Record, frozen=True, kw_only=True):
    """The comparison of a candidate with a baseline over blocks.

    Attributes:
        statistic: The compared quantity, e.g. "p50 latency (median over rounds of the ratio of p50s within a round)".
        level: Confidence level of the interval.
        method: "confidence sequence", "sign-flip" or "wilcoxon".
        evidence: e-value; None if the method gives a p-value.
        p: p-value; None if the method gives an e-value.
        base_value, new_value: The two values to show: the baseline's value, and that value times ``ratio``, in
            nanoseconds (a throughput as time per run) or bytes. The quotient of the two sides' medians may differ from
            ``ratio``. None if a side has no such value.
        ratio_high: Upper bound of the ratio; None if there are too few blocks for one (``ratio_low`` is then 0).
        smallest_effect_ratio: Minimum detectable effect with 80 % power at that level, as a fraction (0.02 is 2 %);
            None if there are too few blocks to detect any.
        more_blocks: If inconclusive: roughly how many more blocks may settle it; None if unknown, as on a busy machine.
        more_s: The time for these blocks, in seconds.
        beside: Metrics without a guard: the p50 if another quantity was compared, and the load time if each process
            loaded alone.
        others: Other programs for which the sides waited for CPUs; None if they did not wait, if it is unknown, or if
            it does not affect the verdict.
    """

    statistic: str
    ratio: float
    ratio_low: float
    ratio_high: float | None
    level: float
    method: str
    n_blocks: int
    n_dropped: int = 0
    evidence: float | None = None
    p: float | None = None
    smallest_effect_ratio: float | None
    phase: Literal["race", "confirm"]
    verdict: VerdictName
    guards: tuple[Guard, ...] = ()
    more_blocks: int | None = None
    more_s: float | None = None
    beside: tuple[FigureChange, ...] = ()
    base_value: float | None = None
    new_value: float | None = None
    others: OtherPrograms | None = None


class Control(Record, frozen=True, kw_only=True):
    """The result of one control: the A/A check (``identical``) or the sensitivity check (``spike-in``)."""

    name: Literal["identical", "spike-in", "identical-late"]
    ok: bool
    n_blocks: int
    p: float | None = None
    expected_ratio: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    detected: bool | None = None


class CaseResult(Record, frozen=True, kw_only=True):
    """One input shape of a mix: its latency on both sides, and the ratio."""

    case: str
    weight: float
    base_ns: float
    new_ns: float
    ratio: float
    ratio_low: float
    ratio_high: float | None


class Gate(Record, frozen=True, kw_only=True):
    """The result of ``--threshold``. Outputs beyond the tolerance fail the gate regardless of times.

    Attributes:
        answer: "no-answer" if nothing could be decided, for the ``reason`` given; this is not a pass (exit code 3).
        reason: Also given if the answer is "undecided" because "other-programs" may explain the difference.
    """

    threshold_ratio: float
    answer: Literal["pass", "fail", "undecided", "no-answer"]
    undecided_counts_as: Literal["pass", "fail"]
    provable_ratio: float | None = None
    reason: Literal["", "too-few-blocks", "controls-not-run", "other-programs"] = ""

    @property
    def counted(self) -> Literal["pass", "fail", "no-answer"]:
        """The answer, with "undecided" replaced by what it counts as."""
        return self.undecided_counts_as if self.answer == "undecided" else self.answer
