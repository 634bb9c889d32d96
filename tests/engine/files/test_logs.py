"""What goes wrong inside is for the log file, and the terminal is the user's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMMAND = """
from engine.files.logs import log_to_file
log_to_file()
import logging
import huggingface_hub.file_download
logging.getLogger("huggingface_hub.utils._http").warning("Retrying in 8s [Retry 5/5].")
"""


def test_the_client_of_the_hub_writes_nothing_to_the_terminal(home: Path) -> None:
    """It has a handler of its own, which is there from its import on."""
    settings = {name: value for name, value in os.environ.items() if name != "HF_HUB_VERBOSITY"}
    ended = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, env=settings, check=True)
    assert ended.stderr == ended.stdout == ""
