"""The actions and options of `draftlight chats`."""

from __future__ import annotations

import argparse
from pathlib import Path

from app.cli.shared_options import add_actions

HELP = "list, show, search, export, import and delete conversations"
DESCRIPTION = (
    "List, show, search, export, import and delete conversations. They are kept in the data folder, where only you can read "
    "them; nothing is sent anywhere."
)


def _add_json(action: argparse.ArgumentParser) -> None:
    action.add_argument("--json", dest="as_json", action="store_true", help="print JSON instead")


def _add_conversations(action: argparse.ArgumentParser) -> None:
    action.add_argument("conversations", metavar="ID", type=int, nargs="+")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the actions, each with its options, to the command's parser."""
    actions = add_actions(parser)
    action = actions.add_parser("list", help="list conversations, pinned ones first, then the newest")
    action.add_argument("--deleted", action="store_true", help="list those that can be restored instead")
    action.add_argument("--folder", metavar="NAME", help="only those in this folder")
    action.add_argument("--limit", type=int, default=-1, metavar="N", help="at most N")
    _add_json(action)
    action = actions.add_parser("show", help="print a conversation as Markdown")
    action.add_argument("conversation", metavar="ID", type=int)
    _add_json(action)
    action = actions.add_parser("search", help="find conversations by words in titles and messages")
    action.add_argument("query", metavar="WORD", nargs="+", help="all of them have to occur; the beginning of a word is enough")
    _add_json(action)
    action = actions.add_parser("export", help="export conversations as JSON or Markdown")
    action.add_argument("conversations", metavar="ID", type=int, nargs="*", help="default: all")
    action.add_argument("--format", choices=("json", "markdown"), help="default: from the extension of --output, else json")
    action.add_argument("--output", metavar="PATH", type=Path, help="a file (default: standard output)")
    action = actions.add_parser("import", help="import exports of Draftlight, ChatGPT and LM Studio")
    action.add_argument("files", metavar="FILE", type=Path, nargs="+", help="a JSON file, or the archive of a ChatGPT export")
    action = actions.add_parser("delete", help="delete conversations; for 30 days, restore brings them back")
    action.add_argument("--now", action="store_true", help="delete them for good at once, with their traces")
    _add_conversations(action)
    action = actions.add_parser("restore", help="bring deleted conversations back")
    _add_conversations(action)
    action = actions.add_parser("traces", help="show how much the traces of answers take, and choose how long they are kept")
    kept = action.add_mutually_exclusive_group()
    kept.add_argument("--keep-days", type=float, metavar="N", help="delete traces after N days; messages stay")
    kept.add_argument("--keep-megabytes", type=float, metavar="N", help="delete the oldest traces beyond N MB; messages stay")
    kept.add_argument("--keep-all", action="store_true", help="keep all traces")


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
