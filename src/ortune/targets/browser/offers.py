"""Execution providers other than WebAssembly that a browser offers, tested once per session in the browser itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ortune import temporary
from ortune.catalogue import providers
from ortune.errors import RuntimeNotFound
from ortune.targets.browser import setup
from ortune.targets.browser.devtools import DevTools
from ortune.targets.browser.devtools_messages import DevToolsError


@cache
def refused(program: str, *, headful: bool = False) -> Mapping[str, str]:
    """Return why the browser cannot run an execution provider, by its name; "" if it can.

    This starts the browser.

    Args:
        program: The browser.
        headful: Whether it has a window, as in its trials.
    """
    asked = providers.providers_with(lambda p: p.question)
    with temporary.folder() as folder:
        page = folder / "page.html"  # a file: a page without an address has neither WebGPU nor WebNN
        page.write_text("<!doctype html>", encoding="utf-8")
        flags = [flag for provider in asked for flag in provider.browser_flags]
        arguments = setup.flags(flags, headful=headful, profile=folder / "browser")
        with (folder / "log").open("wb") as log:
            try:
                tools = DevTools(
                    program, arguments, environment=setup.environment(folder), folder=folder, log=log,
                    happened=lambda event: None,
                )  # fmt: skip
            except RuntimeNotFound as error:
                return dict.fromkeys((p.name for p in asked), error.what)
            try:
                tools.open(page.as_uri())
                return {p.name: str(tools.evaluate(p.question)) for p in asked}
            except DevToolsError as error:
                return dict.fromkeys((p.name for p in asked), str(error))
            finally:
                tools.close()
                temporary.remove_sockets(folder)
