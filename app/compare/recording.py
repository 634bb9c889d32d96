"""The recorded result of a preset, made with the built-in models: the demonstration shows it before anything is loaded. No Qt.

`make demonstration` records it again.
"""

from __future__ import annotations

from pathlib import Path

from app.compare.comparison import LETTERS, Comparison, Setup
from app.compare.presets import Preset
from app.session.settings import Settings
from engine.files.foreign import text, whole
from engine.rounds.trace import ENDING, read
from engine.values.wording import amount

RECORDED = Path(__file__).resolve().parents[2] / "assets" / "demonstration"
"""The folder with the trace of each column, such as A.jsonl.gz."""
TARGET = Settings().target
"""The target of the recording."""


def recorded_setup(preset: Preset) -> Setup:
    """Returns the setup of the recording: that of a preset under the default settings."""
    return preset.make(Settings())


def recorded_comparison(preset: Preset) -> tuple[Comparison, str]:
    """Returns the recorded result of a preset, and the machine that recorded it: "Apple M2, 8 cores". Raises DraftlightError if a
    trace is missing or cannot be read."""
    setup = recorded_setup(preset)
    traces = [read(RECORDED / f"{letter}{ENDING}") for letter, _ in zip(LETTERS, setup.columns, strict=False)]
    hardware = traces[0].part("hardware")
    device, cores = text(hardware.get("device")), whole(hardware.get("cores"))
    machine = ", ".join(filter(None, (device, "" if cores is None else amount(cores, "core"))))
    return Comparison.recorded(setup, setup.requests(TARGET, Settings().options()), traces), machine
