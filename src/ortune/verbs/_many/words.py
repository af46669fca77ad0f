"""The answer about several models: how many have which answer, a row for each, and what to do next."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from ortune.durations import in_words
from ortune.printable import visible
from ortune.records import BestHost, Envelope, Host, ManyResult, ModelRow, RowFigure, RowUnit
from ortune.show.answer_commands import lines, told_line
from ortune.show.document import Cell, Code, Column, Document, Head, Line, Pairs, Table, Tone, stopped, table
from ortune.show.headline import PROVEN, count
from ortune.show.numbers import change, duration, memory, percent, shorten_end, span, three
from ortune.show.stored_kind import StoredKind
from ortune.verbs._many.best import COST, RATE

NOT_REACHED = "not run: the command was stopped before its turn"
NO_TIME = "not run: the budget for all models was spent"
FAILED = "failed"
_NOTHING = "-"
_MISSING = {"interrupted": "not run", "budget": "no time"}
SHOWN = 3
"""Running models that the progress line names."""
LONGEST = 120
"""Characters of a remark in a terminal; the page and the JSON have all."""


def models(n_models: int, n_hosts: int, *, kinds: bool) -> str:
    """Return how many models there are, and on how many hosts or kinds of hosts."""
    if not n_hosts:
        return count(n_models, "model")
    hosts = f"{count(n_hosts, 'kind')} of host" if kinds else count(n_hosts, "host")
    return f"{count(n_models, 'model')} on {hosts}"


def plan(what: str, n_missing: int, n_all: int, total_s: float | None, each_s: float | None) -> str:
    """Say how many models there are, and how long all take at most."""
    if n_missing < n_all:
        what = f"{what}, {n_missing} left"
    if total_s is not None:
        return f"{what} in {in_words(total_s)}"
    if not each_s:
        return what
    return (
        f"{what}, {in_words(each_s)} each: at most {in_words(each_s * n_missing)} (--budget TIME is for all)"
    )


def begun(number: int, n_models: int, model: str, host: str = "") -> str:
    """Say which model is run, and where."""
    return f"{'run' if host else 'model'} {number} of {n_models}: {visible(model)}{f' on {host}' if host else ''}"


def incomplete(model: str, what: str) -> str:
    """Say what is missing of a model's answer."""
    return f"{visible(model)}: {what}"


def label(number: int, n_models: int, model: str, host: str = "") -> str:
    """Name a model in the progress line."""
    return f"{number}/{n_models} {Path(model).name}{f' on {host}' if host else ''}"


def machine(host: Host) -> str:
    """Describe a machine for its row."""
    return f"{visible(host.cpu)}, {count(host.effective_cpus, 'CPU')}"


def fleet(done: int, total: int, running: Sequence[tuple[str, str]]) -> str:
    """Say how many models are done, and what runs where."""
    shown = [f"{what} ({where})" for what, where in running[:SHOWN]]
    more = [f"{len(running) - SHOWN} more"] if len(running) > SHOWN else []
    return f"{done} of {count(total, 'run')} done; running: {', '.join([*shown, *more]) or 'nothing'}"


def joined(version: str, n_hosts: int, kinds: Sequence[str], dashboard: str) -> str:
    """Say which cluster was joined, and what it does besides."""
    of = f" of {count(len(kinds), 'kind')}: {', '.join(kinds)}" if len(kinds) > 1 else ""
    shown = f"its dashboard is at {visible(dashboard)}" if dashboard else "it has no dashboard"
    return (
        f"joined a Ray {version} cluster with {count(n_hosts, 'host')}{of}; {shown}; "
        "whether Ray sends usage statistics is set where the cluster was started"
    )


MAY_BE_IN_USE = "if another command uses the host, wait until it ends"


def unusable(host: str, why: str) -> str:
    """Say that a host is not used."""
    return f"host {host} is not used: {visible(why)}"


def of_no_kind(host: str, machine_: str) -> str:
    """Say that a host is like none of those at the beginning."""
    return f"host {host} is not used: it joined later and is another machine ({machine_})"


def niced(host: str, niceness: int) -> str:
    """Say that processes on a host yield the CPU to others."""
    return (
        f"host {host} runs processes with niceness {niceness}, so other programs slow them down; "
        "start Ray there with RAY_worker_niceness=0"
    )


def host_lost(host: str, why: str) -> str:
    """Say that a host is gone, and what becomes of the model that ran there."""
    return f"host {host} was lost ({visible(why)}); its model continues on another host of its kind"


