"""Watches a user's page, reads the models that it loads, and applies the rules to each session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from ortune import monotonic, rules
from ortune.catalogue.providers import WEB_WEBGPU as WEBGPU
from ortune.catalogue.providers import find
from ortune.errors import OrtuneError
from ortune.graph.model.open import OpenModel, open_model
from ortune.printable import operand
from ortune.records import ModelInfo, PageModel, PageSeen, PageSession, Runtime, Side, WatchedPage
from ortune.rules import Facts
from ortune.show.finding_words import measurable
from ortune.targets.browser.setup import BrowserSetup
from ortune.targets.browser.watch import BESIDES_S, watch
from ortune.verbs.diagnose.page_words import NOT_READ


def watched(
    url: str, browser: BrowserSetup, watch_s: float, folder: Path, stop: Callable[[], bool]
) -> tuple[WatchedPage, Side]:
    """Watch a page; return it with the findings of its sessions, and its first session as a side.

    Raises:
        OrtuneError: No browser was found, or the address cannot be opened.
    """
    until = monotonic.now_s() + watch_s + BESIDES_S
    watched_page = watch(url, browser=browser, watch_s=watch_s, until=until, folder=folder, stop=stop)
    sessions, infos = [], []
    for place, session in enumerate(watched_page.page.sessions):
        model, opened = _opened(session.model, watched_page.models.get(place), until)
        infos.append(opened.info if opened else _unread(session.model))
        named = msgspec.structs.replace(session, model=model)
        sessions.append(_judged(named, opened, watched_page.page.seen))
    page = msgspec.structs.replace(watched_page.page, sessions=tuple(sessions))
    first = sessions[0] if sessions else PageSession()
    side = Side(
        label=page.url,
        model=infos[0] if infos else _unread(PageModel()),
        plan=first.plan,
        runtime=Runtime(python="", ort_version=first.version, package="onnxruntime-web"),
        placement=first.placement,
    )
    return page, side


def _opened(model: PageModel, path: Path | None, until: float) -> tuple[PageModel, OpenModel | None]:
    """Return a model that a page loaded and, if it can be read, the opened model; otherwise the first has an error."""
    if path is None:
        return model, None
    if monotonic.now_s() > until:
        return msgspec.structs.replace(model, error=NOT_READ), None
    try:
        opened = open_model(path, called=model.url or "model")
        info = opened.info
    except OrtuneError as error:
        return msgspec.structs.replace(model, error=error.what), None
    return msgspec.structs.replace(model, sha256=info.sha256, n_nodes=info.n_nodes), opened


def _unread(model: PageModel) -> ModelInfo:
    return ModelInfo(path=model.url, format="onnx", sha256="", size_bytes=model.size_bytes)


def _judged(session: PageSession, opened: OpenModel | None, page: PageSeen) -> PageSession:
    """Return a session with the findings of the rules filled in."""
    provider = find(session.plan.provider_names[0])
    gpu = provider == WEBGPU
    facts = Facts(
        model=opened,
        plan=session.plan,
        target=provider.target,
        page=page if gpu else msgspec.structs.replace(page, adapter="", software=False),
        asked={**session.environment, **session.options},
        on_gpu=session.runs.on_gpu,
    )
    findings = rules.findings(facts)
    name = session.model.url.partition("?")[0].rpartition("/")[2] or "MODEL.onnx"
    again = measurable(findings, [operand(name), "--target", facts.target])
    with_fixes = (b if not a.fix else a for a, b in zip(findings, again, strict=True))
    return msgspec.structs.replace(session, findings=tuple(with_fixes))
