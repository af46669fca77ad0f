"""One command on several models: runs the command for each model, and collects the results in one document."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from ortune import __version__, files, monotonic, verbs
from ortune.assigned_host import HostLost
from ortune.errors import Interrupted, MeasurementError, OrtuneError, StoreError
from ortune.measuring.document import document
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, ManyResult, ModelRow, schema_of
from ortune.show.verb_modules import MANY, module_of
from ortune.step import Step
from ortune.targets.machine import Machine
from ortune.verbs._many import words as many_words
from ortune.verbs._many.batch import Item, ModelBatch
from ortune.verbs._many.best import best_hosts, with_cost
from ortune.verbs._many.executor import Done, Job, JobExecutor, here
from ortune.verbs._many.fleet import Fleet
from ortune.verbs._many.journal import Begun, Journal, state
from ortune.verbs._shared import exports
from ortune.verbs._shared.attempt import error_info, result_or_error
from ortune.verbs._shared.page import write_page
from ortune.verbs._shared.spelling import path
from ortune.verbs._shared.watching import with_words

LEAST_S = 0.001
"""Minimum budget of a model in seconds; commands report that this budget is too small."""


def run(
    batch: ModelBatch, watcher: Watcher | None = None, execute: JobExecutor = here
) -> Envelope[ManyResult]:
    """Run a command on each model and return the document of all.

    The row of a model that fails contains the error. If the user stops the command, finished results are kept.

    Raises:
        UsageError: The options cannot be used for any model, or a file cannot be written.
        StoreError: The store that the user named cannot be written.
    """
    watch = with_words(watcher)
    if batch.on_cluster:
        from ortune.verbs._many.on_ray import fleet  # imports Ray

        batch.template()  # wrong options are named before the cluster is joined
        with fleet(batch, watch) as (placed, there):
            return _answered(placed, watch, there)
    return _answered(batch, watch, execute)


def _answered(batch: ModelBatch, watch: Watcher, execute: JobExecutor) -> Envelope[ManyResult]:
    """Run a command on known hosts, with its journal and exports."""
    template = batch.template()
    page = path(batch.values.get("report"))
    if page is not None:
        files.require_writable(page, "--report")
    wanted = exports.parse(batch.values.get("export", ()))
    result = get_args(get_type_hints(module_of(batch.verb, "run").run)["return"])[0]
    with exports.Exports(wanted, verbs.table_of(batch.options), result) as exported:
        journal = Journal(batch, template, watch)
        try:
            return _Run(batch, template, watch, journal, exported, page).answer(execute)
        finally:
            journal.close()


def exit_code(envelope: Envelope[ManyResult]) -> int:
    """Return the largest exit code of all models.

    Models that were not reached have the exit code 130 (stopped) or 3 (budget spent).
    """
    codes = [row.exit_code for row in envelope.result.models]
    return max(codes, default=0)


class _Run:
    """A running command on several models."""

    def __init__(
        self,
        batch: ModelBatch,
        template: Any,
        watch: Watcher,
        journal: Journal,
        exported: exports.Exports,
        page: Path | None,
    ) -> None:
        self.batch, self.template, self.watch, self.journal = batch, template, watch, journal
        self.exported, self.page = exported, page
        self.rows: dict[Item, ModelRow] = {}
        self.stopped = False
        self._pages: set[str] = set()
        self._spent_s: dict[str | None, float] = {}  # by the hosts that share it
        self._missing_by_host: dict[str, deque[Item]] = {}
        self._numbers = {item: number for number, item in enumerate(batch.items, start=1)}
        self._began_s = monotonic.now_s()

    def answer(self, execute: JobExecutor) -> Envelope[ManyResult]:
        """Run the models that have no stored result, and return the document of all models."""
        self.rows.update(self.journal.rows)
        if self.page is not None or self.batch.values.get("export"):
            for row, envelope in self.journal.documents():
                self._keep(row, envelope)
        n_missing = 0
        for item in self._numbers:
            if item not in self.rows:
                self._missing_by_host.setdefault(item[1], deque()).append(item)
                n_missing += 1
        total_s, each_s = self.batch.total_s, getattr(self.template, "budget_s", None)
        n_models, n_hosts = len(self.batch.models), len(self.batch.hosts)
        what = many_words.models(n_models, n_hosts, kinds=self.batch.on_cluster)
        self.watch.say(many_words.plan(what, n_missing, len(self._numbers), total_s, each_s))
        try:
            for done in execute(self, self.watch):
                self._spend(done)
                row, envelope = self._row(done.job, done.answer)
                row = self._keep(row, envelope)
                self.journal.add(row, envelope)
            self.stopped = self.stopped or self.watch.stop()
        except KeyboardInterrupt:
            self.stopped = True
        return self._document(execute.aside if isinstance(execute, Fleet) else {})

    @property
    def n_left(self) -> int:
        """Number of jobs that have not started."""
        return sum(map(len, self._missing_by_host.values()))

    @property
    def kinds(self) -> Collection[str]:
        """Names of the hosts that have jobs which have not started."""
        return [host for host, items in self._missing_by_host.items() if items]

    def take(self, host: str | None = None, places: int = 1) -> Job | None:
        """Take the next job; None if no job or no time is left, or the user stopped the command.

        Args:
            host: Name of the host that runs the job; None for any host.
            places: Number of jobs that run on such hosts at the same time.
        """
        hosts = [host] if host is not None else self.kinds
        waiting = [items for name in hosts if (items := self._missing_by_host.get(name))]
        if not waiting:
            return None
        if self.watch.stop():
            self.stopped = True
            return None
        n_left = sum(map(len, waiting))
        left_s = self._left_s(host, places)
        if left_s is not None and left_s <= 0:
            for items in waiting:
                items.clear()
            return None
        # The order of the models, over all hosts.
        item = min(waiting, key=lambda items: self._numbers[items[0]]).popleft()
        known = self.journal.begun.get(item)
        budget = self._budget(left_s, n_left)
        if known is not None and known.budget:
            budget = known.budget  # a session resumes only with its own budget
        return self._job(item, budget, left_s, n_left - 1, resumes=known is not None)

    def _spend(self, done: Done) -> None:
        """Add the time of a job to the total time and to the time of its host."""
        for group in (None, done.job.host):
            self._spent_s[group] = self._spent_s.get(group, 0.0) + done.spent_s

    def _left_s(self, host: str | None, places: int) -> float | None:
        """Return the seconds left for the jobs of a host, or of all hosts if None; None without a total budget."""
        total_s = self.batch.total_s
        if total_s is None:
            return None
        if host is not None and monotonic.now_s() - self._began_s >= total_s:
            return 0.0
        return places * total_s - self._spent_s.get(host, 0.0)

    def _budget(self, left_s: float | None, n_left: int) -> str:
        """Return the budget of the next model in command-line notation; "" for the command's default."""
        if left_s is None or self.batch.total_s is None:
            each = self.batch.values.get("budget_each")
            return "" if each is None else str(each)
        return f"{max(LEAST_S, min(left_s / n_left, self.batch.total_s)):.3f}s"

    def _later_s(self, left_s: float | None, n_later: int) -> float | None:
        """Return the maximum time in seconds of the models after this one; None if the command has no budget."""
        if left_s is not None:
            return max(0.0, left_s) * n_later / (n_later + 1)
        each_s: float | None = getattr(self.template, "budget_s", None)
        return None if each_s is None else each_s * n_later

    def _job(self, item: Item, budget: str, left_s: float | None, n_later: int, *, resumes: bool) -> Job:
        model, host = item
        number, n_items = self._numbers[item], len(self._numbers)
        label = many_words.label(number, n_items, model, host)
        self.watch.say(many_words.begun(number, n_items, model, host))
        self.watch.step(Step(what=label))
        values = self.batch.values_of(model, host)
        configured, trouble = None, None
        if self.batch.configure is not None:
            try:
                configured = self.batch.configure(values)
            except OrtuneError as error:
                trouble = error
        if budget:
            values["budget"] = budget
        self.journal.begin(Begun(model=model, host=host, budget=budget, state=state(model)))
        return Job(
            label=label, verb=self.batch.verb, model=model, host=host, values=values,
            configured=configured, resumes=resumes, spent_s=self._spent_s.get(None, 0.0),
            later_s=self._later_s(left_s, n_later), error=trouble,
        )  # fmt: skip

    def _row(self, job: Job, answered: Envelope[Any] | OrtuneError) -> tuple[ModelRow, Envelope[Any]]:
        """Return a model's row and its document; for an error, the document contains the error."""
        if isinstance(answered, OrtuneError):
            return _failed(job, answered)
        row = result_or_error(partial(_of_document, job, answered), self.watch.say)
        if isinstance(row, OrtuneError):
            return _failed(job, row)
        error = answered.error.what if answered.error else ""
        if error:
            self.watch.say(many_words.incomplete(job.model, error))
        return with_cost(row, self.batch.prices), answered

    def _keep(self, row: ModelRow, envelope: Envelope[Any]) -> ModelRow:
        """Add a result to the rows, pages and exports, and return its row with the path of its page."""
        if self.page is not None and envelope.result is not None:
            place = _page(self.page, Path(row.path).stem, self._pages)
            trouble = result_or_error(partial(_write_page, envelope, place), self.watch.say)
            if trouble is None:
                row = msgspec.structs.replace(row, page=str(place))
            else:
                self.watch.say(many_words.incomplete(row.path, many_words.no_page(str(trouble))))
        self.exported.add(f"{row.path} on {row.host}" if row.host else row.path, envelope)
        self.rows[row.path, row.host] = row
        return row

    def _document(self, aside: dict[str, str]) -> Envelope[ManyResult]:
        """Make the document of all models, record it in the journal, and write its page and the exports.

        Args:
            aside: Maps hosts that were set aside to the reason.
        """
        missing = [item for item in self._numbers if item not in self.rows]
        rows = tuple(self.rows.get(item) or self._missing(item) for item in self._numbers)
        cut = bool(missing) or any(row.status == "interrupted" for row in rows)
        resumable = cut and self.journal.log.id
        result = ManyResult(
            verb=self.batch.verb,
            models=rows,
            best=best_hosts(rows),
            on="ray" if self.batch.on_cluster else "",
            currency=self.batch.prices.currency,
            set_aside=aside,
            exports=self.exported.finish(),
            session=self.journal.log.id,
            resume=self.batch.command("--resume") if resumable else "",
            elapsed_s=monotonic.now_s() - self._began_s,
        )
        folder = path(self.template.store)
        envelope = document(
            MANY, result, host=Machine().host, status="interrupted" if cut else "ok", store=str(folder or "")
        )
        self.journal.finish(envelope)
        if self.page is not None:
            write_page(envelope, self.page, self.watch)
        return envelope

    def _missing(self, item: Item) -> ModelRow:
        """Return the row of a model that was not reached."""
        reason: OrtuneError = Interrupted(many_words.NOT_REACHED)
        if not self.stopped:
            reason = MeasurementError(many_words.NO_TIME, code="budget")
        return ModelRow(
            path=item[0], host=item[1], status="missing", error=error_info(reason), exit_code=reason.exit_code
        )


