"""Options of the command line as data, and how a parser gets them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Option:
    """One argument: what `argparse.ArgumentParser.add_argument` takes."""

    names: tuple[str, ...]
    details: Mapping[str, Any]


@dataclass(frozen=True)
class OneOf:
    """Options of which only one can be given."""

    options: tuple[Option, ...]


@dataclass(frozen=True)
class Group:
    """Options under a title of their own."""

    title: str
    entries: tuple[Option | OneOf, ...]


@dataclass(frozen=True)
class Epilog:
    """What stands below all options in the help."""

    words: str


class CommandModule(Protocol):
    """A module of options: what help says of its command, its options, and what runs it. It imports whatever is slow to import
    only when it runs, so that help comes at once."""

    HELP: str
    DESCRIPTION: str

    def options(self) -> Entries:
        """What the command takes."""

    def run(self, arguments: argparse.Namespace, /) -> int:
        """Runs the command; returns the exit status."""


@dataclass(frozen=True)
class Commands:
    """A choice between commands. What runs the chosen one is found under the name `runner`, what ends it as a usage error under
    `error`."""

    modules: Mapping[str, CommandModule]
    runner: str
    required: bool = True


@dataclass(frozen=True)
class Action:
    """A command within a command, with its own options; its name is found under `action`."""

    name: str
    help: str
    entries: tuple[Entry, ...] = ()
    description: str | None = None


Entry = Option | OneOf | Group | Epilog | Commands
Entries = Sequence[Entry | Action]


def option(*names: str, **details: Any) -> Option:
    """An option, written as it is for `argparse.ArgumentParser.add_argument`."""
    return Option(names, details)


def add(parser: argparse.ArgumentParser, entries: Entries) -> None:
    """Gives a parser these options."""
    actions = [entry for entry in entries if isinstance(entry, Action)]
    if actions:
        choices = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
        for action in actions:
            add(choices.add_parser(action.name, help=action.help, description=action.description), action.entries)
    for entry in entries:
        match entry:
            case Epilog(words):
                parser.epilog = words
            case Commands(modules, runner, required):
                commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=required)
                for name, module in modules.items():
                    command = commands.add_parser(name, help=module.HELP, description=module.DESCRIPTION)
                    add(command, module.options())
                    command.set_defaults(**{runner: module.run, "error": command.error})
            case Option() | OneOf() | Group():
                _add_to(parser, entry)


def _add_to(container: argparse._ActionsContainer, entry: Option | OneOf | Group) -> None:
    match entry:
        case Option(names, details):
            container.add_argument(*names, **details)
        case OneOf(options):
            only = container.add_mutually_exclusive_group()
            for choice in options:
                _add_to(only, choice)
        case Group(title, entries):
            group = container.add_argument_group(title)
            for inside in entries:
                _add_to(group, inside)
