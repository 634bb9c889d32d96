"""Error reporting: a log file in the data folder for developers, and one sentence for the user."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
from pathlib import Path

from engine.files.paths import data_folder
from engine.values.errors import DraftlightError

_BYTES = 1_000_000
LESS_MEMORY = "Close other programs, or choose a smaller model."
_OF_MEMORY = ("[malloc", "[metal::malloc]", "Insufficient Memory")
"""Parts of MLX's messages when memory runs out: in an allocation, or on the GPU at the start of a forward pass."""
_log = logging.getLogger(__name__)


def log_path() -> Path:
    """Returns the path of the log file. It exists once `log_to_file` was called and something was logged."""
    return data_folder() / "draftlight.log"


class _LogFile(logging.handlers.RotatingFileHandler):
    """A log file that ignores failures to write. The user already sees a message, and must not get a traceback instead."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Drops a record that could not be written; `logging` would print a traceback."""
        return


def log_to_file() -> None:
    """Sends warnings and errors of all modules to the log file instead of the terminal. A second call does nothing."""
    root = logging.getLogger()
    if any(isinstance(handler, _LogFile) for handler in root.handlers):
        return
    with contextlib.suppress(OSError):
        log_path().parent.mkdir(parents=True, exist_ok=True)
    handler = _LogFile(log_path(), maxBytes=_BYTES, backupCount=1, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s (%(threadName)s): %(message)s"))
    handler.setLevel(logging.WARNING)
    root.addHandler(handler)
    os.environ.setdefault("HF_HUB_VERBOSITY", "critical")  # its own handler writes to the terminal


def lacks_memory(said: str) -> bool:
    """Returns whether a message of MLX says that memory ran out."""
    return any(sign in said for sign in _OF_MEMORY)


def explain(error: BaseException, doing: str) -> str:
    """Returns a sentence for the user about an error that occurred while `doing` something ("reading the model").

    A DraftlightError has its own message. Any other error is a defect, and its traceback goes to the log. This includes
    ValueError: options have been checked before, and MLX raises it for shapes that do not match.
    """
    if isinstance(error, DraftlightError) and str(error):
        return str(error)
    _log.error("Failed while %s", doing, exc_info=error)
    if isinstance(error, MemoryError) or lacks_memory(str(error)):
        return f"Out of memory while {doing}. {LESS_MEMORY}"
    kind = type(error).__name__
    detail = f"{kind}: {error}" if str(error) else kind
    return f"Something went wrong while {doing} ({detail}). Details are in {log_path()}."