def _of_document(job: Job, answered: Envelope[Any]) -> ModelRow:
    """Return the row of a model with a document, including its exit code."""
    module = module_of(job.verb, "run")
    code = module.exit_code(answered) if hasattr(module, "exit_code") else 0
    if answered.result is None:
        row = ModelRow(path=job.model, status=answered.status, error=answered.error)
    else:
        row = module_of(job.verb, "row").row(answered)
    row = msgspec.structs.replace(row, path=job.model, host=job.host, exit_code=code)
    return _placed(row, answered) if job.host else row


def _placed(row: ModelRow, answered: Envelope[Any]) -> ModelRow:
    """Return a row with the machine and the ONNX Runtime build of its host; "" if the document lacks them."""
    side = getattr(answered.result, "side", None) or getattr(answered.result, "base", None)
    builds = [one.runtime.build for one in (side, getattr(answered.result, "new", None)) if one is not None]
    runtime = many_words.builds(builds)
    machine = many_words.machine(answered.host) if answered.host is not None else ""
    return msgspec.structs.replace(row, machine=machine, runtime=runtime)


def _write_page(envelope: Envelope[Any], place: Path) -> None:
    """Write the page of one model, and create its folder.

    Raises:
        StoreError: The folder cannot be made.
    """
    try:
        place.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreError(str(error.strerror or error), where=str(place.parent)) from error
    write_page(envelope, place, None)


