"""Command-line options as data, and their registration with a parser."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Option:
    """One argument, as for `argparse.ArgumentParser.add_argument`."""

    names: tuple[str, ...]
    details: Mapping[str, Any]


@dataclass(frozen=True)
class OneOf:
    """Mutually exclusive options."""

    options: tuple[Option, ...]


@dataclass(frozen=True)
class Group:
    """Options under a heading of their own."""

    title: str
    entries: tuple[Option | OneOf, ...]


@dataclass(frozen=True)
class Epilog:
    """Text below all options in the help."""

    text: str


class CommandModule(Protocol):
    """A module of options: a command's help texts, its options, and the function that runs it. Slow imports happen only in `run`,
    so that help is fast."""

    HELP: str
    DESCRIPTION: str

    def options(self) -> Entries:
        """Returns the options of the command."""

    def run(self, arguments: argparse.Namespace, /) -> int:
        """Runs the command and returns the exit status."""


@dataclass(frozen=True)
class Commands:
    """A choice of commands. The parsed arguments hold the chosen command's run function under the name in `runner`, and its
    parser's usage error function under `error`."""

    modules: Mapping[str, CommandModule]
    runner: str
    required: bool = True


@dataclass(frozen=True)
class Action:
    """A subcommand with its own options; the parsed arguments hold its name under `action`."""

    name: str
    help: str
    entries: tuple[Entry, ...] = ()
    description: str | None = None


Entry = Option | OneOf | Group | Epilog | Commands
Entries = Sequence[Entry | Action]


def option(*names: str, **details: Any) -> Option:
    """Returns an option, with the arguments of `argparse.ArgumentParser.add_argument`."""
    return Option(names, details)


def add(parser: argparse.ArgumentParser, entries: Entries) -> None:
    """Adds these options to a parser."""
    actions = [entry for entry in entries if isinstance(entry, Action)]
    if actions:
        choices = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
        for action in actions:
            add(choices.add_parser(action.name, help=action.help, description=action.description), action.entries)
    for entry in entries:
        match entry:
            case Epilog(text):
                parser.epilog = text
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
            exclusive = container.add_mutually_exclusive_group()
            for choice in options:
                _add_to(exclusive, choice)
        case Group(title, entries):
            group = container.add_argument_group(title)
            for member in entries:
                _add_to(group, member)
