"""Commands as modules, and the options that several use: models, numbers, lists, files; makes requests from parsed options."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from engine.cluster.hosts import SHARDINGS, Cluster, read_hosts
from engine.files.hub import require_drafter
from engine.lens.shared_wording import BUDGET, CHAIN
from engine.types import KV_BITS, RANGES, DecodingOptions, option_names
from engine.values.drafter_kinds import BY_PATH, DRAFTERS
from engine.values.errors import DraftlightError

INTERRUPTED = 130
"""The exit status after an interruption by the user, as in shells."""
Value = TypeVar("Value")


class CommandModule(Protocol):
    """A module with a command: its help texts, its options, and the function that runs it. What is slow to import is imported
    only in `run`, so that help is fast."""

    HELP: str
    DESCRIPTION: str

    def add_options(self, parser: argparse.ArgumentParser, /) -> None:
        """Adds the options of the command to its parser."""

    def run(self, arguments: argparse.Namespace, /) -> int:
        """Runs the command and returns the exit status."""


def add_commands(parser: argparse.ArgumentParser, modules: Mapping[str, CommandModule], runner: str, required: bool) -> None:
    """Adds a choice of commands. The parsed arguments hold the chosen command's run function under the name in `runner`, and its
    parser's usage error function under `error`."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=required)
    for name, module in modules.items():
        command = commands.add_parser(name, help=module.HELP, description=module.DESCRIPTION)
        module.add_options(command)
        command.set_defaults(**{runner: module.run, "error": command.error})


def add_actions(parser: argparse.ArgumentParser) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    """Adds a choice of actions, whose parsers the result makes; the parsed arguments hold the name of the chosen one under
    `action`."""
    return parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)