def no_host_left(kind: str) -> str:
    """Say that nothing can run a model any more."""
    return f"no host of kind {kind} is left"


def lost_with(n_hosts: int) -> str:
    """Say that a model may be why hosts are lost."""
    return f"{count(n_hosts, 'host')} were lost while this model ran"


def set_aside(host: str, reason: str) -> str:
    """Say that the results of a host are not used."""
    return f"host {host} was set aside: {_ASIDE[reason]}"


_ASIDE = {
    "slow": "a fixed computation takes more than twice as long as on other hosts of its kind",
    "invalid": "its measurement was invalid, and that of another host of its kind was not",
}


def headline(result: ManyResult) -> str:
    """How many models have which answer, the most important first."""
    n, hosts = len(result.models), len({row.host for row in result.models if row.host})
    alarms = sum(row.alarm for row in result.models)
    said = [f"{alarms} with wrong or different outputs"] if alarms else []
    counts = Counter(_verdict(row) for row in result.models)
    for name in sorted(counts, key=lambda name: (name not in PROVEN, -counts[name], name)):
        said.append(f"{counts[name]} {name}")
    n_models = len({row.path for row in result.models}) if hosts else n
    return f"{models(n_models, hosts, kinds=bool(result.on))}: {', '.join(said)}"


def document(envelope: Envelope[ManyResult]) -> Document:
    """The counts, a row for each model, and what failed."""
    result = envelope.result
    bad = any(row.alarm or row.verdict in ("slower", "changed") for row in result.models)
    good = any(row.verdict == "faster" for row in result.models)
    tone: Tone = "bad" if bad else "good" if good else "strong"
    titles = [name for name in (_configured(row) for row in result.models) if name]
    files = [f"{kind}: {file}" for kind, file in result.exports.items()]
    bundles = [(Path(row.path).name, row.bundle) for row in result.models if row.bundle]
    return Document(
        title=f"ortune {result.verb}: {count(len(result.models), 'model')}",
        head=Head(large=str(len(result.models)), unit=f"models: ortune {result.verb}", tone=tone),
        blocks=[
            *stopped(envelope),
            Line(headline(result), tone),
            *(Line(text) for text in dict.fromkeys(titles)),
            _table(result, Path(_page_folder(result))),
            Pairs(title="needs", rows=_needs_below(result)),
            Pairs(title="best machine", rows=[(Path(best.path).name, _best(best)) for best in result.best]),
            Pairs(
                title="no answer", rows=[(_name(row), _trouble(row)) for row in result.models if row.error]
            ),
            Pairs(title="hosts", rows=_machines(result)),
            Pairs(title="set aside", rows=[(name, _ASIDE[why]) for name, why in result.set_aside.items()]),
            Code(title="next", lines=_next(envelope), commands=True),
        ],
        support=[
            Pairs(
                title="answers", rows=[(_name(row), row.headline) for row in result.models if not row.error]
            ),
            Pairs(title="bundles", rows=bundles),
            Pairs(title="files", rows=[(file.partition(": ")[0], file.partition(": ")[2]) for file in files]),
        ],
    )


def _name(row: ModelRow) -> str:
    return f"{row.path} on {row.host}" if row.host else row.path


def _machines(result: ManyResult) -> list[tuple[str, str]]:
    """Return the processor and the ONNX Runtime of each host that answered."""
    described = {row.host: f"{row.machine}; {visible(row.runtime)}" for row in result.models if row.machine}
    return list(described.items())


def _best(best: BestHost) -> str:
    """Say which machine is best for a model, with the interval; or that the two best cannot be told apart."""
    cost = best.figure == COST
    if not best.told_apart:
        return f"{best.host} and {best.other} cannot be told apart{' by cost' if cost else ''}"
    assert best.ratio_low is not None and best.ratio_high is not None
    gain, least, most = (percent(1 - ratio, 0) for ratio in (best.ratio, best.ratio_high, best.ratio_low))
    better = "cheaper" if cost else "faster"
    return f"{best.host} is {better} than {best.other} by {gain} ({least} to {most})"


def _table(result: ManyResult, folder: Path) -> Table:
    """A row for each model; those with wrong or different outputs first."""
    rows = sorted(result.models, key=lambda row: not row.alarm)
    names = list(dict.fromkeys(figure.name for row in rows for figure in row.figures))
    needs = any(row.needs for row in rows) and not _differ_in_figures(result)
    remarks = any(row.remarks for row in rows)
    hosts = [Column("host", "label")] if any(row.host for row in rows) else []
    if COST in names:  # which is the price over the throughput: both are too wide for a terminal
        names = [name for name in names if name != RATE]
    heads = [f"{result.currency or 'cost'}/million" if name == COST else name for name in names]
    columns = [Column("model", "name"), *hosts, Column("answer", "text"), *map(Column, heads)]
    columns += [Column("needs", "text")] if needs else []
    columns += [Column("remarks", "text")] if remarks else []
    return table(
        columns, (_cells(row, names, folder, needs=needs, remarks=remarks) for row in rows), dense=True
    )


