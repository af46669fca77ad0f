"""Machines on which a command runs one after another; each has a name and a script that starts Python on it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ortune.errors import UsageError
from ortune.verbs._shared.common import HostLabels, Hosts, On, Prices
from ortune.verbs._shared.groups import EachModelOptions

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
MOST = 100


@dataclass(frozen=True, kw_only=True)
class HostOption:
    """A machine named by ``--host``, or a kind of cluster hosts.

    Attributes:
        name: Name in the result.
        script: Script that starts Python, as for ``--runtime``; "" for cluster hosts.
        labels: Value of ``--hosts``; "" for all cluster hosts.
    """

    name: str
    script: str = ""
    labels: str = ""


def parse(texts: Sequence[str], flag: str = "--host") -> tuple[HostOption, ...]:
    """Parse the values of ``--host NAME=SCRIPT``.

    Raises:
        UsageError: A text is malformed, or two hosts have the same name.
    """
    hosts: dict[str, HostOption] = {}
    for text in texts:
        name, sign, script = text.partition("=")
        if not sign or not script.strip() or _NAME.fullmatch(name) is None:
            raise UsageError(
                f"{text!r} is not NAME=SCRIPT",
                where=flag,
                do=f"e.g. {flag} board=./on-board, where the script starts a Python on that machine",
            )
        if name in hosts:
            raise UsageError(f"two hosts are called {name}", where=flag, do="give each its own name")
        hosts[name] = HostOption(name=name, script=script)
    if len(hosts) > MOST:
        raise UsageError(f"{len(hosts)} hosts are too many", where=flag, do=f"pass at most {MOST}")
    return tuple(hosts.values())


def address(text: str) -> str:
    """Return the address in ``--on ray[:HOST:PORT]``; "" if it contains no address.

    Raises:
        UsageError: The text has a different form.
    """
    engine, _, place = text.partition(":")
    if engine != "ray" or text == "ray:" or place.startswith("ray:"):
        raise UsageError(f"{text!r} is not ray[:HOST:PORT]", where="--on", do="e.g. --on ray:10.0.0.1:6379")
    return place


def labels(text: str) -> dict[str, str]:
    """Return the node labels in the value of ``--hosts``, written ``KEY=VALUE[,KEY=VALUE]``.

    Raises:
        UsageError: The text has a different form.
    """
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(key and value and _NAME.fullmatch(value) for key, _, value in pairs):
        raise UsageError(
            f"{text!r} is not KEY=VALUE[,KEY=VALUE]",
            where="--hosts",
            do="e.g. --hosts instance=c7g, for nodes started with `ray start --labels instance=c7g`",
        )
    return {key: value for key, _, value in pairs}


@dataclass(frozen=True, kw_only=True)
class HostSelection(EachModelOptions):
    """Options of a command that can run on several machines."""

    host: Hosts = ()
    on: On = None
    hosts: HostLabels = ()


@dataclass(frozen=True, kw_only=True)
class HostOptions(HostSelection):
    """Options of a measurement that can run on several machines and compare their prices."""

    price: Prices = ()
