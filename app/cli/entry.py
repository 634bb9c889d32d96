"""Entry point of the command `draftlight`: parses its arguments and runs the window or a command."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from app.cli import bench_options, chat_options, chats_options, cluster, export, models, prove, rejudge, self_test, train, window
from app.cli.output import guard_terminals
from app.cli.shared_options import INTERRUPTED, CommandModule, add_commands, add_models
from engine.files.logs import log_path, log_to_file
from engine.machine.provenance import version
from engine.values.errors import DraftlightError

USAGE_ERROR = 2
BROKEN_PIPE = 141
_log = logging.getLogger(__name__)


COMMANDS: dict[str, CommandModule] = {
    "chat": chat_options,
    "chats": chats_options,
    "prove": prove,
    "bench": bench_options,
    "train-drafter": train,
    "export": export,
    "replay": window,
    "rejudge": rejudge,
    "models": models,
    "cluster": cluster,
    "self-test": self_test,
}
"""The commands, in the order of the help."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status. No traceback reaches the user: defects go to the log."""
    guard_terminals()
    words = list(sys.argv[1:] if arguments is None else arguments)
    parsed = make_parser().parse_args(words)
    parsed.words = words
    log_to_file()
    command: Callable[[argparse.Namespace], int] = parsed.command
    try:
        status = command(parsed)
        sys.stdout.flush()
        return status
    except DraftlightError as error:
        print(f"draftlight: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has gone. Buffered output must not fail again when Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        _log.exception("The command failed")
        print(f"draftlight: something went wrong ({type(error).__name__}). Details are in {log_path()}.", file=sys.stderr)
        return 1


class _Parser(argparse.ArgumentParser):
    """Reports errors in one line and exits with status 2."""

    def error(self, message: str) -> NoReturn:
        """Replaces argparse's multi-line usage by one line that points to --help."""
        self.exit(USAGE_ERROR, f"{self.prog}: {message} (see {self.prog} --help)\n")


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the whole command line."""
    parser = _Parser(
        prog="draftlight",
        description="Chat with a local language model and watch speculative decoding as it happens. "
        "Without a command, the window opens.",
        epilog="`draftlight COMMAND --help` explains a command. Data is in the platform's data folder or $DRAFTLIGHT_HOME.",
    )
    parser.add_argument("--version", action="version", version=f"draftlight {version()}")
    parser.set_defaults(command=window.open_window)
    add_models(parser, None)
    add_commands(parser, COMMANDS, "command", required=False)
    return parser
