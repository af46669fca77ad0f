"""The record of a setting, into which a row of the catalogue is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypedDict

import msgspec

from ortune.catalogue import providers
from ortune.catalogue.facts import Fact, ModelFacts
from ortune.objectives import Objective
from ortune.records import Applied, Channel, Record, Value

Priors = Mapping[Objective, float | Mapping[str, float]]
"""Probability that a change helps, by objective: one number, or one for each value as text. The priors of "latency"
also apply to "p95", "throughput" and "cpu" if these have none. A value with a prior of 0 is never tried."""

OFTEN = 0.2
SELDOM = 0.08
"""Priors of changes that help on many models (OFTEN), and of changes that help on few healthy models (SELDOM)."""

WEB: tuple[Channel, ...] = ("web_env", "web_session", "web_page")
"""Channels to a page: onnxruntime-web's ``env``, its session options, and the page itself."""

_NOT_RUNS = ("cold-start", "main-thread", "event-loop", "memory")
_WITH_BOOLEANS = ("session_option", *WEB)


class Applies(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Conditions on a model under which a setting can have an effect; all that are given must hold.

    Attributes:
        operators: The model has a node of one of these types; () for any model.
        fact: Name of a property of ``ModelFacts`` that must be true; "" for none.
        unless: Name of a property of ``ModelFacts`` that must be false; "" for none.
    """

    operators: tuple[str, ...] = ()
    fact: Fact | Literal[""] = ""
    unless: Fact | Literal[""] = ""

    def holds(self, model: ModelFacts) -> bool:
        """Return whether a model meets the conditions."""
        if self.operators and not model.has(*self.operators):
            return False
        if self.fact and not getattr(model, self.fact):
            return False
        return not (self.unless and getattr(model, self.unless))


class Together(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A setting that is valid only with a second setting, which lists it in ``Knob.together``.

    Both are tried together. This setting is omitted if a program lacks the second one.

    Attributes:
        setting: ``knob=value``.
        origin: Description of the two for users.
        priors: Probability, by objective, that the two help together; objectives without a prior do not try them.
    """

    setting: str
    origin: str
    priors: Priors


Worth = Callable[[ModelFacts, str], Mapping[str, float]]
"""Function that maps a model's facts and a version of ONNX Runtime to the values worth trying, each with its prior."""


class Computed(TypedDict, total=False):
    """Fields of a setting that code computes."""

    only: Mapping[str, tuple[str, ...]]
    worth: Worth


class Knob(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One setting. The code that applies a channel or runs a probe is in the worker, once for all settings.

    Attributes:
        name: Name on the command line and in plans.
        documentation: Text for ``explain`` and the documentation pages: a title, then a text under each of the fixed
            headings.
        aliases: Short names accepted by ``--set``.
        since: First ONNX Runtime version that has the setting; "0" for any.
        channel: The way in which the value reaches the session, from a closed list.
        key: Name within the channel: attribute, config key, variable or library stem.
        provider: ONNX Runtime's name of the execution provider that the setting belongs to; "" for the whole session.
        only: Execution providers that can run with a value, by value; a missing value can run on all of them.
        builds: Builds of onnxruntime-web that read the setting; () for all.
        parts: Form of a text in its channel: "" for one text, "list" (``A;B``) or "numbers" by name (``A=1;B=2``).
        kind: Type of the value.
        choices: Allowed values as text; empty for any value of the kind.
        beyond: Whether the provider accepts further values, which a plan may set as provider options.
        minimum, maximum: Smallest and largest allowed value of an int; ONNX Runtime's own integers have 32 bits. Thread
            counts are at most 4096, more than any machine has CPUs, since a pool of a million threads would exhaust the
            machine.
        pattern: Regular expression that the whole text must match; required for every text.
        spelled: Values in the spelling of the channel, if it differs.
        default: ONNX Runtime's default in words. An absent setting is recorded as ``default``, never as a guess.
        probe: Name of the worker's check that the setting was applied; "" if it cannot be checked.
        conflicts: Names of settings that must not be set together with this one; one of the two rows names the other.
        safety: Safety class of setting it.
        strict: The value with which the provider computes in the model's own types, if its default may use fewer bits
            on some devices; "" for none. This value is exact, independent of ``safety``.
        instructions: Instruction sets by value, of which the processor needs one for the value to have an effect.
        summary: One-line description.
        system: The only operating system that has the setting, as in ``sys.platform``; "" for any.
        threads: The thread pool whose size the setting is. The size is limited to the number of CPUs, also when a
            bundle is loaded.
        cpu_numbers: Whether the value names CPUs by number, which has no meaning on another machine.
        under_load: Whether the setting changes threads, spinning or affinity. Its gain then depends on the CPUs that
            other programs leave, so a gain under load is not a gain on an idle machine.
        joined_by: Separator if values are concatenated when two plans are merged; "" if one value replaces the other.
        tries: Values that ``tune`` proposes, as text; "{cpus}", "{cpus/2}" and "{cpus-1}" are replaced by numbers of
            the machine and dropped if they make no sense there.
        prior: Probability that one of ``tries`` helps, if ``priors`` has no entry: OFTEN, SELDOM (tried only if time is
            left), or 0 for a setting that is never tried by itself.
        applies: Conditions on a model under which the setting can have an effect.
        worth: Code of ``computed/`` for values and priors that depend on the model and the version of ONNX Runtime;
            replaces ``tries``, ``prior`` and ``applies``.
        priors: Priors by objective, which replace ``prior`` and the priors of ``worth``.
        needs: Other settings without which this setting has no effect, as ``knob=value``.
        together: Settings that are valid only with this one.
        triton: Name among the parameters of Triton's ONNX Runtime backend; "" if it has none.
        triton_values: Triton's spelling of ONNX Runtime's values, if it differs: "" needs no line, and a missing value
            cannot be set. Empty if the spelling is the same.
        packaged: Whether a model package can contain it, as the entry ``session.KEY``.
    """

    name: str
    documentation: str
    aliases: tuple[str, ...] = ()
    since: str = "0"
    channel: Channel
    key: str
    provider: str = ""
    only: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    builds: tuple[str, ...] = ()
    parts: Literal["", "list", "numbers"] = ""
    kind: Literal["int", "bool", "choice", "text"]
    choices: tuple[str, ...] = ()
    beyond: bool = False
    minimum: int | None = None
    maximum: int = 2**31 - 1
    pattern: str = ""
    spelled: Mapping[str, str] = msgspec.field(default_factory=dict)
    default: str
    probe: str = ""
    conflicts: tuple[str, ...] = ()
    safety: Literal["exact", "numerics", "behaviour", "advice"] = "exact"
    strict: str = ""
    instructions: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    summary: str
    system: str = ""
    threads: Literal["", "intra", "inter"] = ""
    cpu_numbers: bool = False
    under_load: bool = False
    joined_by: str = ""
    tries: tuple[str, ...] = ()
    prior: float = 0.0
    applies: Applies = Applies()
    worth: Worth | None = None
    priors: Priors = msgspec.field(default_factory=dict)
    needs: tuple[str, ...] = ()
    together: tuple[Together, ...] = ()
    triton: str = ""
    triton_values: Mapping[str, str] = msgspec.field(default_factory=dict)
    packaged: bool = False

    @property
    def title(self) -> str:
        """The first line of the documentation, without its full stop."""
        return self.documentation.partition("\n")[0].rstrip(".")

    @property
    def is_for_any_provider(self) -> bool:
        """Whether the setting acts under any provider: on the process, on the page, or on the calls of the session."""
        return self.channel in ("preload", "call_style") or (self.channel in WEB and not self.provider)

    @property
    def device(self) -> str:
        """The only device that reads the setting, if its key names one; otherwise ""."""
        way = self.key.split("/")
        return way[1] if way[0] == "load_config" else ""

    @property
    def is_cache(self) -> bool:
        """Whether the value is a folder in which an execution provider stores compiled code."""
        return self.probe == "folder"

    @property
    def is_only_in_browsers(self) -> bool:
        """Whether only onnxruntime-web has the setting."""
        return self.channel in WEB or providers.find(self.provider).in_page

    def safety_of(self, value: Value) -> Literal["exact", "numerics", "behaviour", "advice"]:
        """Return the safety class of one value."""
        return "exact" if self.is_strict(value) else self.safety

    def is_strict(self, value: Value) -> bool:
        """Return whether a value makes the provider compute in the model's own types."""
        return bool(self.strict) and str(value) == self.strict

    def runs_on(self, text: str, provider: str) -> bool:
        """Return whether an execution provider can run with a value."""
        return provider in self.only.get(text, (provider,))

    def values(self, facts: ModelFacts, ort_version: str) -> Mapping[str, float]:
        """Return the values to try on a model, each with its prior for the model; placeholders are not filled in."""
        if self.worth is not None:
            return self.worth(facts, ort_version)
        return dict.fromkeys(self.tries, self.prior) if self.applies.holds(facts) else {}

    def prior_for(self, objective: Objective, text: str, by_model: float) -> float:
        """Return the probability, 0 to 1, that a value helps an objective.

        Without an entry in ``priors``, the probability follows from ``by_model``, the value's prior from ``values``.
        """
        said = prior_of(self.priors, objective, text)
        if said is not None:
            return said
        # A change that makes runs faster seldom makes loading faster or memory smaller.
        return by_model / 2 if objective in _NOT_RUNS else by_model

    def applied(self, value: Value) -> Applied:
        """Return the value in the form of its channel."""
        if isinstance(value, bool) and self.channel not in _WITH_BOOLEANS:
            value = int(value)
        value = self.spelled.get(str(value), value)
        return Applied(
            knob=self.name,
            channel=self.channel,
            key=self.key,
            provider=self.provider,
            value=value,
            probe=self.probe,
        )

    def javascript(self, applied: Value) -> Value | list[str] | dict[str, int]:
        """Return an applied value for JavaScript: a list or a mapping of numbers in place of their text form."""
        if self.parts == "list":
            return str(applied).split(";")
        if self.parts == "numbers":
            return {name: int(number) for name, number in numbers(applied).items()}
        return applied


def numbers(applied: Value) -> dict[str, str]:
    """Split an applied value such as "A=1;B=2" into a mapping from name to number, which remains text."""
    pairs = (part.rpartition("=") for part in str(applied).split(";"))
    return {name: number for name, _, number in pairs}


def prior_of(priors: Priors, objective: Objective, text: str = "") -> float | None:
    """Return the prior of a value for an objective; None if there is none."""
    objectives: tuple[Objective, ...] = (objective,) if objective in _NOT_RUNS else (objective, "latency")
    for candidate in objectives:
        said = priors.get(candidate)
        prior = said.get(text) if isinstance(said, Mapping) else said
        if prior is not None:
            return prior
    return None
