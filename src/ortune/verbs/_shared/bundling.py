"""Writes the bundle of a finished tuning; the result is kept if the bundle cannot be written."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from ortune import files, rewrites
from ortune.bundle import digests
from ortune.bundle import format as bundle_format
from ortune.bundle.write import write_bundle
from ortune.catalogue.named import NODE_THREAD
from ortune.engines.racing import pasted
from ortune.engines.racing.tuning import Tuning
from ortune.errors import OrtuneError, UsageError
from ortune.records import Delivery, Envelope, ErrorInfo, Plan, ShippedAnswer
from ortune.verbs._shared.attempt import error_info
from ortune.verbs._shared.tuned_words import bundle_later
from ortune.verbs.tune.result import TuneResult

R = TypeVar("R", bound=ShippedAnswer)


def with_bundle(
    run: Tuning,
    envelope: Envelope[R],
    answer: TuneResult,
    directory: Path,
    *,
    force: bool,
    again: Sequence[str],
) -> Envelope[R]:
    """Write the bundle of a tuning, while the session's temporary files still exist.

    Args:
        run: The tuning, with its measurements.
        envelope: The document of the tuning; its page is part of the bundle.
        answer: The result to bundle.
        directory: Folder of the bundle.
        force: Whether to replace an existing bundle.
        again: Command-line arguments for resuming the session, without the id; used if the measurements are stored.

    Returns:
        The document with the bundle's path, or with the error if the bundle could not be written.
    """
    from ortune.show.html.pages import render
    from ortune.verbs._shared.tune_headline import HERE

    result, baseline = envelope.result, run.baseline
    # The page in the bundle lists the bundle's contents only if no change is proposed.
    page = envelope if result.changes else _with_bundle_path(envelope, HERE)
    try:
        path = write_bundle(
            delivery(answer),
            baseline.work,
            baseline.host,
            model=run.side.model.path,
            rewritten=run.models.made(result.winner),
            feeds=Path(baseline.refs[0].path),
            outputs=run.reference_outputs(),
            report_html=render(page),
            directory=directory,
            force=force,
            model_settings=_model_settings(result.winner),
        )
    except OrtuneError as error:
        do = "; ".join(part for part in (error.do, _later(run, again)) if part)
        return _lacking(envelope, msgspec.structs.replace(error_info(error), do=do))
    report, info = path / "report.html", bundle_format.read(path)
    lacking: ErrorInfo | None = None
    if info.plain_model:
        # The printed lines must load the measured model when they are pasted unchanged; its path is known only now.
        code = pasted.rewritten_loading_lines(baseline, result.winner, str(path / info.model))
        result = msgspec.structs.replace(result, code=code)
        try:
            files.write(report, render(msgspec.structs.replace(envelope, result=result)))
            digests.write(path)
        except OSError as error:
            lacking = ErrorInfo(
                code=UsageError.default_code,
                what=f"the bundle is complete, but its HTML page lacks the model's path: {error.strerror}",
                where=str(report),
                do="use the code printed here instead of the page's",
            )
    result = msgspec.structs.replace(result, bundle=str(path), report=str(report))
    envelope = msgspec.structs.replace(envelope, result=result)
    return _lacking(envelope, lacking) if lacking else envelope


def delivery(result: TuneResult) -> Delivery:
    """Return the content of a tuning's bundle."""
    runtime = result.runtime or result.side.runtime
    quantized = [r.plan.rewrites[-1] for r in result.precision if r.plan.rewrites and r.within_ratio != 0]
    return Delivery(
        winner=_loadable(result.winner),
        headline=result.headline,
        runtime=runtime,
        ort_version=result.ort_web or runtime.version_of(result.winner),
        figures=result.winner_figures or result.default_figures,
        proof=result.against_default,
        fallback=result.fallback,
        adoption=result.adoption,
        calibration=result.calibration if any(s in quantized for s in result.winner.rewrites) else None,
        hardware_bound=result.hardware_bound,
        session=result.session,
    )


def _loadable(winner: Plan) -> Plan:
    """Return the plan that a bundle loads; a Node.js plan gets no execution providers, because Node.js uses the CPU.

    Raises:
        UsageError: The plan runs the session on a separate thread, which a bundle's code does not create.
    """
    if not winner.is_node:
        return winner
    if NODE_THREAD.name in winner.settings:
        raise UsageError(
            "no bundle creates a thread for the session",
            where=f"--set {NODE_THREAD.name}",
            do="omit it, and call load() of load.mjs in a thread of your own",
        )
    return msgspec.structs.replace(winner, providers=())


def _with_bundle_path(envelope: Envelope[R], bundle: str) -> Envelope[R]:
    """Return the document with the path of its bundle filled in."""
    return msgspec.structs.replace(envelope, result=msgspec.structs.replace(envelope.result, bundle=bundle))


def _lacking(envelope: Envelope[R], error: ErrorInfo) -> Envelope[R]:
    """Return the document with the error that prevented the bundle from being written."""
    status = "interrupted" if envelope.status == "interrupted" else "error"
    return msgspec.structs.replace(envelope, status=status, error=error)


def _later(run: Tuning, again: Sequence[str]) -> str:
    """Return a sentence with the command that writes the bundle later; "" if the measurements are not stored."""
    if not run.log.id or run.log.trouble:
        return ""
    resume = shlex.join([*again, "--resume", run.log.id])
    return bundle_later(resume)


def _model_settings(plan: Plan) -> tuple[str, ...]:
    """Return the names of the plan's settings that hardware-bound rewrites added."""
    bound = [spec for spec in plan.rewrites if rewrites.find(spec.name).hardware_bound]
    settings = rewrites.settings_for(bound).items()
    return tuple(name for name, value in settings if plan.settings.get(name) == value)
