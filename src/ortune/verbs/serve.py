"""``ortune serve``: a bench in a browser elsewhere, which somebody opens by hand."""

from __future__ import annotations

import contextlib
import ipaddress
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ortune.errors import Interrupted, MeasurementError, UsageError
from ortune.records import BenchResult, Envelope
from ortune.targets.browser import certificate
from ortune.targets.browser.remote import Hello, Remote, browser_name
from ortune.targets.browser.server import Site
from ortune.targets.machine import Machine
from ortune.trials.scratch import scratch_folder
from ortune.trials.watcher import Watcher
from ortune.verbs import bench
from ortune.verbs._options import RUN, OneBench, Option, Target, seconds

FORMATS = ("text", "json", "markdown", "html")
STOPPING = "stopping after this process, then telling what is known; Ctrl-C again stops at once"


@dataclass(frozen=True, kw_only=True)
class Options(OneBench):
    """How long does this model take in a browser on a phone or another machine?

    Shows an address that somebody opens there; then measures as bench does. Only who has the address is let in.
    """

    target: Target = "web-wasm"
    address: Annotated[
        str,
        Option(
            "--address",
            "192.168.1.20",
            "Of this machine, where it listens; others than 127.0.0.1 by HTTPS.",
            RUN,
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Option("--port", "N", "Where it listens; 0 takes a free one.", RUN)] = 0
    cert: Annotated[
        str, Option("--cert", "FILE", "Certificate for HTTPS. Default: one made for this run.", RUN)
    ] = ""
    key: Annotated[str, Option("--key", "FILE", "The certificate's key.", RUN)] = ""
    open_within: Annotated[
        str | float, Option("--open-within", "5m", "How long it waits for a browser.", RUN)
    ] = "5m"


def run(options: Options, watcher: Watcher | None = None) -> Envelope[BenchResult]:
    """Waits for a browser, measures one plan in it and returns the whole document.

    Raises:
        OrtuneError: No browser came, or nothing could be measured; the exit code is the error's.
    """
    watch = watcher or Watcher()
    bench.check("serve", options)
    if not options.target.startswith("web-"):
        what = f"{options.target} is not in a browser"
        raise UsageError(what, where="--target", do="--target web-wasm, web-webgpu, web-webgl or web-webnn")
    limit_s = seconds(options.open_within, "--open-within")
    with scratch_folder() as scratch, _listening(options, scratch, watch) as remote:
        watch.say(f"open this on the other device, and keep it in sight: {remote.url}")
        if not remote.wait(limit_s, watch.stop):
            if watch.stop():
                raise Interrupted("stopped before a browser came; nothing is known")
            do = "open the address sooner, or ask for more time with --open-within"
            raise MeasurementError(f"no browser came within {limit_s:.0f} s", do=do)
        assert remote.hello is not None
        _require_able(options.target, remote.hello, watch)
        return bench.measured("serve", options, watch, Machine(None, options.in_browser, remote))


def _require_able(target: str, hello: Hello, watch: Watcher) -> None:
    """Says what the browser is, and what cannot be measured there.

    Raises:
        UsageError: That is the target itself.
    """
    watch.say(f"{browser_name(hello.agent)} is here, with {hello.cores} logical processors")
    if hello.secure and hello.isolated:
        return
    what = "the address is not secure for that browser: only single-thread wasm can be measured"
    if target != "web-wasm":
        raise UsageError(
            what, where="--target", do="serve by HTTPS, through adb reverse, or --target web-wasm"
        )
    watch.say(what)


@contextlib.contextmanager
def _listening(options: Options, scratch: Path, watch: Watcher) -> Iterator[Remote]:
    """Listens for the one browser, beyond loopback by HTTPS only."""
    try:
        address = ipaddress.IPv4Address(options.address)
    except ValueError:
        what = f"{options.address!r} is not an IPv4 address"
        raise UsageError(
            what, where="--address", do="give this machine's own, such as 192.168.1.20"
        ) from None
    if address.is_unspecified:
        what = "0.0.0.0 is every address of this machine, and a browser can open none of that name"
        raise UsageError(what, where="--address", do="give the one that the other device reaches")
    if bool(options.cert) != bool(options.key):
        missing = "--key" if options.cert else "--cert"
        raise UsageError("a certificate needs its key", where=missing, do="give both, or neither")
    tls = None
    if options.cert or not address.is_loopback:
        tls = _context(options, str(address), scratch, watch)
    try:
        site = Site(str(address), options.port, tls=tls)
    except (OSError, OverflowError) as error:
        what = f"cannot listen at {address}, port {options.port}: {error}"
        raise UsageError(what, where="--port", do="leave --port out, which takes a free one") from None
    remote = Remote(site, watch.say)
    try:
        yield remote
    finally:
        remote.close()
        site.close()


def _context(options: Options, address: str, scratch: Path, watch: Watcher) -> ssl.SSLContext:
    """The user's certificate, or one that is made for this run and forgotten with it."""
    cert, key = Path(options.cert), Path(options.key)
    if not options.cert:
        cert, key = certificate.made(address, scratch)
        watch.say(
            "the certificate is made for this run, so the browser warns once: tap Advanced, then Proceed "
            "(Firefox: Accept the Risk; Safari: Show Details, visit this website)"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # One with a passphrase is refused, since nobody is there to type it.
        context.load_cert_chain(cert, key, password="")
    except (OSError, ValueError) as error:
        what = f"this certificate and key cannot be used: {error}"
        raise UsageError(
            what, where="--cert", do="give PEM files that belong together, the key unencrypted"
        ) from None
    return context
