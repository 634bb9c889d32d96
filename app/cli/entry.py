"""The command `draftlight`: the window, and the same engine without one."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from app.cli import bench_options, train_options
from app.cli import export as cli_export
from engine.drafter_kinds import BY_PATH, DRAFTERS, NO_DRAFTER, default_drafter
from engine.errors import DraftlightError
from engine.files.logs import log_path, log_to_file
from engine.provenance import version
from engine.trace import read
from engine.types import MAX_GAMMA, PLANTS, RULES, DecodingOptions, Message, ProveRequest, Request

USAGE_ERROR = 2
BROKEN_PIPE = 141
INTERRUPTED = 130
_log = logging.getLogger(__name__)
_DEFAULTS = DecodingOptions()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status. No traceback reaches the user: defects go to the log."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parsed = _parser().parse_args(words)
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
        # Whoever read has gone. What is still buffered must not fail again when Python flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        _log.exception("The command failed")
        print(f"draftlight: something went wrong ({type(error).__name__}). Details are in {log_path()}.", file=sys.stderr)
        return 1


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line and ends with status 2."""

    def error(self, message: str) -> NoReturn:
        """Replaces argparse's several lines of usage by one line that points to --help."""
        self.exit(USAGE_ERROR, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="draftlight",
        description="Chat with a local language model and watch speculative decoding as it happens. "
        "Without a command, the window opens.",
        epilog="`draftlight COMMAND --help` explains a command. Data is in the platform's data folder or $DRAFTLIGHT_HOME.",
    )
    parser.add_argument("--version", action="version", version=f"draftlight {version()}")
    _add_models(parser, None)
    parser.set_defaults(command=_window)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_chat(commands.add_parser("chat", help="stream one answer to the terminal", description=_window_less("chat")))
    _add_prove(
        commands.add_parser("prove", help="check that decoding with a pair of models is exact", description=_window_less("prove"))
    )
    _add_bench(
        commands.add_parser("bench", help="measure drafters, rules and draft lengths", description=bench_options.DESCRIPTION)
    )
    _add_train(commands.add_parser("train-drafter", help=train_options.HELP, description=train_options.DESCRIPTION))
    _add_export(commands.add_parser("export", help=cli_export.HELP, description=cli_export.DESCRIPTION))
    _add_replay(
        commands.add_parser("replay", help="show a trace in the window, without a model", description=_window_less("replay"))
    )
    _add_models_command(commands.add_parser("models", help="list, download, check and remove models"))
    _add_self_test(
        commands.add_parser(
            "self-test", help="load the model, decode, draw the window and quit", description=_window_less("self-test")
        )
    )
    return parser


def _window_less(command: str) -> str:
    return {
        "chat": "Stream one answer. On a terminal, accepted tokens are tinted, corrections underlined, bonus tokens italic and "
        "rejected proposals struck through where they were proposed. Elsewhere, or if NO_COLOR is set, the answer is plain "
        "text. A summary line goes to standard error. Ctrl-C stops the answer.",
        "prove": "Check that decoding with these models is exact. Compares the noise with known answers, the tokens each rule "
        "emits with the target's own probabilities, acceptance rates with their closed forms, and the text of one seed across "
        "drafters and draft lengths. Takes a few minutes. The exit status is 0 if every check passes, 1 if any fails, and 3 "
        "if a planted defect was not detected.",
        "replay": "Open a trace in the window and play it, step through it or scrub it, with its text, rounds and charts. "
        "No model is loaded.",
        "self-test": "Load the built-in model, decode a few tokens, draw the window, and quit. The exit status is 0 if "
        "everything works.",
    }[command]


def _add_models(parser: argparse.ArgumentParser, default: str | None) -> None:
    parser.add_argument("--target", metavar="MODEL", default=default, help="builtin, a model folder or a .gguf file")
    parser.add_argument(
        "--drafter",
        metavar="DRAFTER",
        default=default,
        help=f"{', '.join(DRAFTERS)}, or the path of a {' or '.join(kind.title.lower() for kind in BY_PATH.values())}",
    )


