"""Text and document of a command on several models: counts of results, a row per model, and the next commands."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from ortune.durations import in_words
from ortune.printable import amount, visible
from ortune.records import BestHost, Envelope, Host, ManyResult, ModelRow, RowFigure, RowUnit
from ortune.show.answer_commands import lines, report_line
from ortune.show.document import Cell, Code, Column, Document, Head, Line, Pairs, Table, Tone, stopped, table
from ortune.show.headline import PROVEN
from ortune.show.numbers import change, duration, memory, percent, shorten_end, significant, span
from ortune.show.stored_kind import StoredKind
from ortune.verbs._many.best import COST, RATE

NOT_REACHED = "not run: the command was stopped before its turn"
NO_TIME = "not run: the budget for all models was spent"
FAILED = "failed"
_NOTHING = "-"
_MISSING = {"interrupted": "not run", "budget": "no time"}
SHOWN = 3
"""Maximum number of running models in the progress line."""
LONGEST = 120
"""Maximum number of characters of a remark in the table; JSON documents have the whole remark."""


def models(n_models: int, n_hosts: int, *, kinds: bool) -> str:
    """Return the number of models, and of hosts or kinds of host, as text."""
    if not n_hosts:
        return amount(n_models, "model")
    hosts = f"{amount(n_hosts, 'kind')} of host" if kinds else amount(n_hosts, "host")
    return f"{amount(n_models, 'model')} on {hosts}"


def plan(what: str, n_missing: int, n_all: int, total_s: float | None, each_s: float | None) -> str:
    """Return a sentence on the models to run and their maximum time."""
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
    """Return a line on the model that starts, and its host."""
    return f"{'run' if host else 'model'} {number} of {n_models}: {visible(model)}{f' on {host}' if host else ''}"


def incomplete(model: str, what: str) -> str:
    """Return a sentence on a missing part of a model's result."""
    return f"{visible(model)}: {what}"


def no_page(trouble: str) -> str:
    """Return why the page of a model is missing."""
    return f"its page is missing: {trouble}"


def label(number: int, n_models: int, model: str, host: str = "") -> str:
    """Return the label of a model in the progress line."""
    return f"{number}/{n_models} {Path(model).name}{f' on {host}' if host else ''}"


def machine(host: Host) -> str:
    """Return the processor and the number of CPUs of a machine as text."""
    return f"{visible(host.cpu)}, {amount(host.effective_cpus, 'CPU')}"


def builds(names: Sequence[str]) -> str:
    """Return the ONNX Runtime builds of both sides as text; one name if they are equal, "" if there are none."""
    return " against ".join(dict.fromkeys(names))


def fleet(done: int, total: int, running: Sequence[tuple[str, str]]) -> str:
    """Return the progress line: the number of finished runs, and the running models with their hosts."""
    shown = [f"{what} ({where})" for what, where in running[:SHOWN]]
    more = [f"{len(running) - SHOWN} more"] if len(running) > SHOWN else []
    return f"{done} of {amount(total, 'run')} done; running: {', '.join([*shown, *more]) or 'nothing'}"


def joined(version: str, n_hosts: int, kinds: Sequence[str], dashboard: str) -> str:
    """Return a sentence on the joined cluster, its dashboard and its usage statistics."""
    of = f" of {amount(len(kinds), 'kind')}: {', '.join(kinds)}" if len(kinds) > 1 else ""
    shown = f"its dashboard is at {visible(dashboard)}" if dashboard else "it has no dashboard"
    return (
        f"joined a Ray {version} cluster with {amount(n_hosts, 'host')}{of}; {shown}; "
        "whether Ray sends usage statistics is set where the cluster was started"
    )


MAY_BE_IN_USE = "if another command uses the host, wait until it ends"


RESUME_WITH_A_HOST = "continue with --resume once there is a host"
LEFT_CLUSTER = "its node left the cluster"


def unusable(host: str, why: str) -> str:
    """Return a sentence that says that a host is not used."""
    return f"host {host} is not used: {visible(why)}"


def of_no_kind(host: str, machine_: str) -> str:
    """Return a sentence that says that a host is not used because it joined later and is of no known kind."""
    return f"host {host} is not used: it joined later and is another machine ({machine_})"


def niced(host: str, niceness: int) -> str:
    """Return a sentence that says that processes on a host run with low priority."""
    return (
        f"host {host} runs processes with niceness {niceness}, so other programs slow them down; "
        "start Ray there with RAY_worker_niceness=0"
    )


def host_lost(host: str, why: str) -> str:
    """Return a sentence that says that a host was lost and its model continues elsewhere."""
    return f"host {host} was lost ({visible(why)}); its model continues on another host of its kind"


def no_host_left(kind: str) -> str:
    """Return a sentence that says that a kind has no host left."""
    return f"no host of kind {kind} is left"


def lost_with(n_hosts: int) -> str:
    """Return a sentence that says that several hosts were lost while a model ran."""
    return f"{amount(n_hosts, 'host')} were lost while this model ran"


def set_aside(host: str, reason: str) -> str:
    """Return a sentence that says that a host was set aside, with the reason."""
    return f"host {host} was set aside: {_ASIDE[reason]}"


_ASIDE = {
    "slow": "a fixed computation takes more than twice as long as on other hosts of its kind",
    "invalid": "its measurement was invalid, and that of another host of its kind was not",
}


