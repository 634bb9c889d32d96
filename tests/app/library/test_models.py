"""The window of models: what is on this machine and on the Hub, used, fetched and deleted. The Hub is a server in the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.cli.models import add_folder
from app.library.background import Background
from app.library.dialog import ModelsDialog
from app.library.downloads import Downloads
from app.library.entries import Entry, model_entry
from app.library.entry_list import EntryDelegate, EntryList
from app.library.machine_page import DeleteQuestion
from app.look import theme as themes
from app.look.widgets import DiscardQuestion
from app.session.settings import Settings
from app.window.models_controller import dropped_model
from engine.files import builtin, download, library
from engine.files.cached_models import delete_cached
from engine.files.library import LibraryModel, added_folders
from engine.files.pairs import catalogue, recommended
from engine.types import DrafterChecked, LoadFailed, LoadStarted
from engine.values.drafter_kinds import DRAFTERS, may_fit
from engine.values.errors import DraftlightError
from engine.values.wording import size
from tests.app.driving import Open, dragged, drop
from tests.engine import tiny_models
from tests.engine.hub_server import TOKEN, Hub, hub_on_the_loopback


@pytest.fixture
def models(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of models of the test's own, in a home where no other program has any."""
    for name in ("HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    folder = home / "models"
    folder.unlink()
    folder.mkdir()
    return folder


@pytest.fixture
def served(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr("app.library.hub_page.SEARCH_DELAY_MS", 0)
    monkeypatch.setattr("app.library.hub_page.LOOKUP_DELAY_MS", 0)
    with hub_on_the_loopback(tmp_path, monkeypatch) as running:
        yield running


def titles(list_: EntryList) -> list[str]:
    """Names of the rows, without that of the built-in model, which is always there."""
    model = list_.entries
    shown = [model.data(model.index(row)) for row in range(model.rowCount())]
    return [name for name in shown if name != builtin.NAME]


@pytest.mark.parametrize("folder", ["empty", "nobody/.lmstudio"])
def test_a_folder_without_models_is_reported_and_can_be_removed(
    qtbot: QtBot, open_window: Open, models: Path, tmp_path: Path, folder: str
) -> None:
    of_lm_studio = tmp_path / "nobody" / ".lmstudio" / "models"
    for made in (tmp_path / "empty", tmp_path / "full", of_lm_studio):
        made.mkdir(parents=True)
    (tmp_path / "empty" / "config.json").write_text("{}")  # but no weights
    tiny_models.write_gguf(tmp_path / "full" / "tiny.gguf", "Q8_0", general__file_type=7)
    tiny_models.write_gguf(of_lm_studio / "other.gguf", "Q8_0", general__file_type=7)  # listed anyway
    window, _ = open_window()
    window.models.open()
    dialog = window.models.dialog
    assert dialog is not None
    dialog.machine.add_folder(str(tmp_path / "full"))
    qtbot.waitUntil(lambda: sorted(titles(dialog.machine.list)) == ["other", "tiny"])
    assert dialog.banner.isHidden()
    dialog.machine.add_folder(str(tmp_path / folder))
    qtbot.waitUntil(dialog.banner.isVisible)
    assert f"No other models were found in {tmp_path / folder}. A model is a .gguf file" in dialog.banner.label.text()
    qtbot.mouseClick(dialog.banner.action, Qt.MouseButton.LeftButton)
    assert dialog.banner.isHidden()
    qtbot.waitUntil(lambda: added_folders() == (str(tmp_path / "full"),))


def test_a_failed_load_is_reported_in_the_models_dialog(qtbot: QtBot, open_window: Open, models: Path) -> None:
    tiny_models.write_gguf(models / "tiny.gguf", "Q8_0", general__file_type=7)
    window, engine = open_window()
    window.models.open()
    dialog = window.models.dialog
    assert dialog is not None
    dialog.activateWindow()
    qtbot.waitUntil(lambda: titles(dialog.machine.list) == ["tiny"] and dialog.isActiveWindow())
    target = str(models / "tiny.gguf")
    dialog.machine.list.go_to(target)
    for words, may_force in (("tiny.gguf is incomplete.", False), ("There may not be memory enough.", True)):
        qtbot.mouseClick(dialog.machine.use, Qt.MouseButton.LeftButton)
        assert dialog.banner.isHidden()
        engine.say(LoadStarted(target), LoadFailed(target, words, may_force))
        qtbot.waitUntil(lambda words=words: dialog.banner.label.text() == words)
        assert dialog.banner.isVisible() and window.banner.isVisible()
        assert dialog.banner.action.isVisible() is may_force
    qtbot.mouseClick(dialog.banner.action, Qt.MouseButton.LeftButton)
    assert dialog.banner.isHidden() and window.banner.isHidden(), "it is tried"
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    window.chat.say("Something else.", "error")
    assert dialog.banner.isHidden(), "whoever is at the chat again reads it there"


def test_models_on_this_machine_are_used_searched_deleted_and_dropped(
    qtbot: QtBot, open_window: Open, models: Path, tmp_path: Path
) -> None:
    tiny_models.write_gguf(models / "tiny.gguf", "Q8_0", general__file_type=7)
    tiny_models.write_gguf(models / "strange.gguf", architecture="rwkv6")
    elsewhere = tiny_models.write_folder(tmp_path / "elsewhere" / "other")
    (tmp_path / "added").mkdir()
    window, engine = open_window(path=tmp_path / "settings.json")
    add_folder(tmp_path / "added", remove=False)
    window.chat.preferences.set(sidebar=False)
    assert added_folders() == (str(tmp_path / "added"),), "a window forgot what the command line added"
    add_folder(tmp_path / "added", remove=True)
    window.header.open_model.emit("target", "library")
    dialog = window.models.dialog
    assert dialog is not None
    page = dialog.machine
    qtbot.waitUntil(lambda: titles(page.list) == ["strange", "tiny"])

    page.list.go_to(str(models / "strange.gguf"))
    assert page.list.entries.at(page.list.currentIndex()).problem == "The architecture rwkv6 is not supported."
    assert "cannot be used" in page.about.text()
    assert not page.use.isEnabled() and not page.draft.isEnabled()
    qtbot.keyClick(page.list, Qt.Key.Key_Return)
    assert window.settings.target == "builtin"

    page.add_folder(str(elsewhere.parent))
    qtbot.waitUntil(lambda: titles(page.list) == ["other", "strange", "tiny"])
    assert added_folders() == (str(elsewhere.parent),)
    qtbot.keyClicks(page.search, "q8 tiny")
    assert titles(page.list) == ["tiny"]
    assert "N-gram drafts for every model" in page.pairs.text()
    qtbot.keyClick(page.search, Qt.Key.Key_Escape)
    assert page.search.text() == "" and dialog.isVisible()

    page.list.go_to(str(models / "tiny.gguf"))
    qtbot.mouseClick(page.use, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.settings.recent_models == (str(models / "tiny.gguf"),))
    assert engine.loads[-1][0] == str(models / "tiny.gguf")
    assert "Target" in page.list.entries.at(page.list.currentIndex()).mark
    offered = [window.header.target.itemData(row) for row in range(window.header.target.count())]
    assert offered[:2] == ["builtin", str(models / "tiny.gguf")]
    engine.misfits["other"] = "The vocabularies differ in 2 entries, first at token 7."
    page.list.go_to(elsewhere.as_posix())
    qtbot.waitUntil(lambda: "It cannot draft for the target in use. The vocabularies differ" in page.pairs.text())
    assert not page.draft.isEnabled() and page.draft.toolTip() == engine.misfits["other"]
    header = window.header.drafter
    flags = [header.model().index(row, 0).flags() for row in range(len(DRAFTERS))]
    offered_drafters = [name for name, flag in zip(DRAFTERS, flags, strict=True) if flag & Qt.ItemFlag.ItemIsEnabled]
    assert offered_drafters == [name for name in DRAFTERS if may_fit(name, window.settings.target)] != list(DRAFTERS)
    checked: list[str] = []
    page.check_requested.connect(checked.append)
    window.header.open_model.emit("drafter", "library")
    qtbot.waitUntil(lambda: page.list.entries.at(page.list.currentIndex()).problem == engine.misfits["other"])
    assert page.purpose.currentText() == "Drafters"
    assert not checked, "what was known was asked for again"
    qtbot.keyClick(page.list, Qt.Key.Key_Return)
    assert window.settings.drafter != elsewhere.as_posix()
    window.header.open_model.emit("target", "library")
    assert page.list.entries.at(page.list.currentIndex()).problem == ""
    window.chat.change("target", "builtin")
    engine.misfits.clear()
    qtbot.waitUntil(lambda: "Its tokens fit the target in use" in page.pairs.text())
    page.show_check(DrafterChecked("builtin", elsewhere.as_posix(), "", "The chat templates differ."))
    assert "The chat templates differ." in page.pairs.text() and page.draft.isEnabled()
    assert not page.delete.isEnabled() and "own folder" in page.delete.toolTip()
    qtbot.mouseClick(page.draft, Qt.MouseButton.LeftButton)
    assert window.settings.drafter == elsewhere.as_posix()
    qtbot.mouseClick(page.remove_folder_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: titles(page.list) == ["strange", "tiny"])

    page.list.go_to(str(models / "strange.gguf"))
    qtbot.keyClick(page.list, Qt.Key.Key_Delete)
    (question,) = page.findChildren(DeleteQuestion)
    assert "strange" in question.text()
    question.button(question.StandardButton.Cancel).click()
    assert (models / "strange.gguf").is_file()
    qtbot.waitUntil(lambda: not page.findChildren(DeleteQuestion))
    page.delete.click()
    page.findChildren(DeleteQuestion)[0].delete_button.click()
    qtbot.waitUntil(lambda: titles(page.list) == ["tiny"])
    assert not (models / "strange.gguf").exists()

    assert drop(window, elsewhere)
    assert engine.loads[-1][0] == str(elsewhere)
    loads = len(engine.loads)
    drop(window, tmp_path)
    assert len(engine.loads) == loads, "a folder of other things was taken for a model"
    assert drop(window, models / "tiny.gguf")
    assert engine.loads[-1][0] == str(models / "tiny.gguf")
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert not dialog.isVisible()


def test_a_hub_model_is_found_paused_resumed_and_used(
    qtbot: QtBot, open_window: Open, models: Path, served: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served.serve("org/Qwen3-8B", tiny_models.write_folder(tmp_path / "served"), config={"model_type": "llama"})
    served.about["org/pickled"], served.files["org/pickled"] = {"tags": []}, {}
    served.held = (100_000, threading.Event())
    window, engine = open_window()
    window.models.open()
    dialog = window.models.dialog
    assert dialog is not None
    page, downloads = dialog.hub, window.models.downloads
    served.status = 503
    dialog.tabs.setCurrentIndex(1)
    assert page.retry.text() == "Show the most downloaded" and titles(page.list) == [model.repository for model in recommended()]
    qtbot.mouseClick(page.retry, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: page.retry.text() == "Try again" and page.retry.isVisible())
    assert "Try again later" in page.state.text()
    served.status = 200
    qtbot.mouseClick(page.retry, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: titles(page.list) == ["org/Qwen3-8B", "org/pickled"])
    assert "neither safetensors nor GGUF" in page.list.entries.at(page.list.entries.index(1)).problem
    qtbot.waitUntil(page.download.isEnabled)
    page.download.setFocus()
    qtbot.mouseClick(page.download, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: served.sent.get("model.safetensors", 0) >= 100_000 and page.pause.isEnabled())
    assert dialog.focusWidget() is page.list, "the keyboard is on the button that discards"
    assert page.list.entries.at(page.list.currentIndex()).mark == "Downloading"
    qtbot.mouseClick(page.pause, Qt.MouseButton.LeftButton)
    served.held[1].set()
    qtbot.waitUntil(lambda: downloads.states["org/Qwen3-8B"].phase == "paused")
    assert page.download.text() == "Resume" and page.download.isEnabled()
    assert library.find() == []
    served.held = None
    qtbot.mouseClick(page.download, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not downloads.states)
    qtbot.waitUntil(lambda: titles(dialog.machine.list) == ["org/Qwen3-8B"])
    assert window.banner.label.text() == "org/Qwen3-8B has been downloaded."
    assert page.list.entries.at(page.list.currentIndex()).mark == "On this machine"
    window.banner.action.click()
    assert engine.loads[-1][0] == str(models / "org" / "Qwen3-8B")

    small = "mlx-community/Qwen3-0.6B-4bit"
    served.files[small], served.about[small] = served.files["org/Qwen3-8B"], {}
    dialog.machine.list.go_to(str(models / "org" / "Qwen3-8B"))
    assert dialog.machine.pair.text() == "Get Qwen3 0.6B…"
    dialog.tabs.setCurrentIndex(0)
    qtbot.mouseClick(dialog.machine.pair, Qt.MouseButton.LeftButton)
    assert dialog.tabs.currentIndex() == 1
    qtbot.waitUntil(lambda: titles(page.list) == [small] and page.download.isEnabled())
    qtbot.keyClick(page.list, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: titles(dialog.machine.list) == [small, "org/Qwen3-8B"])
    assert window.banner.action.text() == "Use with Qwen3-8B"
    window.banner.action.click()
    assert engine.loads[-1] == (str(models / "org" / "Qwen3-8B"), str(models / small))
    window.chat.change("drafter", "none")
    dialog.machine.list.go_to(str(models / "org" / "Qwen3-8B"))
    assert dialog.machine.pair.text() == "Use with Qwen3 0.6B"
    assert not dialog.machine.delete.isEnabled() and "in use" in dialog.machine.delete.toolTip()
    dialog.machine.pair.click()
    assert engine.loads[-1] == (str(models / "org" / "Qwen3-8B"), str(models / small))

    served.files["org/gated"], served.about["org/gated"] = served.files[small], {}
    served.gated.add("org/gated")
    page.search_repository("gated")
    qtbot.waitUntil(lambda: titles(page.list) == ["org/gated"] and page.download.isEnabled())
    assert page.list.entries.at(page.list.currentIndex()).mark == "Gated"
    qtbot.mouseClick(page.download, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(page.token.isVisible)
    assert downloads.states["org/gated"].page == f"{served.address}/org/gated"
    qtbot.keyClick(page.list, Qt.Key.Key_Delete)
    assert not downloads.states and not page.findChildren(DiscardQuestion), "it was asked about nothing"
    qtbot.waitUntil(page.download.isEnabled)
    qtbot.mouseClick(page.download, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(page.token.isVisible)
    qtbot.keyClicks(page.token, "hf_wrong")
    qtbot.keyClick(page.token, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: "did not accept the token" in page.about.text())
    assert page.token.text() == ""
    qtbot.keyClicks(page.token, TOKEN)
    qtbot.mouseClick(page.sign_in, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not downloads.states)
    assert (download.models_folder() / "org" / "gated" / "config.json").is_file()
    assert "hf_" not in caplog.text


def test_a_model_that_can_only_draft_is_used_as_drafter(
    qtbot: QtBot, open_window: Open, models: Path, served: Hub, tmp_path: Path
) -> None:
    made = tiny_models.write_folder(tmp_path / "served", architectures=["DFlashDraftModel"])
    served.serve("org/block", made, config={"model_type": "llama"})
    window, _ = open_window()
    window.models.open()
    window.models.downloads.start("org/block")
    qtbot.waitUntil(lambda: not window.banner.isHidden())
    assert window.banner.action.text() == "Use as drafter"
    window.banner.action.click()
    assert (window.settings.target, window.settings.drafter) == ("builtin", str(models / "org" / "block"))
    assert drop(window, made)
    assert (window.settings.target, window.settings.drafter) == ("builtin", str(made))


def test_closing_pauses_downloads_and_the_next_start_finds_them(qtbot: QtBot, served: Hub, tmp_path: Path) -> None:
    served.serve("org/tiny", tiny_models.write_folder(tmp_path / "served"), config={"model_type": "llama"})
    served.held = (100_000, threading.Event())
    owner = QObject()
    background = Background(owner)
    downloads = Downloads(background, owner)
    downloads.start("org/tiny")
    part = download.downloads_folder() / "org%2Ftiny"
    qtbot.waitUntil(lambda: any(file.stat().st_size >= 100_000 for file in part.glob("model.safetensors.*")))
    downloads.stop()
    served.held[1].set()
    background.close()
    assert library.find() == []
    later = Background(owner)
    downloads = Downloads(later, owner)
    downloads.find_unfinished()
    qtbot.waitUntil(lambda: bool(downloads.states))
    assert downloads.states["org/tiny"].description == f"Paused · {size(downloads.states['org/tiny'].done)} downloaded"
    served.files["org/other"], served.about["org/other"] = {}, {}
    parent = QWidget()
    qtbot.addWidget(parent)
    dialog = ModelsDialog(later, downloads, Settings, parent)
    dialog.tabs.setCurrentIndex(1)
    dialog.hub.search_hub()
    qtbot.waitUntil(lambda: titles(dialog.hub.list) == ["org/tiny", "org/other"])
    dialog.hub.list.go_to("org/tiny")
    qtbot.keyClick(dialog.hub.list, Qt.Key.Key_Delete)
    (question,) = dialog.hub.findChildren(DiscardQuestion)
    assert size(downloads.states["org/tiny"].done) in question.informativeText()
    qtbot.keyClick(question, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not dialog.hub.findChildren(DiscardQuestion))
    assert download.unfinished(), "Escape discarded what had arrived"
    dialog.hub.discard.click()
    dialog.hub.findChildren(DiscardQuestion)[0].discard_button.click()
    dialog.hub.stop()
    qtbot.waitUntil(lambda: not download.unfinished())
    later.close()


def test_the_built_in_model_and_one_in_the_hub_s_cache_are_listed_and_deleted(
    qtbot: QtBot, open_window: Open, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    repository = cache / "models--org--pair"
    made = tiny_models.write_folder(tmp_path / "made")
    for commit, named in (("a" * 40, "main"), ("b" * 40, "old")):
        place = repository / "snapshots" / commit
        place.mkdir(parents=True)
        (repository / "blobs").mkdir(exist_ok=True)
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / named).write_text(commit)
        for file in made.iterdir():
            blob = repository / "blobs" / (f"{commit[0]}-{file.name}" if file.name == "config.json" else file.name)
            blob.write_bytes(file.read_bytes())
            (place / file.name).symlink_to(blob)
    tiny_models.write_gguf(repository / "snapshots" / ("a" * 40) / "tiny.gguf")
    window, _ = open_window()
    window.chat.change("target", "ngram")
    window.models.open()
    dialog = window.models.dialog
    assert dialog is not None
    page = dialog.machine
    qtbot.waitUntil(lambda: titles(page.list) == ["org/pair", "org/pair: tiny.gguf"])
    page.list.go_to("builtin")
    assert "downloaded when it is first used" in page.list.entries.at(page.list.currentIndex()).facts
    assert not page.delete.isEnabled()
    assert "Made for it: Trained head, Small draft model and Block drafter." in page.pairs.text()
    builtin.builtin_path().parent.mkdir()
    tiny_models.write_gguf(builtin.builtin_path())
    page.reload()
    qtbot.waitUntil(page.delete.isEnabled)
    page.delete.click()
    (question,) = page.findChildren(DeleteQuestion)
    assert "downloaded again when it is next used" in question.informativeText()
    question.delete_button.click()
    qtbot.waitUntil(lambda: not builtin.builtin_path().exists() and not page.findChildren(DeleteQuestion))

    page.list.go_to(str(repository / "snapshots" / ("a" * 40) / "tiny.gguf"))
    assert page.delete.isEnabled()
    page.delete.click()
    qtbot.waitUntil(lambda: bool(page.findChildren(DeleteQuestion)))
    (question,) = page.findChildren(DeleteQuestion)
    told = question.informativeText()
    assert "org/pair at aaaaaaa" in told and "model.safetensors" in told and "tiny.gguf" in told
    assert "Other programs use the Hub's cache too" in told
    question.delete_button.click()
    gone = (repository / "snapshots" / ("a" * 40), repository / "blobs" / "a-config.json")  # one after the other, on a thread
    qtbot.waitUntil(lambda: not any(path.exists() for path in gone))
    old = repository / "snapshots" / ("b" * 40)
    assert (old / "model.safetensors").is_file() and (old / "config.json").is_file(), "files of another revision went too"
    qtbot.waitUntil(lambda: titles(page.list) == ["org/pair"])
    with pytest.raises(DraftlightError, match="not in the cache"):
        delete_cached(models / "elsewhere")


class CountingDelegate(EntryDelegate):
    """Remembers which rows it paints."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.rows: set[int] = set()

    def paint(self, painter: Any, option: Any, index: Any) -> None:
        self.rows.add(index.row())
        super().paint(painter, option, index)


def test_of_five_hundred_models_only_those_in_view_are_painted(qtbot: QtBot) -> None:
    list_ = EntryList("Models", "")
    qtbot.addWidget(list_)
    counting = CountingDelegate(list_)
    counting.set_look(themes.DARK, 1.0)
    list_.setItemDelegate(counting)
    list_.show_entries([Entry(str(number), f"Model {number}", "facts") for number in range(500)])
    list_.resize(600, 400)
    list_.show()
    qtbot.waitUntil(lambda: bool(counting.rows))
    assert len(counting.rows) < 20
    list_.go_to("400")
    list_.show_entries([Entry(str(number), f"Model {number}", "other facts") for number in range(500)])
    assert list_.key == "400", "the keyboard left its model"
    list_.set_query("model 7")
    assert len(titles(list_)) == 500 - 5 * 9 * 9


def test_only_rows_in_view_are_checked_as_drafters_and_each_once(
    qtbot: QtBot, open_window: Open, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [LibraryModel(f"m{number:03}", f"/models/m{number:03}", "LM Studio", 1) for number in range(300)]
    monkeypatch.setattr("app.library.machine_page.library.find", lambda folders: listed)
    monkeypatch.setattr("app.library.machine_page.CHECK_DELAY_MS", 0)
    window, engine = open_window()
    engine.misfits |= {model.name: f"{model.name} has other tokens." for model in listed[::2]}
    window.models.open_for("drafter")
    dialog = window.models.dialog
    assert dialog is not None
    page, asked = dialog.machine, []
    page.check_requested.connect(asked.append)

    def problems() -> list[str]:
        """Of the rows that can be seen."""
        rows = [page.list.entries.row_of(key) for key in page.list.visible_keys()]
        return [page.list.entries.at(page.list.entries.index(row)).problem for row in rows if row is not None]

    def as_judged() -> list[str]:
        return [engine.misfits.get(key.rpartition("/")[2], "") for key in page.list.visible_keys()]

    qtbot.waitUntil(lambda: any(problems()) and problems() == as_judged())
    assert "/models/m000" in asked and len(asked) < 40
    page.list.scrollToBottom()
    qtbot.waitUntil(lambda: "/models/m299" in page.list.visible_keys() and any(problems()) and problems() == as_judged())
    page.list.scrollToTop()
    page.refresh()
    qtbot.wait(20)
    assert len(asked) == len(set(asked)) < 80


def test_a_row_has_its_full_text_for_screen_readers() -> None:
    model = LibraryModel("tiny", "/models/tiny", "LM Studio", 4 * 10**9, "llama", "Q4_0", 8192, "window", 30 * 10**9, form="GGUF")
    entry = model_entry(model, 10 * 10**9, "/models/tiny", "ngram")
    assert entry.spoken == (
        "tiny, Target, 4.0 GB, GGUF Q4_0 · llama · context 8,192 · sliding window · 30.0 GB of memory, 10.0 GB free · LM Studio"
    )


def test_only_models_are_accepted_as_dropped_models(tmp_path: Path) -> None:
    folder = tiny_models.write_folder(tmp_path / "model")
    (tmp_path / "blob").write_bytes(b"GGUF and more")
    for paths, expected in (
        ([folder], folder),
        ([tmp_path / "blob"], tmp_path / "blob"),
        ([tmp_path], None),
        ([folder, folder], None),
    ):
        assert dropped_model(dragged(*paths)) == expected


def test_known_draft_models_are_listed_without_a_network_and_looked_up_when_asked_for(
    qtbot: QtBot, open_window: Open, models: Path, served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.library.hub_page.available_memory", lambda: 400_000_000)
    here = "mlx-community/Qwen3-0.6B-4bit"
    tiny_models.write_folder(models / here)
    served.files[here], served.about[here] = {}, {}
    window, _ = open_window()
    window.models.open()
    dialog = window.models.dialog
    assert dialog is not None
    qtbot.waitUntil(lambda: here in dialog.machine.repositories)
    dialog.tabs.setCurrentIndex(1)
    page = dialog.hub
    rows = {
        page.list.entries.at(page.list.entries.index(row)).key: page.list.entries.at(page.list.entries.index(row))
        for row in range(page.list.entries.rowCount())
    }
    assert list(rows) == [model.repository for model in recommended()]
    assert {pair.repository for pair in catalogue() if pair.repository} == set(rows), "each of the catalogue once"
    assert rows[here].mark == "On this machine"
    assert "drafts for Qwen3 4B, 8B, 14B and 32B" in rows[here].facts and "about 338 MB of weights" in rows[here].facts
    assert "more than is free" not in rows[here].facts
    assert "more than is free" in rows["mlx-community/Meta-Llama-3.1-8B-Instruct-4bit"].facts
    for key in rows:
        page.list.go_to(key)
        assert page.download.isEnabled() and page.download.text() == "Download… (needs the network)"
        assert "Needs the network" in page.download.toolTip() and "licence" in page.about.text()
    assert served.asked == []
    page.list.go_to(here)
    page.download.click()
    assert page.search.text() == here
    qtbot.waitUntil(lambda: titles(page.list) == [here])
    page.search.clear()
    qtbot.waitUntil(lambda: page.list.entries.rowCount() == len(rows))
