"""Names of the steps of a tuning that it shows as progress."""

from __future__ import annotations

MEASURING_MEMORY = "measuring the memory of the default over all sizes"
TESTING_BACKENDS = "testing other backends of the browser"
PROFILING = "profiling, to see where the time goes"
WITHOUT_EACH_REWRITE = "optimising the graph without each rewrite in turn"
