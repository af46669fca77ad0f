"""What a browser offers a page besides WebAssembly: asked of the browser itself, once a session."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ortune import temporary
from ortune.errors import RuntimeNotFound
from ortune.targets.browser import setup
from ortune.targets.browser.devtools import DevTools, DevToolsError

# A context is what both need in the end: WebNN's object is there in browsers that refuse every context.
ASKED = {
    "webgpu": "navigator.gpu?.requestAdapter().then((found) => (found ? '' : 'the browser gives no WebGPU adapter'))"
    " ?? 'the browser has no WebGPU'",
    "webnn": "navigator.ml?.createContext().then(() => '', (error) => `createContext: ${error.message}`)"
    " ?? 'the browser has no WebNN'",
}


@cache
def refused(program: str, *, headful: bool = False) -> Mapping[str, str]:
    """Why the browser cannot run an execution provider, by its name; "" where it can.

    Starts the browser.

    Args:
        program: The browser.
        headful: Whether it has a window, as its trials will.
    """
    with temporary.folder() as folder:
        page = folder / "page.html"  # of a file: a page without an address gets neither
        page.write_text("<!doctype html>", encoding="utf-8")
        given = setup.flags(webgpu=True, webnn=True, headful=headful, profile=folder / "browser")
        with (folder / "log").open("wb") as log:
            try:
                tools = DevTools(
                    program, given, environment=setup.environment(folder), folder=folder, log=log,
                    happened=lambda event: None,
                )  # fmt: skip
            except RuntimeNotFound as error:
                return dict.fromkeys(ASKED, error.what)
            try:
                tools.open(page.as_uri())
                return {name: str(tools.evaluate(question)) for name, question in ASKED.items()}
            except DevToolsError as error:
                return dict.fromkeys(ASKED, str(error))
            finally:
                tools.close()
                temporary.remove_sockets(folder)
