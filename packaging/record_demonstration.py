"""Records the result that the demonstration shows (Rejection against Gumbel, built-in models): make demonstration

Run it again after a change of the models, of the preset or of the trace format, on a computer that does nothing else.
"""

from __future__ import annotations

import gzip
import json
import platform
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from app.compare.comparison import LETTERS
from app.compare.presets import PRESETS, RECORDED, TARGET, recorded_setup
from app.session.settings import Settings
from engine.rounds.trace import ENDING, PACKED
from engine.runtime.worker import Engine
from engine.types import RunFailed, RunFinished
from engine.values.requests.compare import CompareRequest


def main() -> int:
    """Answers the preset's requests and writes the trace of each column; returns 1 if an answer failed."""
    preset = next(preset for preset in PRESETS if preset.recorded)
    requests = recorded_setup(preset).requests(TARGET, Settings().options())
    with tempfile.TemporaryDirectory() as folder:
        traces = [Path(folder) / f"{letter}{ENDING}" for letter, _ in zip(LETTERS, requests, strict=False)]
        pairs = zip(requests, traces, strict=True)
        problem = _answer(CompareRequest(tuple(replace(request, trace_path=str(trace)) for request, trace in pairs)))
        if problem:
            print(problem, file=sys.stderr)
            return 1
        RECORDED.mkdir(parents=True, exist_ok=True)
        for trace in traces:
            path = RECORDED / f"{trace.name}{PACKED}"
            path.write_bytes(gzip.compress(_neutral(trace.read_bytes()), 9, mtime=0))
            print(f"{path.name}: {path.stat().st_size:,} bytes")
    return 0


def _answer(request: CompareRequest) -> str:
    """Waits for the answers; returns why one failed, "" if none did."""
    engine = Engine()
    try:
        waiting = set(engine.compare(request))
        while waiting:
            for event in engine.events():
                if isinstance(event, RunFailed):
                    return event.message
                if isinstance(event, RunFinished):
                    waiting.discard(event.run_id)
            time.sleep(0.05)
    finally:
        engine.close()
    return ""


def _neutral(trace: bytes) -> bytes:
    """Returns a trace whose header names the operating system without its build."""
    line, _, rest = trace.partition(b"\n")
    header = json.loads(line)
    header["versions"]["platform"] = platform.system()
    return json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" + rest


if __name__ == "__main__":
    sys.exit(main())
