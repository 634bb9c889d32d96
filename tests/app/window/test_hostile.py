"""Names and answers that were made to do harm are shown as they stand: nothing is fetched, run or taken for markup."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QComboBox, QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.conversation.link_question import LONGEST, LinkQuestion
from app.conversation.reading_view import ReadingFlow
from app.look.widgets import plain_tip
from app.session.attachments import Attachment
from app.session.settings import Preset
from app.window.settings_window import SettingsWindow
from engine.chats import ChatSettings, ChatStore, Conversation, Making, StoredMessage
from engine.chats.values import ChatSummary
from tests.app.driving import Open, answered, settle
from tests.app.fakes import make_round
from tests.listening import listening

HARM = "<img src='file:///etc/hostname'><b>bold</b>"


@pytest.fixture
def fetched() -> Iterator[tuple[str, list[str]]]:
    """The address of a server of this machine, and what it is asked for."""
    with listening() as found:
        yield found


def as_markup(widget: QWidget) -> list[str]:
    """What labels and tooltips of these widgets would take for markup, though a stranger wrote it."""
    found = []
    for each in (widget, *widget.findChildren(QWidget)):
        texts = [(each.toolTip(), True)]
        if isinstance(each, QLabel):
            texts.append((each.text(), each.textFormat() != Qt.TextFormat.PlainText))
        if isinstance(each, QComboBox):
            texts += [(str(each.itemData(row, Qt.ItemDataRole.ToolTipRole) or ""), True) for row in range(each.count())]
        found += [f"{type(each).__name__} {each.objectName()}: {text}" for text, rich in texts if rich and "<img" in text]
    return found


def test_a_tooltip_says_foreign_words_as_they_stand(qapp: object) -> None:
    assert plain_tip("SmolLM2 4-bit\nis here") == "SmolLM2 4-bit\nis here"
    document = QTextDocument()
    document.setHtml(plain_tip(f"a  {HARM}\n& b"))
    assert document.toPlainText().split("\n") == [f"a  {HARM}", "& b"]


def test_names_are_no_markup_anywhere_in_the_window(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(
        target=f"/models/{HARM}",
        recent_models=(f"/models/{HARM}", "builtin"),
        drafter=f"/drafters/{HARM}",
        presets=(Preset(HARM), Preset("none")),
        store=ChatStore,
    )
    window.composer.attach([Attachment(f"{HARM}.txt", "words")])
    answered(qtbot, window, "hello")
    window.open_settings()
    window.findChild(SettingsWindow).search.setText(HARM)
    window.banner.show_message(HARM, "error")
    window.pages.open_compare("with-without")
    settle()
    assert as_markup(window) == []
    assert as_markup(window.findChild(SettingsWindow)) == []
    label = QLabel(HARM, window)
    assert len(as_markup(window)) == 1, "the twin: a label that nobody told that it is no markup"
    label.deleteLater()
    names = [window.options.presets.box.itemText(row) for row in range(window.options.presets.box.count())]
    assert names[0] == "None" and names[1:] == [HARM, "“none”"], "a preset that is called as no preset is"


def test_a_link_question_shows_start_and_end_of_the_address(qtbot: QtBot, qapp: object) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    question = LinkQuestion(f"http://x.org/{HARM}{'a' * 10**6}", parent)
    assert as_markup(question) == []
    assert HARM in question.informativeText() and len(question.informativeText()) == LONGEST + 1
    question.deleteLater()


def test_an_answer_fetches_nothing_in_either_view(
    qtbot: QtBot, share_window: Open, fetched: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, asked = fetched
    opened: list[str] = []
    monkeypatch.setattr("app.conversation.link_question.QDesktopServices.openUrl", lambda url: opened.append(url.toString()))
    text = (
        f"<script>fetch('{address}a')</script><img src='{address}b'> ![x]({address}c.png) ![y](file:///etc/hostname)"
        f" <{address}d>\n"
        f"\x1b]8;;{address}e\x07\x1b[2J\u202e{'x' * 9000}\n<iframe src='{address}f'></iframe>[z]({address}g)"
    )
    tokens = [text[at : at + 7] for at in range(0, len(text), 7)]
    rounds = [make_round(at // 4, tokens[at : at + 3], tokens[at + 3], position=40 + at) for at in range(0, len(tokens) - 3, 4)]
    window, _ = share_window(rounds)
    answered(qtbot, window)
    for _ in range(2):
        window.toggle_reading()
        settle()
        assert not window.grab().isNull()
        assert window.settings.reading is isinstance(window.transcript.blocks[-1].flow, ReadingFlow)
    assert asked == [] and opened == []


def test_imported_chats_with_markup_are_listed_and_shown(qtbot: QtBot, open_window: Open, tmp_path: Path, home: Path) -> None:
    messages = (
        StoredMessage(1, None, "user", "q\x1b[2J" + "w" * 20_000, 0.0),
        StoredMessage(2, 1, "assistant", HARM, 0.0, "complete", Making(f"gpt{HARM}")),
    )
    with ChatStore() as store:
        (number,) = store.add(
            [Conversation(ChatSummary(0, f"{HARM}\n\u202e{'t' * 10**6}", 0.0, 0.0, named=True), ChatSettings(), messages, 1)]
        )
        assert number is not None
        about = store.open(number).about
        now = store.create(ChatSettings())
        assert abs(about.created - store.open(now).about.created) < 3600, "a file that states no times is as old as its import"
        assert len(about.title) <= 200 and "\n" not in about.title
    window, _ = open_window(store=ChatStore)
    window.sidebar.start()
    window.chats.open(number)
    qtbot.waitUntil(lambda: len(window.session.turns) == 1)
    settle()
    assert window.status.line.text() == "Imported answer"
    index = window.sidebar.list.model().index(1, 0)
    tips = [
        str(window.sidebar.list.model().index(row, 0).data(Qt.ItemDataRole.ToolTipRole) or "")
        for row in range(window.sidebar.list.model().rowCount())
    ]
    assert index.isValid() and any("&lt;img" in tip for tip in tips) and not any("<img" in tip for tip in tips)

    def said() -> list[str]:
        return [label.text() for label in window.panel.findChildren(QLabel) if label.isVisible()]

    for page in ("charts", "rules"):
        window.open_page(page)
        qtbot.waitUntil(lambda: "This answer was imported without its rounds." in said())
    window.show_tour()
    window.pages.toggle()
    assert not window.tour.isVisible(), "what it points at is not in the comparison"
