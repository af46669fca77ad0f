"""Connection to a browser on another device, on which the user opens a page."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ortune.catalogue.providers import WEB_WASM as WASM
from ortune.errors import Interrupted, MeasurementError, UsageError
from ortune.show import qr
from ortune.verbs._shared.browsers import Listening
from ortune.verbs._shared.quantities import seconds

if TYPE_CHECKING:
    from ortune.measuring.watcher import Watcher
    from ortune.targets.browser.remote import Hello, Remote
    from ortune.targets.machine import Machine


@contextlib.contextmanager
def remote_browser(
    options: Listening, targets: Sequence[str], scratch: Path, watch: Watcher
) -> Iterator[Machine]:
    """Wait for a browser to connect, and provide its machine until the measurement ends.

    Args:
        options: Address and time limit of the server.
        targets: Targets that the browser has to run.
        scratch: Temporary folder of this command.
        watch: Progress and cancellation callbacks.

    Raises:
        UsageError: The server cannot listen on the address, or the browser cannot run the targets.
        MeasurementError: No browser connected in time.
        Interrupted: The user stopped the session before a browser connected.
    """
    from ortune.targets.machine import Machine

    limit_s = seconds(options.open_within, "--open-within")
    with _listening(options, scratch, watch) as remote:
        watch.say(invitation(remote.url, options.address))
        watch.draw(qr.drawn(remote.url))
        if not remote.wait(limit_s, watch.stop):
            if watch.stop():
                raise Interrupted("stopped before a browser connected; there is no result")
            do = "open the address sooner, or allow more time with --open-within"
            raise MeasurementError(f"no browser connected within {limit_s:.0f} s", do=do)
        watch.begin()
        assert remote.hello is not None
        _require_able(targets, remote.hello, watch)
        yield Machine(None, options.in_browser, remote)


def invitation(url: str, address: str) -> str:
    """Return a request to open a page; for a loopback address, with how another device can connect."""
    if not ipaddress.ip_address(address).is_loopback:
        return f"open this on the other device, and keep it in the foreground: {url}"
    own = own_address() or "ADDRESS"
    how = f"open this on this device (for another device: --address {own}), and keep it in the foreground"
    return f"{how}: {url}"


def own_address() -> str:
    """Return an IPv4 address at which other devices may reach this machine; "" if none is known."""
    import psutil

    found = [
        entry.address
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family == socket.AF_INET and not ipaddress.ip_address(entry.address).is_loopback
        if not name.startswith(("docker", "br-", "veth", "virbr"))
    ]
    return found[0] if found else ""


def _require_able(targets: Sequence[str], hello: Hello, watch: Watcher) -> None:
    """Report the connected browser, and the measurements that it does not support.

    Raises:
        UsageError: The browser cannot run one of the targets.
    """
    from ortune.targets.browser.remote import browser_name

    watch.say(f"{browser_name(hello.agent)} connected, with {hello.cores} logical processors")
    if hello.secure and hello.isolated:
        return
    what = "that browser treats the address as insecure, so only single-threaded wasm can be measured"
    if any(target != WASM.target for target in targets):
        raise UsageError(
            what, where="--target", do=f"serve over HTTPS, through adb reverse, or --target {WASM.target}"
        )
    watch.say(what)


@contextlib.contextmanager
def _listening(options: Listening, scratch: Path, watch: Watcher) -> Iterator[Remote]:
    """Serve the page to a single browser, with HTTPS unless the address is a loopback address."""
    from ortune.targets.browser.remote import Remote
    from ortune.targets.browser.site import Site

    try:
        address = ipaddress.IPv4Address(options.address)
    except ValueError:
        what = f"{options.address!r} is not an IPv4 address"
        raise UsageError(
            what, where="--address", do="use this machine's own address, such as 192.168.1.20"
        ) from None
    if address.is_unspecified:
        what = "0.0.0.0 means every address of this machine and cannot be opened in a browser"
        raise UsageError(what, where="--address", do="use the address that the other device can reach")
    if bool(options.cert) != bool(options.key):
        missing = "--key" if options.cert else "--cert"
        raise UsageError("a certificate needs a key", where=missing, do="pass both, or neither")
    tls = None
    if options.cert or not address.is_loopback:
        tls = _context(options, str(address), scratch, watch)
    try:
        site = Site(str(address), options.port, tls=tls)
    except (OSError, OverflowError) as error:
        what = f"cannot listen on {address}, port {options.port}: {error}"
        raise UsageError(what, where="--port", do="omit --port to use a free port") from None
    remote = Remote(site, watch.say)
    try:
        yield remote
    finally:
        try:
            remote.close()
        finally:
            site.close()


def _context(options: Listening, address: str, scratch: Path, watch: Watcher) -> ssl.SSLContext:
    """Return a TLS context with the user's certificate, or with a temporary self-signed certificate."""
    from ortune.targets.browser import certificate

    cert, key = Path(options.cert), Path(options.key)
    if not options.cert:
        cert, key = certificate.create(address, scratch)
        watch.say(
            "the certificate was created for this run, so the browser warns once: tap Advanced, then Proceed "
            "(Firefox: Accept the Risk; Safari: Show Details, visit this website)"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # The empty password makes a key with a passphrase fail instead of prompting for the passphrase.
        context.load_cert_chain(cert, key, password="")
    except (OSError, ValueError) as error:
        what = f"this certificate and key cannot be used: {error}"
        raise UsageError(
            what, where="--cert", do="pass a matching certificate and unencrypted key as PEM files"
        ) from None
    return context
