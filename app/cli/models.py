"""`draftlight models`: lists, searches, downloads, checks and deletes models."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from app.cli.engine_run import TICK, running_engine
from app.cli.output import StatusLine, align
from app.cli.shared_options import add_actions, drafter
from engine.files import builtin, download, hub, library, ollama
from engine.files.library import added_folders, change_folders
from engine.files.memory import available_memory
from engine.files.mtp_files import head_words
from engine.files.paths import models_folder
from engine.types import DrafterReady, DrafterRefused, LoadFailed, LoadFinished
from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.errors import DraftlightError
from engine.values.wording import amount, size

HELP = "list, search, download, check and delete models"
DESCRIPTION = "List the models on this machine, search and download from the Hugging Face Hub, check and delete models."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the actions, each with its options, to the command's parser."""
    actions = add_actions(parser)
    action = actions.add_parser("list", help="list the models on this machine")
    action.add_argument(
        "--folder",
        metavar="FOLDER",
        dest="folders",
        type=Path,
        action="append",
        default=[],
        help="look there too; can be repeated",
    )
    action = actions.add_parser("add-folder", help="also search this folder from now on, here and in the window")
    action.add_argument("folder", metavar="FOLDER", type=Path)
    action.add_argument("--remove", action="store_true", help="stop searching it; nothing in it is deleted")
    action = actions.add_parser("search", help="search the Hugging Face Hub")
    action.add_argument("wanted", metavar="WORDS", nargs="*", help="part of the name; a whole name lists what can be downloaded")
    action = actions.add_parser(
        "download",
        help="download a model from the Hugging Face Hub, or go on with it",
        description="Download a model from the Hugging Face Hub. Ctrl-C pauses: the same command goes on from there.",
    )
    action.add_argument(
        "name", metavar="MODEL", nargs="?", default="builtin", help="OWNER/MODEL, OWNER/MODEL:FILE.gguf, or builtin (default)"
    )
    action.add_argument("--discard", action="store_true", help="delete what has arrived of an unfinished download")
    action = actions.add_parser("check", help="check whether a model, and optionally a drafter for it, can be used")
    action.add_argument("name", metavar="MODEL", nargs="?", default="builtin")
    action.add_argument(
        "--drafter",
        metavar="DRAFTER",
        type=drafter,
        default=NO_DRAFTER,
        help="also check that this drafter fits the model",
    )
    action = actions.add_parser("delete", help="delete a model that Draftlight downloaded")
    action.add_argument("name", metavar="MODEL")
    action.add_argument("--yes", action="store_true", help="do not ask first")


def show_models(folders: Iterable[Path] = ()) -> int:
    """Lists the built-in target and every model found on this machine, or additionally in `folders`."""
    path = builtin.builtin_path()
    state = f"{path.stat().st_size / 1e6:,.0f} MB" if path.is_file() else "not downloaded yet"
    print(f"builtin  {builtin.NAME}  {state}")
    models, free = library.find([*folders, *map(Path, added_folders())]), available_memory()
    rows = [
        (
            model.name,
            size(model.size),
            model.quantisation,
            model.architecture,
            "" if model.context is None else f"{model.context:,}",
            model.remembers,
            model.head,
            "" if model.need is None else f"{size(model.need)}{'!' if free is not None and model.need > free else ''}",
            model.source,
            model.problem or model.target,
        )
        for model in models
    ]
    if rows:
        titles = ("model", "size", "weights", "architecture", "context", "keeps", "MTP head", "memory", "found in", "--target")
        print(*align([titles, *rows]), sep="\n")
        if free is not None and any(model.need is not None and model.need > free for model in models):
            print(f"! needs more memory than the {size(free)} that are free")
    for each in download.unfinished():
        print(f"unfinished: {each.name}, {size(each.done)} downloaded. To resume: draftlight models download {each.name}")
    return 0


def add_folder(folder: Path, remove: bool) -> int:
    """Adds a folder to those searched for models, or removes it."""
    name = str(folder.expanduser().resolve())
    if not remove and not Path(name).is_dir():
        raise DraftlightError(f"{name} is not a folder.")
    change_folders(name, remove)
    print(f"{name} is {'no longer' if remove else 'now'} searched for models")
    return 0


def search_hub(words: Sequence[str]) -> int:
    """Lists the models on the Hub whose name contains the words; for a complete name, the downloads it offers."""
    text = " ".join(words)
    if hub.HUB_ID.fullmatch(text):
        free = available_memory()
        rows = [
            (
                offer.name,
                size(offer.size),
                offer.quantisation,
                "" if offer.need is None else f"{size(offer.need)}{'!' if free is not None and offer.need > free else ''}",
                offer.problem,
            )
            for offer in hub.offers(text)
        ]
        if not rows:
            raise DraftlightError(f"{text} has neither safetensors for mlx-lm nor GGUF files.")
        print(*align([("download", "size", "weights", "memory", "problem"), *rows]), sep="\n")
        return 0
    found = hub.search(text)
    if not found:
        print(f"The Hugging Face Hub has no model with {text!r} in its name.", file=sys.stderr)
        return 1
    model_rows = [
        (
            model.name,
            model.form,
            model.architecture,
            "" if model.parameters is None else f"{model.parameters / 1e9:.2g} billion",
            f"{model.downloads:,}",
            model.problem or ("gated" if model.gated else ""),
        )
        for model in found
    ]
    print(*align([("model", "files", "architecture", "parameters", "downloads", "note"), *model_rows]), sep="\n")
    return 0


