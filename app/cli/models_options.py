"""The actions and options of `draftlight models`."""

from __future__ import annotations

import argparse
from pathlib import Path

from app.cli.option import Action, Entries, option
from app.cli.shared_options import drafter
from engine.values.drafter_kinds import NO_DRAFTER

HELP = "list, search, download, check and delete models"
DESCRIPTION = "List the models on this machine, search and download from the Hugging Face Hub, check and delete models."


_FETCHED = option(
    "name", metavar="MODEL", nargs="?", default="builtin", help="OWNER/MODEL, OWNER/MODEL:FILE.gguf, or builtin (default)"
)


def options() -> Entries:
    """Returns the actions, each with its options."""
    return (
        Action(
            "list",
            "list the models on this machine",
            (
                option(
                    "--folder",
                    metavar="FOLDER",
                    dest="folders",
                    type=Path,
                    action="append",
                    default=[],
                    help="look there too; can be repeated",
                ),
            ),
        ),
        Action(
            "add-folder",
            "also search this folder from now on, here and in the window",
            (
                option("folder", metavar="FOLDER", type=Path),
                option("--remove", action="store_true", help="stop searching it; nothing in it is deleted"),
            ),
        ),
        Action(
            "search",
            "search the Hugging Face Hub",
            (option("wanted", metavar="WORDS", nargs="*", help="part of the name; a whole name lists what can be downloaded"),),
        ),
        Action(
            "download",
            "download a model from the Hugging Face Hub, or go on with it",
            (_FETCHED, option("--discard", action="store_true", help="delete what has arrived of an unfinished download")),
            "Download a model from the Hugging Face Hub. Ctrl-C pauses: the same command goes on from there.",
        ),
        Action(
            "check",
            "check whether a model, and optionally a drafter for it, can be used",
            (
                option("name", metavar="MODEL", nargs="?", default="builtin"),
                option(
                    "--drafter",
                    metavar="DRAFTER",
                    type=drafter,
                    default=NO_DRAFTER,
                    help="also check that this drafter fits the model",
                ),
            ),
        ),
        Action(
            "delete",
            "delete a model that Draftlight downloaded",
            (option("name", metavar="MODEL"), option("--yes", action="store_true", help="do not ask first")),
        ),
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the chosen action."""
    from app.cli import models

    return models.ACTIONS[arguments.action](arguments)
