"""Entry point of ``python -m ortune``."""

from ortune.cli.main import main

main()
