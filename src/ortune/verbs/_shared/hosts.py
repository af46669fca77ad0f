"""Machines on which a command is run in turn: each has a name, and a script that starts a Python there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ortune.errors import UsageError
from ortune.verbs._shared.common import Hosts, Prices
from ortune.verbs._shared.groups import Each

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
MOST = 100


@dataclass(frozen=True, kw_only=True)
class HostOption:
    """One ``--host``.

    Attributes:
        name: Its name in the answer.
        script: What ``--runtime`` would take.
    """

    name: str
    script: str


def parse(texts: Sequence[str], flag: str = "--host") -> tuple[HostOption, ...]:
    """Read ``--host NAME=SCRIPT``.

    Raises:
        UsageError: A text has another form, or two hosts have one name.
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


@dataclass(frozen=True, kw_only=True)
class Hosted(Each):
    """A measurement that may run on several machines."""

    host: Hosts = ()
    price: Prices = ()
