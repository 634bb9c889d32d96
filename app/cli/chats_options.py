"""The actions of `draftlight chats`."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "list, show, search, export, import and delete conversations"
DESCRIPTION = (
    "List, show, search, export, import and delete conversations. They are kept in the data folder, where only you can read "
    "them; nothing is sent anywhere."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The actions, each with its options."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    listing = actions.add_parser("list", help="list conversations, pinned ones first, then the newest")
    listing.add_argument("--deleted", action="store_true", help="list those that can be restored instead")
    listing.add_argument("--folder", metavar="NAME", help="only those in this folder")
    listing.add_argument("--limit", type=int, default=-1, metavar="N", help="at most N")
    show = actions.add_parser("show", help="print a conversation as Markdown")
    show.add_argument("conversation", metavar="ID", type=int)
    search = actions.add_parser("search", help="find conversations by words in titles and messages")
    search.add_argument("query", metavar="WORD", nargs="+", help="all of them have to occur; the beginning of a word is enough")
    for action in (listing, show, search):
        action.add_argument("--json", dest="as_json", action="store_true", help="print JSON instead")
    export = actions.add_parser("export", help="export conversations as JSON or Markdown")
    export.add_argument("conversations", metavar="ID", type=int, nargs="*", help="default: all")
    export.add_argument("--format", choices=("json", "markdown"), help="default: from the extension of --output, else json")
    export.add_argument("--output", metavar="PATH", type=Path, help="a file (default: standard output)")
    importing = actions.add_parser("import", help="import exports of Draftlight, ChatGPT and LM Studio")
    importing.add_argument("files", metavar="FILE", type=Path, nargs="+", help="a JSON file, or the archive of a ChatGPT export")
    delete = actions.add_parser("delete", help="delete conversations; for 30 days, restore brings them back")
    delete.add_argument("--now", action="store_true", help="delete them for good at once, with their traces")
    restore = actions.add_parser("restore", help="bring deleted conversations back")
    for action in (delete, restore):
        action.add_argument("conversations", metavar="ID", type=int, nargs="+")
    traces = actions.add_parser("traces", help="show how much the traces of answers take, and choose how long they are kept")
    keep = traces.add_mutually_exclusive_group()
    keep.add_argument("--keep-days", type=float, metavar="N", help="delete traces after N days; messages stay")
    keep.add_argument("--keep-megabytes", type=float, metavar="N", help="delete the oldest traces beyond N MB; messages stay")
    keep.add_argument("--keep-all", action="store_true", help="keep all traces")


def run(arguments: argparse.Namespace) -> int:
    """The action that was chosen."""
    from app.cli import chats

    with chats.opened() as store:
        match arguments.action:
            case "list":
                return chats.show_list(store, arguments.deleted, arguments.folder, arguments.limit, arguments.as_json)
            case "show":
                return chats.show_one(store, arguments.conversation, arguments.as_json)
            case "search":
                return chats.show_found(store, " ".join(arguments.query), arguments.as_json)
            case "export":
                return chats.export(store, arguments.conversations, arguments.format, arguments.output)
            case "import":
                return chats.take_in(store, arguments.files)
            case "delete":
                return chats.delete(store, arguments.conversations, arguments.now)
            case "restore":
                return chats.restore(store, arguments.conversations)
        for name in ("keep_days", "keep_megabytes"):
            if (getattr(arguments, name) or 0) < 0:
                arguments.error(f"--{name.replace('_', '-')} must be at least 0")
        return chats.traces(store, arguments.keep_days, arguments.keep_megabytes, arguments.keep_all)