def download_model(name: str) -> int:
    """Downloads a model from the Hub, or the built-in target unless it is there; resumes an unfinished download."""
    if name == "builtin":
        print(_fetch_builtin())
        return 0
    offer = hub.offer(name)
    free = available_memory()
    if offer.need is not None and free is not None and offer.need > free:
        print(f"{offer.name} will need about {size(offer.need)} of memory; {size(free)} are free now.", file=sys.stderr)
    line = _ProgressLine(offer.name)
    try:
        path = download.Download(offer, line.show).run()
    except KeyboardInterrupt:
        print(f"\npaused; draftlight models download {offer.name} resumes it", file=sys.stderr)
        raise
    finally:
        line.end()
    print(path)
    return 0


def _fetch_builtin() -> Path:
    line, last_step = StatusLine(), ""

    def report(step: str, fraction: float | None, is_download: bool = False, /) -> None:
        """Shows the step on standard error: with its progress, overwriting the line, in a terminal; else once when it begins."""
        nonlocal last_step
        if sys.stderr.isatty():
            line.show(step if fraction is None else f"{step}: {fraction:4.0%}")
        elif step != last_step:
            print(step, file=sys.stderr)
        last_step = step

    try:
        return builtin.fetch_builtin(report)
    finally:
        line.clear()


class _ProgressLine:
    """The progress of a download on standard error: overwriting the line in a terminal, else every ten seconds."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last = -10.0
        self._shown = False

    def show(self, progress: download.DownloadProgress) -> None:
        """Shows the progress, overwriting the previous state."""
        terminal = sys.stderr.isatty()
        if terminal or time.monotonic() - self._last >= 10:
            self._last, self._shown = time.monotonic(), True
            line = f"{self._name}: {progress.words}"
            print(f"\r\x1b[K{line}" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Ends the line, so that further output starts on a new one."""
        if self._shown and sys.stderr.isatty():
            print(file=sys.stderr)


def discard_download(name: str) -> int:
    """Deletes the data of an unfinished download."""
    if name not in {unfinished.name for unfinished in download.unfinished()}:
        raise DraftlightError(f"There is no unfinished download of {name}.")
    download.discard(name)
    print(f"discarded {name}")
    return 0


def check_model(name: str, drafter: str) -> int:
    """Loads a model, and a drafter for it, and reports whether they can be used; returns 1 if not."""
    if name == "builtin" and builtin.builtin_path().is_file():
        builtin.check_builtin()
    with running_engine() as engine:
        engine.load(name, drafter)
        while True:
            engine.wait(TICK)
            for event in engine.events():
                match event:
                    case LoadFinished(model):
                        print(
                            f"{model.name} can be used: {amount(model.vocabulary_size, 'token')}, context "
                            f"{model.context_length:,}, "
                            f"sha256 {model.sha256}"
                        )
                        if model.form:
                            print(f"weights: {model.form}")
                        if words := head_words(ollama.weights_of(Path(model.path))):
                            print(words)
                    case LoadFailed(_, message) | DrafterRefused(_, message):
                        print(f"draftlight: {message}", file=sys.stderr)
                        return 1
                    case DrafterReady(drafter_name, _, warning):
                        if drafter_name != NO_DRAFTER:
                            print(f"{drafter_name} can draft for it")
                        if warning:
                            print(f"draftlight: {warning}", file=sys.stderr)
                        return 0


def delete_model(name: str, confirmed: bool) -> int:
    """Deletes a model from the models folder, and nothing outside it, after the user's confirmation."""
    path = builtin.builtin_path().parent if name == "builtin" else Path(name).expanduser()
    if not path.is_absolute():
        path = models_folder() / path
        if not path.exists() and path.with_name(f"{path.name}.gguf").exists():
            path = path.with_name(f"{path.name}.gguf")
    library.check_deletable(path)
    if not confirmed:
        if not sys.stdin.isatty():
            raise DraftlightError(f"Nothing was deleted: without a terminal, nobody can confirm it. Add --yes to delete {path}.")
        if input(f"Delete {path}? [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing deleted")
            return 1
    library.delete(path)
    print(f"deleted {path.resolve()}")
    return 0


ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": lambda given: show_models(given.folders),
    "add-folder": lambda given: add_folder(given.folder, given.remove),
    "search": lambda given: search_hub(given.wanted),
    "download": lambda given: discard_download(given.name) if given.discard else download_model(given.name),
    "check": lambda given: check_model(given.name, given.drafter),
    "delete": lambda given: delete_model(given.name, given.yes),
}


def run(arguments: argparse.Namespace) -> int:
    """Runs the chosen action."""
    return ACTIONS[arguments.action](arguments)
