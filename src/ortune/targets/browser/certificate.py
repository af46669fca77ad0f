"""Self-signed TLS certificates for ``ortune serve``, since browsers require HTTPS for other hosts than loopback."""

from __future__ import annotations

from pathlib import Path

from ortune import launcher
from ortune.errors import UsageError

CERTIFICATE_S = 30.0


def create(address: str, scratch: Path) -> tuple[Path, Path]:
    """Create a certificate for one address with the user's openssl; return the certificate and its key.

    Raises:
        UsageError: There is no openssl, or it fails.
    """
    program = launcher.program("openssl")
    if not program:
        what = (
            f"browsers need HTTPS at {address}, and openssl, which creates the certificate, is not installed"
        )
        raise UsageError(what, where="--address", do="install openssl, or pass --cert and --key")
    cert, key = scratch / "serve.crt", scratch / "serve.key"
    command = [
        program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "7",
        "-subj", "/CN=ortune", "-addext", f"subjectAltName=IP:{address}", "-keyout", str(key), "-out", str(cert),
    ]  # fmt: skip
    done = launcher.run(command, limit_s=CERTIFICATE_S, folder=scratch)
    if not (done.code == 0 and cert.is_file() and key.is_file()):
        raise UsageError(
            "openssl could not create a certificate", where="--address", do="pass --cert and --key"
        )
    return cert, key
