"""The actions of `draftlight models`."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.drafter_kinds import NO_DRAFTER

HELP = "list, download, check and remove models"
DESCRIPTION = "List, download, check and remove models."


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
    download = actions.add_parser("download", help="download the built-in target if it is missing")
    download.add_argument("name", metavar="MODEL", nargs="?", default="builtin")
    check = actions.add_parser("check", help="check whether a model, and optionally a drafter for it, can be used")
    check.add_argument("name", metavar="MODEL", nargs="?", default="builtin")
    check.add_argument("--drafter", metavar="DRAFTER", default=NO_DRAFTER, help="also check that this drafter fits the model")
    remove = actions.add_parser("remove", help="delete a model from the models folder")
    remove.add_argument("name", metavar="MODEL")


def run(arguments: argparse.Namespace) -> int:
    """The action that was chosen."""
    from app.cli import models

    match arguments.action:
        case "list":
            return models.show_models(arguments.folders)
        case "download":
            return models.download_model(arguments.name)
        case "check":
            return models.check_model(arguments.name, arguments.drafter)
    return models.remove_model(arguments.name)
