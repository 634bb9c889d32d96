"""The actions of `draftlight models`."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.drafter_kinds import NO_DRAFTER

HELP = "list, search, download, check and delete models"
DESCRIPTION = "List the models on this machine, search and download from the Hugging Face Hub, check and delete models."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The actions, each with its options."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    listing = actions.add_parser("list", help="list the models on this machine")
    listing.add_argument(
        "--folder",
        metavar="FOLDER",
        dest="folders",
        type=Path,
        action="append",
        default=[],
        help="look there too; can be repeated",
    )
    add = actions.add_parser("add-folder", help="look through a folder too from now on, here and in the window")
    add.add_argument("folder", metavar="FOLDER", type=Path)
    add.add_argument("--remove", action="store_true", help="no longer look through it; nothing in it is deleted")
    search = actions.add_parser("search", help="search the Hugging Face Hub")
    search.add_argument("wanted", metavar="WORDS", nargs="*", help="part of the name; a whole name lists what can be downloaded")
    download = actions.add_parser(
        "download",
        help="download a model from the Hugging Face Hub, or go on with it",
        description="Download a model from the Hugging Face Hub. Ctrl-C pauses: the same command goes on from there.",
    )
    download.add_argument(
        "name", metavar="MODEL", nargs="?", default="builtin", help="OWNER/MODEL, OWNER/MODEL:FILE.gguf, or builtin (default)"
    )
    download.add_argument("--discard", action="store_true", help="delete what has arrived of an unfinished download")
    check = actions.add_parser("check", help="check whether a model, and optionally a drafter for it, can be used")
    check.add_argument("name", metavar="MODEL", nargs="?", default="builtin")
    check.add_argument("--drafter", metavar="DRAFTER", default=NO_DRAFTER, help="also check that this drafter fits the model")
    delete = actions.add_parser("delete", help="delete a model that Draftlight downloaded")
    delete.add_argument("name", metavar="MODEL")
    delete.add_argument("--yes", action="store_true", help="do not ask first")


def run(arguments: argparse.Namespace) -> int:
    """The action that was chosen."""
    from app.cli import models

    match arguments.action:
        case "list":
            return models.show_models(arguments.folders)
        case "add-folder":
            return models.add_folder(arguments.folder, arguments.remove)
        case "search":
            return models.search_hub(arguments.wanted)
        case "download":
            return models.discard_download(arguments.name) if arguments.discard else models.download_model(arguments.name)
        case "check":
            return models.check_model(arguments.name, arguments.drafter)
    return models.delete_model(arguments.name, arguments.yes)