def _add_chat(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", metavar="PROMPT", help="the prompt, or - to read it from standard input")
    _add_models(parser, argparse.SUPPRESS)
    parser.add_argument("--system", metavar="TEXT", help="system prompt")
    parser.add_argument("--rule", choices=RULES, default=_DEFAULTS.rule, help="how proposals are judged (default: %(default)s)")
    parser.add_argument(
        "--gamma",
        type=_gamma,
        default="auto",
        help=f"proposals per round, 1 to {MAX_GAMMA} or auto (default: %(default)s)",
    )
    parser.add_argument(
        "--temperature", type=float, default=_DEFAULTS.temperature, help="0 takes the most likely token (default: %(default)s)"
    )
    parser.add_argument(
        "--top-p", type=float, default=_DEFAULTS.top_p, help="nucleus sampling; 1 turns it off (default: %(default)s)"
    )
    parser.add_argument(
        "--top-k",
        type=int,
        default=_DEFAULTS.top_k,
        help="keep only the k most likely tokens; 0 turns it off (default: %(default)s)",
    )
    parser.add_argument(
        "--min-p",
        type=float,
        default=_DEFAULTS.min_p,
        help="drop tokens below this share of the most likely one; 0 turns it off (default: %(default)s)",
    )
    parser.add_argument(
        "--repetition-penalty",
        type=float,
        default=_DEFAULTS.repetition_penalty,
        help="above 1 makes recent tokens less likely; 1 turns it off (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, help="random seed; the same seed repeats an answer (default: a new one)")
    parser.add_argument(
        "--max-tokens", type=int, default=_DEFAULTS.max_tokens, help="maximum tokens in the answer (default: %(default)s)"
    )
    parser.add_argument(
        "--stop", metavar="TEXT", action="append", default=[], help="stop sequence: the answer ends before it; can be repeated"
    )
    parser.add_argument("--no-ghosts", dest="ghosts", action="store_false", help="hide rejected and unjudged proposals")
    parser.add_argument("--json", dest="json_lines", action="store_true", help="print the answer's trace as JSON Lines instead")
    parser.set_defaults(command=_chat, error=parser.error)


def _add_prove(parser: argparse.ArgumentParser) -> None:
    _add_models(parser, argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument(
        "--quick", dest="effort", action="store_const", const="quick", help="smaller samples; takes about a minute"
    )
    amount.add_argument(
        "--thorough", dest="effort", action="store_const", const="thorough", help="larger samples; takes about half an hour"
    )
    parser.add_argument(
        "--json", dest="json_path", metavar="FILE", type=Path, help="also write the full report to this file, as JSON"
    )
    parser.add_argument("--plant", choices=PLANTS, help="plant this defect on purpose, to see that the checks detect it")
    parser.set_defaults(command=_prove, error=parser.error, effort="default")


def _add_bench(parser: argparse.ArgumentParser) -> None:
    bench_options.add_arguments(parser)
    parser.set_defaults(command=_bench, error=parser.error)


def _add_train(parser: argparse.ArgumentParser) -> None:
    train_options.add_arguments(parser)
    parser.set_defaults(command=_train, error=parser.error)


def _add_export(parser: argparse.ArgumentParser) -> None:
    cli_export.add_arguments(parser)
    parser.set_defaults(command=cli_export.run, error=parser.error)


def _add_replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="TRACE", type=Path, help="a trace (*.jsonl); an incomplete one works too")
    parser.set_defaults(command=_replay)


def _add_models_command(parser: argparse.ArgumentParser) -> None:
    parser.description = "List, download, check and remove models."
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    actions.add_parser("list", help="list the built-in target and the models in the models folder").set_defaults(
        command=_models_list
    )
    download = actions.add_parser("download", help="download the built-in target if it is missing")
    download.add_argument("name", metavar="MODEL", nargs="?", default="builtin")
    download.set_defaults(command=_models_download)
    check = actions.add_parser("check", help="check whether a model, and optionally a drafter for it, can be used")
    check.add_argument("name", metavar="MODEL", nargs="?", default="builtin")
    check.add_argument("--drafter", metavar="DRAFTER", default=NO_DRAFTER, help="also check that this drafter fits the model")
    check.set_defaults(command=_models_check)
    remove = actions.add_parser("remove", help="delete a model from the models folder")
    remove.add_argument("name", metavar="MODEL")
    remove.set_defaults(command=_models_remove)


def _add_self_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--screenshots", metavar="FOLDER", type=Path, help="save screenshots of the main states in this folder")
    parser.set_defaults(command=_self_test)


def _gamma(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'gamma must be a whole number from 1 to {MAX_GAMMA}, or "auto", not {text!r}') from None


def _window(arguments: argparse.Namespace) -> int:
    if importlib.util.find_spec("PySide6") is None:
        raise DraftlightError("The window needs PySide6, which is not installed. `draftlight chat` works without it.")
    from app.window.launch import run

    return run(arguments)


def _replay(arguments: argparse.Namespace) -> int:
    arguments.trace = read(arguments.path)
    return _window(arguments)


def _chat(arguments: argparse.Namespace) -> int:
    from app.cli.chat import chat

    prompt = _prompt(arguments.prompt)
    if not prompt.strip():
        arguments.error("the prompt is empty")
    try:
        options = DecodingOptions(
            rule=arguments.rule,
            temperature=arguments.temperature,
            top_p=arguments.top_p,
            top_k=arguments.top_k,
            min_p=arguments.min_p,
            repetition_penalty=arguments.repetition_penalty,
            seed=arguments.seed,
            gamma=arguments.gamma,
            max_tokens=arguments.max_tokens,
            stop=tuple(arguments.stop),
        )
    except ValueError as error:
        arguments.error(str(error))
    target = arguments.target or "builtin"
    system = (Message("system", arguments.system),) if arguments.system else ()
    request = Request(
        messages=(*system, Message("user", prompt)),
        options=options,
        target=target,
        drafter=arguments.drafter or default_drafter(target),
    )
    return chat(request, ghosts=arguments.ghosts, json_lines=arguments.json_lines)


def _prompt(argument: str) -> str:
    """The prompt as given, or all of standard input for "-"."""
    if argument != "-":
        return argument
    return sys.stdin.buffer.read().decode("utf-8", errors="replace")


def _prove(arguments: argparse.Namespace) -> int:
    from app.cli.prove import prove

    try:
        request = ProveRequest(
            target=arguments.target or "builtin",
            drafter=arguments.drafter,
            seed=arguments.seed,
            effort=arguments.effort,
            plant=arguments.plant,
        )
    except ValueError as error:
        arguments.error(str(error))
    json_path: Path | None = arguments.json_path
    if json_path is not None and not json_path.parent.is_dir():
        arguments.error(f"cannot write {json_path.name}: the folder {json_path.parent} does not exist")
    return prove(request, json_path)


def _bench(arguments: argparse.Namespace) -> int:
    from app.cli.bench import bench

    try:
        request = bench_options.request_of(arguments)
    except ValueError as error:
        arguments.error(str(error))
    return bench(request, arguments.json_path)


def _train(arguments: argparse.Namespace) -> int:
    from app.cli.train import train

    try:
        request = train_options.request_of(arguments, arguments.words)
    except ValueError as error:
        arguments.error(str(error))
    return train(request)


def _models_list(arguments: argparse.Namespace) -> int:
    from app.cli.models import show_models

    return show_models()


def _models_download(arguments: argparse.Namespace) -> int:
    from app.cli.models import download_model

    return download_model(arguments.name)


def _models_check(arguments: argparse.Namespace) -> int:
    from app.cli.models import check_model

    return check_model(arguments.name, arguments.drafter)


def _models_remove(arguments: argparse.Namespace) -> int:
    from app.cli.models import remove_model

    return remove_model(arguments.name)


def _self_test(arguments: argparse.Namespace) -> int:
    from app.cli.self_test import self_test

    return self_test(arguments.screenshots, default_drafter("builtin"))
