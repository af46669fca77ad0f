"""Options of a browser on another device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from ortune.catalogue.providers import WEB_WASM as WASM
from ortune.errors import UsageError
from ortune.objectives import OF_MEMORY, Objective
from ortune.verbs._shared.groups import BrowserOptions
from ortune.verbs._shared.spelling import RUN, Option, given_flags

OF_THE_ADDRESS = ("address", "port", "cert", "key", "open_within")
UNKNOWN_THERE = (*OF_MEMORY, "cpu", "cold-start", "first-result")
"""Objectives that a remote browser does not support: a page cannot measure them, or they need a new browser process."""


@dataclass(frozen=True, kw_only=True)
class Listening(BrowserOptions):
    """Options of a server that waits for a browser on another device."""

    address: Annotated[
        str,
        Option(
            "--address",
            "192.168.1.20",
            "Address of this machine to listen on; HTTPS unless it is 127.0.0.1.",
            RUN,
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Option("--port", "N", "Port to listen on; 0 uses a free one.", RUN)] = 0
    cert: Annotated[
        str, Option("--cert", "FILE", "Certificate for HTTPS. Default: a temporary self-signed one.", RUN)
    ] = ""
    key: Annotated[str, Option("--key", "FILE", "Private key of the certificate.", RUN)] = ""
    open_within: Annotated[
        str | float, Option("--open-within", "5m", "How long to wait for a browser.", RUN)
    ] = "5m"


@dataclass(frozen=True, kw_only=True)
class RemoteBrowser(Listening):
    """Options of a verb whose trials can run in a browser on another device."""

    serve: Annotated[
        bool,
        Option(
            "--serve",
            "",
            "Run in a browser on a phone or another machine: shows a URL to open there.",
            RUN,
        ),
    ] = False

    def require_there(self, targets: Sequence[str], objective: Objective, *, pod: bool) -> None:
        """Check that the options fit a remote browser or, without ``--serve``, do not need one.

        Args:
            targets: Targets of all sides.
            objective: The objective.
            pod: Whether the options emulate a container.

        Raises:
            UsageError: An option needs ``--serve``, or a remote browser does not support it.
        """
        from ortune.catalogue.providers import of_target

        if not self.serve:
            for name, flag in given_flags(self).items():
                if name in OF_THE_ADDRESS:
                    raise UsageError(
                        "needs --serve (a browser on another device)", where=flag, do="add --serve"
                    )
            return
        native = next((name for name in targets if not of_target(name).in_page), "")  # "web" is several
        if native:
            raise UsageError(
                f"a browser on another device cannot run the target {native}",
                where="--serve",
                do=f"use --target {WASM.target} or another browser target for all sides",
            )
        if objective in UNKNOWN_THERE:
            raise UsageError(
                f"a browser on another device cannot measure {objective}",
                where="--objective",
                do="latency, p95, throughput or main-thread",
            )
        if pod:
            raise UsageError(
                "CPU and memory limits are not supported on another device",
                where="--serve",
                do="omit --cpus and --memory",
            )
