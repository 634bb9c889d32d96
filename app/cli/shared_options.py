"""Options used by several commands: models, numbers, lists and files; and the construction of requests from options."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from app.cli.option import Option, option
from engine.cluster.hosts import SHARDINGS, Cluster, read_hosts
from engine.files.hub import require_drafter
from engine.lens.shared_wording import BUDGET, CHAIN
from engine.types import KV_BITS, RANGES, DecodingOptions, option_names
from engine.values.drafter_kinds import BY_PATH, DRAFTERS
from engine.values.errors import DraftlightError

INTERRUPTED = 130
"""The exit status after an interruption by the user, as in shells."""
Value = TypeVar("Value")


ANYWAY = option("--anyway", action="store_true", help="load models even if they will probably exhaust the memory")
"""Commands with this option call `EngineLike.ignore_memory`."""


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


SEED = option("--seed", type=number("seed"), default=0, help="random seed (default: %(default)s)")
"""For commands that use the same random numbers every time."""
KV_BITS_OPTION = option(
    "--kv-bits",
    type=int,
    choices=KV_BITS,
    help="bits of the keys and values that target and draft model keep (default: full precision)",
)

TREE_OPTIONS = (
    option(
        "--budget",
        type=number("budget"),
        metavar="N|auto|chain",
        help=f"{BUDGET[0].lower()}{BUDGET[1:-1]} (default: auto)",
    ),
    option(
        "--width",
        type=number("width"),
        metavar="N",
        help=f"most tokens that a tree proposes for one position, {RANGES['width'].short} (default: {DecodingOptions().width})",
    ),
)
FILTER_OPTIONS = (
    option(
        "--top-p",
        type=number("top_p"),
        help="nucleus sampling; 1 turns it off (default: as the model recommends, else off)",
    ),
    option(
        "--top-k",
        type=number("top_k"),
        help="keep only the k most likely tokens; 0 turns it off (default: as the model recommends, else off)",
    ),
    option(
        "--min-p",
        type=number("min_p"),
        help="drop tokens below this share of the most likely one; 0 turns it off (default: as the model recommends, else off)",
    ),
    option(
        "--repetition-penalty",
        type=number("repetition_penalty"),
        help="above 1 makes recent tokens less likely; 1 turns it off (default: as the model recommends, else off)",
    ),
)


def target(default: str | None = argparse.SUPPRESS) -> Option:
    """Returns the option `--target`. If it is also given before the command's name, that value is kept by default."""
    return option("--target", metavar="MODEL", default=default, help="builtin, a model folder or a .gguf file")


def models(default: str | None = argparse.SUPPRESS) -> tuple[Option, ...]:
    """Returns the options `--target` and `--drafter`, see `target`."""
    titles = [kind.title if kind.title[:2].isupper() else kind.title.lower() for kind in BY_PATH.values()]
    meaning = f"{', '.join(DRAFTERS)}, or the path of a {', '.join(titles[:-1])} or {titles[-1]}"
    return target(default), option("--drafter", metavar="DRAFTER", type=drafter, default=default, help=meaning)


def hosts(required: bool = False) -> tuple[Option, ...]:
    """Returns the options `--hosts` and `--sharding`, see `hosts_of`. In a subcommand, values of the outer command are kept."""
    return (
        option(
            "--hosts",
            metavar="FILE",
            type=Path,
            required=required,
            default=argparse.SUPPRESS,
            help="split the target over the machines in this file, in the format of mlx.launch",
        ),
        option(
            "--sharding",
            choices=SHARDINGS,
            default=argparse.SUPPRESS,
            help="by tensors (default) or as a pipeline, unless the file of hosts says it",
        ),
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