def _failed(job: Job, error: OrtuneError) -> tuple[ModelRow, Envelope[Any]]:
    """Return the row and the document of a model that failed or was interrupted."""
    if job.host and error.where.startswith("--runtime"):
        error.where = f"--host {job.host}"
    stopped = isinstance(error, Interrupted | HostLost)  # and can be resumed
    verdict = "invalid" if error.code == "invalid" else None
    envelope: Envelope[Any] = Envelope(
        schema=schema_of(job.verb),
        ortune=__version__,
        status="interrupted" if stopped else "error",
        verdict=verdict,
        error=error_info(error),
        configured=job.configured,
    )
    row = ModelRow(
        path=job.model,
        host=job.host,
        status=envelope.status,
        verdict=verdict or "",
        headline=error.what,
        exit_code=error.exit_code,
        error=envelope.error,
        configured=job.configured,
    )
    return row, envelope


def _page(whole: Path, stem: str, taken: set[str]) -> Path:
    """Return the path of one model's page, in a folder next to the page of all models; add its name to ``taken``."""
    name = re.sub(r"[^\w.-]", "_", stem).lstrip(".") or "model"
    unique = next(
        n for i in range(1, len(taken) + 2) if (n := name if i == 1 else f"{name}-{i}") not in taken
    )
    taken.add(unique)
    return whole.with_name(f"{whole.stem}-models") / f"{unique}.html"
