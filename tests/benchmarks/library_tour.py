"""Goes from an empty installation to a chat with a downloaded pair, with real keys and a real mouse: make bench-library-tour

Uses the real window on the real engine as `tests.benchmarks.tour` does. The Hub is a server on the loopback with tiny random
models: a target, a draft model that nearly agrees with it, and a gated model with other tokens. The download of the target is
paused, interrupted by closing the window, and cut off by the server. Pictures show each state, those of the lists in both themes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmarks.tour import Guide, on_display, open_window
from tests.engine import tiny_models
from tests.engine.hub_server import TOKEN, Hub, hub_on_the_loopback

TARGET, DRAFTER, GATED = "mlx-community/Qwen3-8B-4bit", "mlx-community/Qwen3-0.6B-4bit", "mlx-community/Gated-1B"
WEIGHTS = "model.safetensors"
HELD = 60_000
"""Bytes after which the server waits, so that the download can be seen."""


def fill(hub: Hub, folder: Path) -> None:
    """Puts the three models on the Hub."""
    made = tiny_models.weights()
    chance = np.random.default_rng(1)
    near = {name: array + 0.05 * chance.standard_normal(array.shape).astype(np.float32) for name, array in made.items()}
    room = {"max_position_embeddings": 2048}
    for name, weights in ((TARGET, made), (DRAFTER, near), (GATED, made)):
        place = tiny_models.write_folder(folder / name.rpartition("/")[2], weights, **room)
        if name == GATED:
            vocabulary = json.loads((place / "tokenizer.json").read_text())
            table = vocabulary["model"]["vocab"]
            table["hello"], table["he"] = table["he"], table["hello"]
            (place / "tokenizer.json").write_text(json.dumps(vocabulary))
        hub.serve(name, place, config={"model_type": "llama"}, downloads=len(hub.files) + 1)
    hub.gated.add(GATED)


def titles(page: Any) -> list[str]:
    """Names of the rows of a page."""
    return [entry.title for entry in page.list.entries._shown]


def show(guide: Guide, page: Any, key: str) -> None:
    """Clicks on the row of a model."""
    row = page.list.entries.row_of(key)
    guide.click(page.list.viewport(), page.list.visualRect(page.list.entries.index(row)).center())


def open_hub(guide: Guide) -> Any:
    """The dialog with the page of the Hub, by its key and its tab."""
    guide.keys("ctrl+shift+m")
    dialog = guide.dialog("ModelsDialog")
    guide.click(dialog.tabs, dialog.tabs.tabRect(1).center())
    return dialog


def fetch_target(guide: Guide, hub: Hub) -> None:
    """Searches the target and downloads it, with a pause, an end of the program and an end of the connection."""
    guide.wait("the window is open and the built-in model loaded", lambda: guide.window.session.model is not None)
    guide.keys("ctrl+shift+m")
    dialog = guide.dialog("ModelsDialog")
    guide.wait("there is the built-in model and no other", lambda: titles(dialog.machine) in ([], ["SmolLM2-135M-Instruct"]))
    guide.picture("empty")
    guide.click(dialog.tabs, dialog.tabs.tabRect(1).center())
    guide.wait("the Hub's models are listed", lambda: len(titles(dialog.hub)) == 3)
    guide.picture("hub")
    guide.click(dialog.hub.search)
    guide.write("qwen3-8b")
    guide.wait("the search finds one", lambda: titles(dialog.hub) == [TARGET] and dialog.hub.download.isEnabled())
    states = guide.window.models.downloads.states
    hub.held = (HELD, threading.Event())
    guide.click(dialog.hub.download)
    guide.wait("it is downloaded", lambda: hub.sent.get(WEIGHTS, 0) >= HELD and dialog.hub.pause.isEnabled())
    guide.rest(0.5)
    guide.picture("downloading")
    guide.click(dialog.hub.pause)
    hub.held[1].set()
    guide.wait("it is paused", lambda: states[TARGET].phase == "paused")
    guide.picture("paused")
    hub.held = (HELD, threading.Event())
    sent = hub.sent[WEIGHTS]
    guide.click(dialog.hub.download)
    guide.wait("it goes on", lambda: hub.sent[WEIGHTS] >= sent + HELD)
    guide.keys("Escape")
    guide.wait("Escape closes the dialog", lambda: not dialog.isVisible())
    guide.keys("ctrl+q")
    hub.held[1].set()
    guide.wait("the window is closed during the download", lambda: not guide.window.isVisible())
    hub.held = None

    guide.window = open_window()
    guide.wait("the window is open again", lambda: guide.window.session.model is not None)
    dialog = open_hub(guide)
    states = guide.window.models.downloads.states
    guide.wait("the download is there, paused", lambda: TARGET in states and states[TARGET].phase == "paused")
    guide.wait("before what else there is", lambda: len(titles(dialog.hub)) == 3 and titles(dialog.hub)[0] == TARGET)
    guide.picture("after-restart")
    hub.breaks[WEIGHTS] = [HELD]
    show(guide, dialog.hub, TARGET)
    guide.keys("Return")
    guide.wait("it goes on, also when the connection breaks, and arrives", lambda: TARGET in titles(dialog.machine))
    parts = [part for file, part in hub.asked if file == WEIGHTS and part]
    guide.wait("none of it was sent twice", lambda: len(set(parts)) == len(parts) >= 3)
    guide.picture("arrived")


def fetch_pair(guide: Guide) -> None:
    """Uses the target, and downloads what is known to draft for it."""
    window, dialog = guide.window, guide.dialog("ModelsDialog")
    guide.click(dialog.tabs, dialog.tabs.tabRect(0).center())
    guide.wait("it is on this machine", lambda: TARGET in titles(dialog.machine))
    path = next(model.target for model in dialog.machine.models.values() if model.name == TARGET)
    show(guide, dialog.machine, path)
    guide.wait("it can be used", dialog.machine.use.isEnabled)
    guide.click(dialog.machine.use)
    guide.wait("it is loaded", lambda: window.session.model is not None and window.session.model.name == Path(path).name)
    guide.wait("a draft model is known for it", dialog.machine.pair.isVisible)
    guide.picture("target")
    guide.click(dialog.machine.pair)
    guide.wait("the Hub has it", lambda: titles(dialog.hub) == [DRAFTER] and dialog.hub.download.isEnabled())
    guide.picture("drafter-on-hub")
    guide.click(dialog.hub.download)
    guide.wait("it arrives", lambda: DRAFTER in titles(dialog.machine))


def fetch_gated(guide: Guide) -> None:
    """Downloads a model that wants a token, with a wrong one first."""
    dialog = guide.dialog("ModelsDialog")
    page = dialog.hub
    guide.click(page.search)
    guide.keys("ctrl+a")
    guide.write("gated")
    guide.wait("a gated model is found", lambda: titles(page) == [GATED] and page.download.isEnabled())
    guide.click(page.download)
    guide.wait("it asks for a token", page.token.isVisible)
    guide.picture("gated")
    guide.click(page.token)
    guide.write("hf_wrong")
    guide.keys("Return")
    guide.wait("a wrong token is told", lambda: "did not accept the token" in page.about.text())
    guide.picture("wrong-token")
    guide.click(page.token)
    guide.write(TOKEN)
    guide.click(page.sign_in)
    guide.wait("the right one is taken, and the model arrives", lambda: GATED in titles(dialog.machine))
    guide.keys("Escape")
    guide.wait("Escape closes the dialog", lambda: not dialog.isVisible())


def use_drafter(guide: Guide) -> None:
    """Chooses the draft model among those that fit, which grey ones do not, and chats with the pair."""
    window = guide.window
    guide.click(window.header.drafter)
    guide.wait("the list of drafters is open", lambda: window.header.drafter.view().isVisible())
    guide.picture("drafter-list")
    guide.keys("End", "Up", "Up", "Return")
    dialog = guide.dialog("ModelsDialog")
    page = dialog.machine

    def entry(name: str) -> Any:
        """The row of a model."""
        return next(entry for entry in page.list.entries._shown if entry.title == name)

    guide.wait("a model with other tokens is grey", lambda: "The vocabularies differ" in entry(GATED).problem)
    guide.wait("one with the same is not", lambda: not entry(DRAFTER).problem)
    guide.picture("drafters")
    show(guide, page, entry(DRAFTER).key)
    guide.wait("it can draft", lambda: "Its tokens fit" in page.pairs.text())
    guide.keys("Return")
    guide.wait("Enter uses it as drafter", lambda: window.settings.drafter == entry(DRAFTER).key)
    guide.picture("pair")
    guide.keys("Escape")
    guide.wait("Escape closes the dialog", lambda: not dialog.isVisible())
    guide.click(window.composer.edit)
    guide.write("hello world")
    guide.keys("Return")
    turns = window.session.turns
    guide.wait("the pair answers", lambda: turns and turns[-1].answer.tally.rounds > 8)
    guide.wait(
        "proposals of the draft model are accepted",
        lambda: any(each.status == "accepted" for round in turns[-1].answer.rounds for each in round.proposals),
    )
    guide.rest(1)
    if window.session.running is not None:
        guide.keys("Escape")
    guide.wait("it has ended", lambda: window.session.running is None)
    guide.picture("chat")


def delete(guide: Guide) -> None:
    """Deletes the gated model, after a question."""
    guide.keys("ctrl+shift+m")
    page = guide.dialog("ModelsDialog").machine
    guide.wait("the models are listed", lambda: GATED in titles(page))
    key = next(model.target for model in page.models.values() if model.name == GATED)
    show(guide, page, key)
    guide.keys("Delete")
    question = guide.dialog("DeleteQuestion")
    guide.picture("delete")
    guide.click(question.delete_button)
    guide.wait("it is deleted", lambda: GATED not in titles(page) and not Path(key).exists())
    guide.picture("deleted")


def tour(pictures: Path, folder: Path) -> None:
    """All of it."""
    from app.window.launch import make_application

    patch = pytest.MonkeyPatch()
    try:
        with hub_on_the_loopback(folder, patch) as hub:
            fill(hub, folder / "served")
            guide = Guide(make_application(), pictures)
            guide.window = open_window()
            fetch_target(guide, hub)
            fetch_pair(guide)
            fetch_gated(guide)
            use_drafter(guide)
            delete(guide)
            guide.window.close()
            guide.rest(0.5)
    finally:
        patch.undo()
    print(f"{guide.steps} steps, {guide.taken} pictures in {pictures}")


def main() -> None:
    """On a display of its own, in a home where no program has models, once for each theme."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, default=Path("library-tour"), help="folder for the PNGs")
    parser.add_argument("--inside", choices=("dark", "light"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside is None:
        for theme in ("dark", "light"):
            if status := on_display("tests.benchmarks.library_tour", [theme, *sys.argv[1:]]):
                sys.exit(status)
        return
    pictures = asked.pictures / asked.inside
    pictures.mkdir(parents=True, exist_ok=True)
    from engine.files.builtin import fetch_builtin

    builtin = fetch_builtin()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        (home / "models").mkdir(parents=True)
        (home / "models" / builtin.parent.name).symlink_to(builtin.parent)
        (home / "settings.json").write_text(json.dumps({"appearance": asked.inside}))
        for name in ("HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS"):
            os.environ.pop(name, None)
        os.environ |= {"DRAFTLIGHT_HOME": str(home), "HOME": folder}
        tour(pictures, Path(folder))


if __name__ == "__main__":
    main()
