"""A bug of ours is said as such: exit code 4, one JSON document, a traceback only when asked for."""

from __future__ import annotations

import sys

import pytest

from box import Box

# A verb with a bug, beside the real ones.
PROGRAM = """
from ortune.cli.main import app, main

@app.command(name="broken")
def broken(json: bool = False) -> None:
    raise ZeroDivisionError("division by zero")

main()
"""


@pytest.mark.parametrize("debug", ["", "1"])
def test_a_bug_is_called_one(box: Box, debug: str) -> None:
    done = box.run("broken", "--json", python=(sys.executable, "-c", PROGRAM), env={"ORTUNE_DEBUG": debug})
    assert done.code == 4
    assert done.document["schema"] == "ortune/broken/1"
    assert done.document["error"]["code"] == "internal"
    assert "ZeroDivisionError: division by zero" in done.document["error"]["what"]
    assert "ORTUNE_DEBUG=1" in done.document["error"]["do"]
    assert "ortune: internal error" in done.err
    assert ("Traceback" in done.err) == bool(debug)


def test_no_arguments_show_the_help(box: Box) -> None:
    done = box.run()
    assert done.code == 0
    assert "compare" in done.out