def number(name: str) -> Callable[[str], float | str]:
    """Returns the parser for a numeric option of `DecodingOptions`, which also accepts its keywords."""
    allowed = RANGES[name]

    def read(text: str) -> float | str:
        """Parses a number in the option's range, or a keyword."""
        if text in allowed.keywords:
            return text
        try:
            return allowed.read(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{name} must be {allowed.words}, not {text!r}") from None

    return read


gamma = number("gamma")


def add_anyway(parser: argparse.ArgumentParser) -> None:
    """Adds `--anyway`; commands with it call `EngineLike.ignore_memory`."""
    parser.add_argument("--anyway", action="store_true", help="load models even if they will probably exhaust the memory")


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Adds `--seed`, for commands that use the same random numbers every time."""
    parser.add_argument("--seed", type=number("seed"), default=0, help="random seed (default: %(default)s)")


def add_kv_bits(parser: argparse.ArgumentParser) -> None:
    """Adds `--kv-bits`."""
    parser.add_argument(
        "--kv-bits",
        type=int,
        choices=KV_BITS,
        help="bits of the keys and values that target and draft model keep (default: full precision)",
    )


def add_tree(parser: argparse.ArgumentParser) -> None:
    """Adds the options of trees."""
    parser.add_argument(
        "--budget",
        type=number("budget"),
        metavar="N|auto|chain",
        help=f"{BUDGET[0].lower()}{BUDGET[1:-1]} (default: auto)",
    )
    parser.add_argument(
        "--width",
        type=number("width"),
        metavar="N",
        help=f"most tokens that a tree proposes for one position, {RANGES['width'].short} (default: {DecodingOptions().width})",
    )


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Adds the options that filter or penalise tokens."""
    for name, effect in (
        ("top_p", "nucleus sampling; 1 turns it off"),
        ("top_k", "keep only the k most likely tokens; 0 turns it off"),
        ("min_p", "drop tokens below this share of the most likely one; 0 turns it off"),
        ("repetition_penalty", "above 1 makes recent tokens less likely; 1 turns it off"),
    ):
        words = f"{effect} (default: as the model recommends, else off)"
        parser.add_argument(f"--{name.replace('_', '-')}", type=number(name), help=words)


def add_target(parser: argparse.ArgumentParser, default: str | None = argparse.SUPPRESS) -> None:
    """Adds `--target`. If it is also given before the command's name, that value is kept by default."""
    parser.add_argument("--target", metavar="MODEL", default=default, help="builtin, a model folder or a .gguf file")


def add_models(parser: argparse.ArgumentParser, default: str | None = argparse.SUPPRESS) -> None:
    """Adds `--target` and `--drafter`, see `add_target`."""
    titles = [kind.title if kind.title[:2].isupper() else kind.title.lower() for kind in BY_PATH.values()]
    meaning = f"{', '.join(DRAFTERS)}, or the path of a {', '.join(titles[:-1])} or {titles[-1]}"
    add_target(parser, default)
    parser.add_argument("--drafter", metavar="DRAFTER", type=drafter, default=default, help=meaning)


def add_hosts(parser: argparse.ArgumentParser, required: bool = False) -> None:
    """Adds `--hosts` and `--sharding`, see `hosts_of`. In a subcommand, values of the outer command are kept."""
    parser.add_argument(
        "--hosts",
        metavar="FILE",
        type=Path,
        required=required,
        default=argparse.SUPPRESS,
        help="split the target over the machines in this file, in the format of mlx.launch",
    )
    parser.add_argument(
        "--sharding",
        choices=SHARDINGS,
        default=argparse.SUPPRESS,
        help="by tensors (default) or as a pipeline, unless the file of hosts says it",
    )


def hosts_of(arguments: argparse.Namespace) -> Cluster | None:
    """Returns the machines to split the target over; None for this machine alone. Raises DraftlightError."""
    if getattr(arguments, "hosts", None) is None:
        return None
    cluster = read_hosts(arguments.hosts)
    return replace(cluster, sharding=getattr(arguments, "sharding", cluster.sharding))


def drafter(text: str) -> str:
    """Validates the name of a drafter, so that a typo is reported before any model is loaded."""
    try:
        require_drafter(text)
    except DraftlightError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def comma_separated(convert: Callable[[str], Value], wanted: str) -> Callable[[str], tuple[Value, ...]]:
    """Returns the parser for a comma-separated option; `wanted` names its values in the plural."""

    def values(text: str) -> tuple[Value, ...]:
        """Parses each value between commas."""
        try:
            return tuple(convert(part.strip()) for part in text.split(","))
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be comma-separated {wanted}, not {text!r}") from None

    return values


def output_file(text: str) -> Path:
    """Validates an output path up front, since hours of work would be lost if it could not be written."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"cannot write {path.name}: the folder {path.parent} does not exist")
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path} cannot be written")
    return path


def with_arguments(options: DecodingOptions, arguments: argparse.Namespace) -> DecodingOptions:
    """Returns the options with the given arguments applied. Invalid values end the command as a usage error."""
    return checked(arguments, lambda: options.replace(**_given(option_names(), arguments)))


def request_of(kind: Callable[..., Value], arguments: argparse.Namespace, **others: Any) -> Value:
    """Returns a dataclass built from the arguments named like its fields, and `others`; the rest keep their defaults. Invalid
    values end the command as a usage error."""
    names = (field.name for field in fields(kind))  # type: ignore[arg-type]
    return checked(arguments, lambda: kind(**_given(names, arguments, **others)))


def _given(names: Iterable[str], arguments: argparse.Namespace, **others: Any) -> dict[str, Any]:
    """Returns the arguments with these names, overridden by `others`, without those that are None, which were not given. A budget
    of "chain" is None in the options."""
    found = {name: getattr(arguments, name, None) for name in names} | others
    given = {name: value for name, value in found.items() if value is not None}
    return given | ({"budget": None} if given.get("budget") == CHAIN else {})


def checked(arguments: argparse.Namespace, make: Callable[[], Value]) -> Value:
    """Returns the result of `make`; its ValueError ends the command as a usage error."""
    try:
        return make()
    except ValueError as error:
        arguments.error(str(error))
        raise  # never reached
