"""Reproduction of the numbers: commands, versions, machine, time spent."""

from __future__ import annotations

from ortune.durations import in_words
from ortune.records import Envelope, Host
from ortune.show.answer_commands import model_of
from ortune.show.document import Block, Code, Pairs
from ortune.show.numbers import memory, size
from ortune.verbs.tune.details import spent
from ortune.verbs.tune.result import TuneResult
from ortune.verbs.tune.words import code_lines

ORDER = 110
TITLE = "Reproduce"
NOTE = "Results hold for one machine, build and model. Compare only results where these agree."


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Return the commands to repeat, versions, machine and time spent, in groups."""
    result = envelope.result
    groups = {
        "Model": _model(result),
        "Software": _software(envelope, result),
        "Machine": _machine(envelope.host) if envelope.host is not None else [],
        "Measurement": _measurement(result),
    }
    return [
        Code(title="", lines=code_lines(result.reproduce)),
        *(
            Pairs(title=name, rows=[(key, text) for key, text in rows if text])
            for name, rows in groups.items()
        ),
    ]


def _model(result: TuneResult) -> list[tuple[str, str]]:
    model = result.side.model
    weights = f" and {size(model.external_bytes)} of external data" if model.external_bytes else ""
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(model.opsets.items()))
    return [
        ("file", model_of(result.side)),
        ("sha256", model.sha256),
        ("size", size(model.size_bytes) + weights),
        ("nodes", f"{model.n_nodes:,}" if model.n_nodes else ""),
        ("parameters", f"{model.n_parameters:,}" if model.n_parameters else ""),
        ("opsets", opsets),
        ("producer", model.producer),
        ("rewritten", result.rewritten),
    ]


def _software(envelope: Envelope[TuneResult], result: TuneResult) -> list[tuple[str, str]]:
    runtime = result.side.runtime
    return [
        ("ortune", envelope.ortune),
        (
            "onnxruntime",
            " ".join(
                p for p in (runtime.ort_version, f"({runtime.package})" if runtime.package else "") if p
            ),
        ),
        *([("in pages", runtime.build)] if runtime.ort_web_dist else []),
        ("Python", runtime.python_version),
        ("interpreter", runtime.python),
        ("execution providers", ", ".join(runtime.providers)),
        *([("the winner's", result.runtime.build)] if result.runtime else []),
    ]


def _machine(host: Host) -> list[tuple[str, str]]:
    limit = f", limit {memory(host.memory_limit_bytes)}" if host.memory_limit_bytes else ""
    quota = f", cgroup quota {host.quota:g}" if host.quota else ""
    return [
        ("system", f"{host.system} {host.machine}"),
        ("CPU", host.cpu),
        (
            "CPUs",
            f"{host.cores} cores, {host.logical} hardware threads, affinity {host.affinity}{quota}: "
            f"{host.effective_cpus} effective",
        ),
        ("memory", memory(host.memory_bytes) + limit),
        ("instruction sets", ", ".join(host.features)),
        ("GPUs", ", ".join(host.gpus)),
        ("fingerprint", host.fingerprint),
    ]


def _measurement(result: TuneResult) -> list[tuple[str, str]]:
    budget = result.budget
    return [
        ("objective", result.objective),
        ("statistic", result.statistic),
        ("promised", budget.promise),
        ("spent", spent(result)),
        ("budget", f"{in_words(budget.budget_s)}, {budget.trial_s:.2f} s per trial"),
        ("session", result.session),
    ]
