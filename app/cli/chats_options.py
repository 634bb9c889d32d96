"""The actions and options of `draftlight chats`."""

from __future__ import annotations

import argparse
from pathlib import Path

from app.cli.option import Action, Entries, OneOf, option

HELP = "list, show, search, export, import and delete conversations"
DESCRIPTION = (
    "List, show, search, export, import and delete conversations. They are kept in the data folder, where only you can read "
    "them; nothing is sent anywhere."
)


_AS_JSON = option("--json", dest="as_json", action="store_true", help="print JSON instead")
_SEVERAL = option("conversations", metavar="ID", type=int, nargs="+")
_KEPT = OneOf(
    (
        option("--keep-days", type=float, metavar="N", help="delete traces after N days; messages stay"),
        option("--keep-megabytes", type=float, metavar="N", help="delete the oldest traces beyond N MB; messages stay"),
        option("--keep-all", action="store_true", help="keep all traces"),
    )
)


def options() -> Entries:
    """Returns the actions, each with its options."""
    return (
        Action(
            "list",
            "list conversations, pinned ones first, then the newest",
            (
                option("--deleted", action="store_true", help="list those that can be restored instead"),
                option("--folder", metavar="NAME", help="only those in this folder"),
                option("--limit", type=int, default=-1, metavar="N", help="at most N"),
                _AS_JSON,
            ),
        ),
        Action("show", "print a conversation as Markdown", (option("conversation", metavar="ID", type=int), _AS_JSON)),
        Action(
            "search",
            "find conversations by words in titles and messages",
            (
                option("query", metavar="WORD", nargs="+", help="all of them have to occur; the beginning of a word is enough"),
                _AS_JSON,
            ),
        ),
        Action(
            "export",
            "export conversations as JSON or Markdown",
            (
                option("conversations", metavar="ID", type=int, nargs="*", help="default: all"),
                option("--format", choices=("json", "markdown"), help="default: from the extension of --output, else json"),
                option("--output", metavar="PATH", type=Path, help="a file (default: standard output)"),
            ),
        ),
        Action(
            "import",
            "import exports of Draftlight, ChatGPT and LM Studio",
            (option("files", metavar="FILE", type=Path, nargs="+", help="a JSON file, or the archive of a ChatGPT export"),),
        ),
        Action(
            "delete",
            "delete conversations; for 30 days, restore brings them back",
            (option("--now", action="store_true", help="delete them for good at once, with their traces"), _SEVERAL),
        ),
        Action("restore", "bring deleted conversations back", (_SEVERAL,)),
        Action("traces", "show how much the traces of answers take, and choose how long they are kept", (_KEPT,)),
    )


_MOST = 1e9
"""Maximum days or megabytes; effectively no limit."""


def run(arguments: argparse.Namespace) -> int:
    """Runs the chosen action."""
    from app.cli import chats

    for unit in ("days", "megabytes"):
        if not 0 <= (getattr(arguments, f"keep_{unit}", None) or 0) <= _MOST:  # also rejects nan and infinity
            arguments.error(f"--keep-{unit} must be a number of {unit}, from 0 to a billion; use --keep-all for no limit")
    with chats.open_store() as store:
        return chats.ACTIONS[arguments.action](store, arguments)
