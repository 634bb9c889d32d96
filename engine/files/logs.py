"""What goes wrong inside, for those who mend it: a log file in the data folder, and one sentence for the user."""

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
"""What MLX's own errors say where memory runs out: when it is asked for, or on the GPU when a pass begins."""
_log = logging.getLogger(__name__)


def log_path() -> Path:
    """The log file; it exists once `log_to_file` was called and something was logged."""
    return data_folder() / "draftlight.log"


class _LogFile(logging.handlers.RotatingFileHandler):
    """Keeps quiet where the file cannot be written: the user was told in a sentence and must not get a traceback instead."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Drops a record that could not be written, where `logging` would print a traceback."""
        return


def log_to_file() -> None:
    """Send warnings and errors of every module to the log file, and none of them to the terminal. Once is enough."""
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
    """Whether MLX has said that memory ran out."""
    return any(sign in said for sign in _OF_MEMORY)


def explain(error: BaseException, doing: str) -> str:
    """A sentence for the user about an error met while `doing` something ("reading the model").

    Errors that a user can cause carry their own sentence. Anything else is a defect: its traceback goes to the log. So is a
    ValueError here, since options are checked where they are made, and MLX raises it for shapes that do not fit.
    """
    if isinstance(error, DraftlightError) and str(error):
        return str(error)
    _log.error("Failed while %s", doing, exc_info=error)
    if isinstance(error, MemoryError) or lacks_memory(str(error)):
        return f"Out of memory while {doing}. {LESS_MEMORY}"
    kind = type(error).__name__
    detail = f"{kind}: {error}" if str(error) else kind
    return f"Something went wrong while {doing} ({detail}). Details are in {log_path()}."
