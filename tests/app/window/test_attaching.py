"""Attached files in the window: by dialog, by dropping and by pasting, with their tokens, removed again, sent and edited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from app.conversation.composer import AttachmentPreview
from app.conversation.screen_reader import plain_text
from app.window.window import Window
from tests.app.driving import Open, dragged, drop, settle, wait_for_answer
from tests.app.look.test_large_text import cut_off


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    contents = {"a.py": b"x = 1\r\ny = 2\r\n", "b.txt": b"one two three", "c.png": b"\x89PNG\0\0", "m.gguf": b"GGUF"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return {name: tmp_path / name for name in contents}


def chips(window: Window) -> list[str]:
    return [chip.words.text() for chip in window.composer.chips]


def test_files_are_attached_counted_removed_sent_and_edited(
    qtbot: QtBot, share_window: Open, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    window, engine = share_window()
    composer, banner = window.composer, window.banner
    chosen: Any = lambda *_: ([str(files["a.py"]), str(files["c.png"])], "")  # noqa: E731
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", chosen)
    composer.clip.click()
    said = banner.label.text()
    assert said.startswith("c.png is not a text file") and said.endswith("Line endings changed to those of Unix: a.py.")
    qtbot.waitUntil(lambda: chips(window) == ["a.py  6 tokens"])  # the scripted engine counts words
    assert composer.send.isEnabled() and "line endings were changed" in composer.chips[0].toolTip()

    assert drop(composer.edit.viewport(), files["b.txt"])
    assert drop(window.transcript, files["b.txt"]), "a file is attached once, wherever it is dropped"
    qtbot.waitUntil(lambda: chips(window) == ["a.py  6 tokens", "b.txt  3 tokens"])
    assert drop(window, files["m.gguf"]) and window.settings.target == str(files["m.gguf"]), "a model is no attachment"
    assert len(composer.chips) == 2

    composer.chips[1].remove.click()
    assert chips(window) == ["a.py  6 tokens"] and composer.edit.hasFocus()
    QApplication.clipboard().setMimeData(dragged(files["b.txt"]))
    composer.edit.paste()
    QApplication.clipboard().setText("pasted\r\ntext")
    composer.edit.paste()
    assert composer.edit.toPlainText() == "pasted\ntext" and len(composer.chips) == 2
    qtbot.waitUntil(lambda: window.composer.context.text().startswith("19 of "))  # with "File:", names and fences

    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    wait_for_answer(qtbot, window)
    prompt = "pasted\ntext\n\nFile: a.py\n```py\nx = 1\ny = 2\n```\n\nFile: b.txt\n```txt\none two three\n```"
    assert engine.requests[0].messages[-1].content == prompt
    assert not composer.chips and composer.edit.toPlainText() == ""
    assert "You: pasted\ntext\n[a.py, 2 lines]\n[b.txt, 1 line]\n" in plain_text(window.transcript)
    qtbot.keyClick(composer.edit, Qt.Key.Key_Up)
    assert composer.edit.toPlainText() == "pasted\ntext"
    qtbot.waitUntil(lambda: chips(window) == ["a.py  6 tokens", "b.txt  3 tokens"])
    assert composer.text == prompt
    window.escape()
    assert not composer.chips


@pytest.mark.usefixtures("fonts")
def test_chips_leave_enough_height_for_the_message_field(qtbot: QtBot, share_window: Open, files: dict[str, Path]) -> None:
    window, _ = share_window()
    window.resize(window.minimumSize())
    window.drop_handler.attacher.attach_paths([files["a.py"], files["b.txt"]])
    qtbot.waitUntil(lambda: "tokens" in chips(window)[1])
    settle()
    composer = window.composer
    assert not list(cut_off(composer))
    frame = composer.frame.rect()
    scrolls = composer.chip_area.verticalScrollBar().maximum() > 0
    shown = composer.chips[:1] if scrolls else composer.chips
    for part in (*shown, composer.chip_area, composer.edit, composer.send, composer.clip):
        assert frame.contains(part.mapTo(composer.frame, part.rect().bottomRight())), part.objectName()
    assert composer.edit.height() >= composer.edit.fontMetrics().lineSpacing()
    assert window.rect().contains(composer.send.mapTo(window, composer.send.rect().bottomRight()))


def paste(window: Window, text: str) -> None:
    data = QMimeData()
    data.setText(text)
    window.composer.edit.insertFromMimeData(data)


LINES = "\n".join(f"line {number} of a log" for number in range(61))


def test_a_long_pasted_text_becomes_an_attachment(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    composer = window.composer
    for text in ("x" * 4001, LINES, LINES.replace("\n", "\r\n")):
        composer.set_text("What is wrong here? ")
        paste(window, text)
        assert composer.edit.toPlainText() == "What is wrong here? "
        assert [chip.attachment.text for chip in composer.chips] == [text.replace("\r\n", "\n")]
        paste(window, text + " again")
        assert [chip.attachment.name for chip in composer.chips] == ["Pasted text.txt", "Pasted text 2.txt"]
        composer.submit()
        assert text.replace("\r\n", "\n") in engine.requests[-1].messages[-1].content
        assert engine.requests[-1].messages[-1].content.startswith("What is wrong here?")
        wait_for_answer(qtbot, window)


def test_a_shorter_pasted_text_stays_text(share_window: Open) -> None:
    window, _ = share_window()
    for text in ("x" * 4000, "\n".join(["short"] * 60), "\n" * 90):
        window.composer.set_text("What is wrong here? ")
        paste(window, text)
        assert not window.composer.chips and window.composer.edit.toPlainText() == f"What is wrong here? {text}"


def test_a_pasted_attachment_can_be_read_inserted_and_undone(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    composer = window.composer

    def undo() -> None:
        qtbot.keyClick(composer.edit, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)

    composer.edit.setFocus()
    qtbot.keyClicks(composer.edit, "See ")
    paste(window, LINES)
    qtbot.keyClicks(composer.edit, "x")
    undo()
    assert len(composer.chips) == 1, "what was typed behind it is undone first"
    composer.show_text("See ")
    paste(window, LINES)
    composer.chips[0].words.click()
    preview = window.findChild(AttachmentPreview)
    assert isinstance(preview, AttachmentPreview) and preview.words.toPlainText() == LINES and preview.words.isReadOnly()
    preview.unfold.click()
    assert composer.chips == [] and composer.edit.toPlainText() == f"See {LINES}"
    undo()
    assert len(composer.chips) == 1 and composer.edit.toPlainText() == "See "
    undo()
    assert composer.chips == [] and composer.edit.toPlainText() == "See "
    paste(window, LINES)
    composer.chips[0].remove.click()
    undo()
    assert composer.chips == [], "one that was removed does not come back by undoing its paste"


def test_in_raw_completion_a_long_text_is_pasted_unchanged(share_window: Open) -> None:
    window, _ = share_window(raw=True)
    paste(window, LINES)
    assert window.composer.chips == [] and window.composer.edit.toPlainText() == LINES