def _needs_below(result: ManyResult) -> list[tuple[str, str]]:
    """Return what each model needs, if the table has no room for it."""
    rows = [(_name(row), "; ".join(row.needs)) for row in result.models if row.needs]
    return rows if _differ_in_figures(result) else []


def _differ_in_figures(result: ManyResult) -> bool:
    """Return whether models were decided by different figures, whose columns leave no room for texts."""
    names = {figure.name for row in result.models for figure in row.figures}
    return len(names) > max(len(row.figures) for row in result.models)


def _cells(
    row: ModelRow, names: Sequence[str], folder: Path, *, needs: bool, remarks: bool
) -> list[Cell | str]:
    figures = {figure.name: figure for figure in row.figures}
    link = os.path.relpath(row.page, folder) if row.page else ""
    host: list[Cell | str] = [Cell(row.host)] if row.host else []
    cells: list[Cell | str] = [Cell(row.path, link=link), *host, Cell(_verdict(row), tone=_tone(row))]
    for name in names:
        figure = figures.get(name)
        if figure is None:
            cells.append(_NOTHING)
            continue
        value, interval = _figure(figure)
        cells.append(Cell(value, beneath=interval, order=figure.value))
    if needs:
        cells.append("; ".join(row.needs))
    if remarks:
        cells.append(shorten_end("; ".join(row.remarks), LONGEST))
    return cells


def _verdict(row: ModelRow) -> str:
    """The answer in a word or two."""
    if row.status == "missing":
        return _MISSING.get(row.error.code if row.error else "", "not run")
    if row.status == "error":
        return FAILED
    if row.status == "interrupted":
        return f"{row.answer} (stopped early)" if row.answer else "stopped"
    return row.answer or FAILED


def _tone(row: ModelRow) -> Tone:
    """Only confirmed answers and failures have a colour."""
    if row.status == "error":
        return "stop"
    if row.alarm or row.verdict in ("slower", "changed", "wrong-output", "invalid"):
        return "bad"
    return "good" if row.verdict in PROVEN else ""


def _figure(figure: RowFigure) -> tuple[str, str]:
    """A value and its interval in words; "" without one."""
    value, low, high = figure.value, figure.low, figure.high
    if figure.unit == "ratio":
        return change(value), "" if low is None else span(low, high)
    text = _UNITS[figure.unit]
    interval = f"{text(low)}-{text(high)}" if low is not None and high is not None else ""
    return text(value), interval


def _per_second(value: float) -> str:
    return f"{three(value) if value < 1000 else f'{value:,.0f}'}/s"


def _cost(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _counted(value: float) -> str:
    return f"{value:,.0f}"


_UNITS: dict[RowUnit, Callable[[float], str]] = {
    "ns": duration,
    "bytes": memory,
    "share": percent,
    "per-second": _per_second,
    "count": _counted,
    "ratio": change,
    "cost": _cost,
}


def _trouble(row: ModelRow) -> str:
    """Why there is no answer, or why something is missing."""
    error = row.error
    assert error is not None
    # The row is named for the model, so its path is not repeated.
    where = error.where.removeprefix(row.path).lstrip(",: ")
    where = f"{where}: " if where else ""
    return f"{where}{error.what} -> {error.do}" if error.do else f"{where}{error.what}"


def _configured(row: ModelRow) -> str:
    """The options that a file has set for a model."""
    if row.configured is None:
        return ""
    return f"set by {row.configured.file} for {row.path}: {', '.join(row.configured.options)}"


def _page_folder(result: ManyResult) -> str:
    """The folder of the page of all models, which the links on it are relative to."""
    page = next((row.page for row in result.models if row.page), "")
    return str(Path(page).parent.parent) if page else "."


def _next(envelope: Envelope[ManyResult]) -> list[str]:
    """How to go on with what is missing, and how to see the answer of one model again."""
    result = envelope.result
    return [*([result.resume] if result.resume else []), *lines(told_line(result.session, envelope.store))]


STORED = StoredKind(
    result=ManyResult, document=document, headline=headline, build=lambda result: f"ortune {result.verb}"
)
