"""One function a verb, with the names and the values of the command line.

Times, shares and sizes may be written as there ("2m", "5%", "512m") or as plain numbers of seconds, shares and bytes.
"""

from __future__ import annotations

from ortune.api.looking import doctor, lock, look, profile, report
from ortune.api.measuring import bench, compare, tune

__all__ = ["bench", "compare", "doctor", "lock", "look", "profile", "report", "tune"]
