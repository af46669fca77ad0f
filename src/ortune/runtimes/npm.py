"""Downloads packages with the user's npm: install scripts never run, and a blocked registry is detected early."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from ortune import launcher
from ortune.errors import RuntimeNotFound

FETCH_S = 300.0
SILENCE_MS = 3000
"""Milliseconds without a response after which a registry counts as blocked."""


def fetch(package: str, version: str, arguments: Sequence[str], folder: Path, *, instead: str) -> None:
    """Run npm for one release of a package, in a folder.

    Args:
        package: Name of the package.
        version: Version of the package.
        arguments: The subcommand of npm, with its options.
        folder: The working directory.
        instead: Option that selects a local copy, for errors.

    Raises:
        RuntimeNotFound: npm is missing, or could not fetch the package.
    """
    npm = launcher.program("npm")
    if not npm:
        raise RuntimeNotFound(
            f"{package} {version} is not installed, and neither is npm, which downloads it",
            do=f"install npm, or pass your own copy: {instead}",
        )
    folder.mkdir(parents=True, exist_ok=True)
    failed = _blocked(npm, folder)
    if not failed:
        command = [npm, *arguments, "--loglevel", "error", "--ignore-scripts", *_patience()]
        done = launcher.run([*command, f"{package}@{version}"], limit_s=FETCH_S, folder=folder)
        if done.code != 0:
            failed = _reason((done.log or done.output).decode("utf-8", "replace"))
    if failed:
        raise RuntimeNotFound(
            f"npm could not fetch {package} {version}: {failed}",
            do=f"check the network, or pass a local copy: {instead}",
        )


def _blocked(npm: str, folder: Path) -> str:
    """Return why npm's registry cannot be reached; "" if it can, or if a proxy is used.

    npm only limits the wait for responses: if packets are dropped, it waits minutes for a connection.
    """
    from urllib.request import getproxies  # imports an HTTP client, so only here

    asking = [npm, "config", "get", "registry", "https-proxy", "proxy"]
    asked = launcher.run(asking, limit_s=FETCH_S, folder=folder)
    config = dict(
        line.split("=", 1) for line in asked.output.decode("utf-8", "replace").split() if "=" in line
    )
    address = urlsplit(config.pop("registry", ""))
    if not address.hostname or set(config.values()) - {"null", ""} or getproxies():
        return ""
    try:
        port = address.port or (80 if address.scheme == "http" else 443)
        socket.create_connection((address.hostname, port), SILENCE_MS / 1000).close()
    except (OSError, ValueError) as error:  # ValueError: an invalid port
        return f"cannot connect to {address.hostname} ({error})"
    return ""


def _patience() -> list[str]:
    """Return npm options that limit the wait for a registry, unless the user has set a limit."""
    if "npm_config_fetch_timeout" in os.environ:
        return []
    return ["--fetch-retries=0", f"--fetch-timeout={SILENCE_MS}"]


def _reason(said: str) -> str:
    """Return the reason for npm's failure from its messages."""
    lines = [re.sub(r"^npm (error|ERR!) ", "", line) for line in said.strip().splitlines()]
    lines = [line for line in lines if not re.match(r"(code|errno|syscall) |A complete log", line)]
    return next((line.removeprefix("network ") for line in lines if line.strip()), "no message")
