"""Measures the memory that loading a target takes, and whether changing to another one frees it.

`make bench-loading ARGS="MODEL MODEL ..."`: loads one target after the other as the engine does and prints what the process has
in memory, beside what the headers of the model's files had announced.
"""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path

from engine.files.memory import MemoryNeed
from engine.runtime.mlx_backend import MlxBackend
from engine.serving.model_slots import ModelSlots
from engine.types import Event, LoadFailed
from engine.values.wording import size


class Watched(MlxBackend):
    """Notes what each model announces."""

    announced: MemoryNeed | None = None

    def load(self, name, progress, make_room=None):  # type: ignore[no-untyped-def]
        def note(need: MemoryNeed) -> None:
            self.announced = need
            if make_room is not None:
                make_room(need)

        return super().load(name, progress, note)


def resident() -> int:
    """Bytes of the process in memory: now on Linux, at most so far elsewhere."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["builtin"])
    models = parser.parse_args().models
    backend = Watched()

    def show(event: Event) -> None:
        if isinstance(event, LoadFailed):
            print(event.message)

    slots = ModelSlots(backend, show, lambda: None)
    print(f"{'before':40} {size(resident()):>10} resident")
    for name in [*models, models[0]] if len(models) > 1 else models:
        slots.target(name)
        need = backend.announced
        announced = "" if need is None else f", weights announced {size(need.weights)}, with a cache {size(need.total)}"
        print(f"{Path(name).name:40} {size(resident()):>10} resident, {size(backend.held_memory())} held by MLX{announced}")


if __name__ == "__main__":
    main()