def headline(result: ManyResult) -> str:
    """Return the headline: the number of models by result, the most important results first."""
    alarms = sum(row.alarm for row in result.models)
    said = [f"{alarms} with wrong or different outputs"] if alarms else []
    counts = Counter(_verdict(row) for row in result.models)
    for name in sorted(counts, key=lambda name: (name not in PROVEN, -counts[name], name)):
        said.append(f"{counts[name]} {name}")
    return f"{_counted_models(result)}: {', '.join(said)}"


def _n_models(result: ManyResult) -> int:
    """Return the number of models, which differs from the number of rows if models ran on several hosts."""
    hosts = any(row.host for row in result.models)
    return len({row.path for row in result.models}) if hosts else len(result.models)


def _counted_models(result: ManyResult) -> str:
    """Return the number of models, and of their hosts or kinds of host, as text."""
    hosts = len({row.host for row in result.models if row.host})
    return models(_n_models(result), hosts, kinds=bool(result.on))


def document(envelope: Envelope[ManyResult]) -> Document:
    """Return the document of all models: counts, a row for each model, errors, and the next commands."""
    result = envelope.result
    bad = any(row.alarm or row.verdict in ("slower", "changed") for row in result.models)
    good = any(row.verdict == "faster" for row in result.models)
    tone: Tone = "bad" if bad else "good" if good else "strong"
    titles = [name for name in (_configured(row) for row in result.models) if name]
    files = [f"{kind}: {file}" for kind, file in result.exports.items()]
    bundles = [(Path(row.path).name, row.bundle) for row in result.models if row.bundle]
    return Document(
        title=f"ortune {result.verb}: {_counted_models(result)}",
        head=Head(
            large=str(_n_models(result)),
            unit=f"{_counted_models(result).partition(' ')[2]}: ortune {result.verb}",
            tone=tone,
        ),
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
    """Return a row (host, machine and ONNX Runtime build) for each host with a result."""
    described = {row.host: f"{row.machine}; {visible(row.runtime)}" for row in result.models if row.machine}
    return list(described.items())


def _best(best: BestHost) -> str:
    """Return a phrase on a model's best machine and its gain, or on two machines that cannot be told apart."""
    cost = best.figure == COST
    if not best.is_clear:
        return f"{best.host} and {best.other} cannot be told apart{' by cost' if cost else ''}"
    assert best.ratio_low is not None and best.ratio_high is not None
    gain, least, most = (percent(1 - ratio, 0) for ratio in (best.ratio, best.ratio_high, best.ratio_low))
    better = "cheaper" if cost else "faster"
    return f"{best.host} is {better} than {best.other} by {gain} ({least} to {most})"


def _table(result: ManyResult, folder: Path) -> Table:
    """Return the table of models; models with wrong or different outputs come first.

    ``folder`` is the folder of the page, to which links are relative.
    """
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
        columns,
        (_cells(row, names, folder, needs=needs, remarks=remarks) for row in rows),
        dense=True,
        linked=len(rows) > 1,
    )


def _needs_below(result: ManyResult) -> list[tuple[str, str]]:
    """Return a row with the needs of each model; empty if the table has a column for the needs."""
    rows = [(_name(row), "; ".join(row.needs)) for row in result.models if row.needs]
    return rows if _differ_in_figures(result) else []


def _differ_in_figures(result: ManyResult) -> bool:
    """Return whether the models have different metrics, so that their columns leave no room for texts."""
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
    """Return the result of a row in one to three words."""
    if row.status == "missing":
        return _MISSING.get(row.error.code if row.error else "", "not run")
    if row.status == "error":
        return FAILED
    if row.status == "interrupted":
        return f"{row.answer} (stopped early)" if row.answer else "stopped"
    return row.answer or FAILED


def _tone(row: ModelRow) -> Tone:
    """Return the tone of a row's result; "" unless the result is confirmed, bad or an error."""
    if row.status == "error":
        return "stop"
    if row.alarm or row.verdict in ("slower", "changed", "wrong-output", "invalid"):
        return "bad"
    return "good" if row.verdict in PROVEN else ""


def _figure(figure: RowFigure) -> tuple[str, str]:
    """Return the value and the interval of a row's metric as text; the interval is "" if there is none."""
    value, low, high = figure.value, figure.low, figure.high
    if figure.unit == "ratio":
        return change(value), "" if low is None else span(low, high)
    text = _UNITS[figure.unit]
    interval = f"{text(low)}-{text(high)}" if low is not None and high is not None else ""
    return text(value), interval


def _per_second(value: float) -> str:
    return f"{significant(value) if value < 1000 else f'{value:,.0f}'}/s"


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
    """Return a row's error as text, with its remedy."""
    error = row.error
    assert error is not None
    # The row is named for the model, so its path is not repeated.
    where = error.where.removeprefix(row.path).lstrip(",: ")
    where = f"{where}: " if where else ""
    return f"{where}{error.what} -> {error.do}" if error.do else f"{where}{error.what}"


def _configured(row: ModelRow) -> str:
    """Return a sentence on the options that a project's file set for a model; "" if it set none."""
    if row.configured is None:
        return ""
    return f"set by {row.configured.file} for {row.path}: {', '.join(row.configured.options)}"


def _page_folder(result: ManyResult) -> str:
    """Return the folder of the page of all models, to which the page's links are relative; "." without pages."""
    page = next((row.page for row in result.models if row.page), "")
    return str(Path(page).parent.parent) if page else "."


def _next(envelope: Envelope[ManyResult]) -> list[str]:
    """Return the commands that resume the missing models and show the stored results."""
    result = envelope.result
    return [*([result.resume] if result.resume else []), *lines(report_line(result.session, envelope.store))]


STORED = StoredKind(
    result=ManyResult, document=document, headline=headline, build=lambda result: f"ortune {result.verb}"
)
