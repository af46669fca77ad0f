"""Records that are passed between the parts of ortune, or stored in documents.

Records are frozen, slotted and keyword-only (each class repeats this because msgspec does not inherit kw_only); units
are in the names. They import nothing of ortune but ``catalogue/providers.py``, so any package may use them. Ratios are
always candidate / baseline: below 1 is faster.
"""

from ortune.records.answer import *
from ortune.records.app_bundle import *
from ortune.records.app_lock import *
from ortune.records.base import *
from ortune.records.bench import *
from ortune.records.bisect import *
from ortune.records.bundle import *
from ortune.records.comparison import *
from ortune.records.convert import *
from ortune.records.difference import *
from ortune.records.doctor import *
from ortune.records.envelope import *
from ortune.records.fence import *
from ortune.records.finding import *
from ortune.records.lock import *
from ortune.records.look import *
from ortune.records.machine import *
from ortune.records.many import *
from ortune.records.measure import *
from ortune.records.memory import *
from ortune.records.model import *
from ortune.records.ort_format import *
from ortune.records.page import *
from ortune.records.partition import *
from ortune.records.phone import *
from ortune.records.plan import *
from ortune.records.profile import *
from ortune.records.protocol import *
from ortune.records.recording import *
from ortune.records.replay import *
from ortune.records.rows import *
from ortune.records.runtime import *
from ortune.records.soak import *
from ortune.records.source import *
from ortune.records.timeline import *
from ortune.records.trace import *
from ortune.records.tune import *
from ortune.records.verification import *
