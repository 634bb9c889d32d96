"""The conversation with its verdict card, without the rest of the window, which takes ten times as long to open."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QImage, QMouseEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.conversation.transcript import Transcript
from app.conversation.verdict_card import VerdictCard
from app.conversation.verdict_host import VerdictHost
from app.look.stylesheet import stylesheet
from app.look.theme import Theme
from app.look.widgets import in_column
from app.session.cursor import Cursor, Place
from app.session.session import Answer, Session
from engine.lens.pieces import Ghosts
from engine.types import DecodingOptions, Message, Request, Round, RoundFinished, RunFinished, RunStarted

PROMPT = "Tell me a story."


class Conversation:
    """A conversation. Messages of the user and what the engine says are put into its session.

    Attributes:
        target: the model that answers next.
    """

    def __init__(self, size: tuple[int, int], ghosts: Ghosts, reading: bool, theme: Theme, scale: float) -> None:
        self.target = "builtin"
        self.session, self.cursor, self.host, self.panel = Session(clock=lambda: 0.0), Cursor(), QWidget(), QWidget()
        self.transcript = Transcript(self.session, theme, scale, ghosts, self.cursor, reading)
        in_column((self.transcript, 1), self.panel, parent=self.host)
        self.host.setStyleSheet(stylesheet(theme, scale))
        self.verdicts = VerdictHost(self.host, self.transcript, self.cursor, self.panel, lambda: self.target)
        self.verdicts.set_look(theme, scale)
        self.host.resize(*size)

    @property
    def card(self) -> VerdictCard:
        return self.verdicts.card

    @property
    def answer(self) -> Answer:
        return self.session.turns[-1].answer

    def ask(self, rounds: Sequence[Round], prompt: str = PROMPT, finished: bool = True) -> Answer:
        """Adds a turn whose answer has these rounds, and ends it unless told otherwise."""
        options = DecodingOptions(seed=4242)
        answer = self.session.add_turn(prompt, options, "head")
        answer.shows_thought = False
        answer.run_id, answer.request = len(self.session.turns), Request((Message("user", prompt),), options)
        self.session.apply(RunStarted(answer.run_id, options, 10, "head", "", ""))
        self.add(rounds)
        if finished:
            self.finish()
        return answer

    def add(self, rounds: Sequence[Round], only_rounds: bool = False) -> None:
        """Gives the newest answer more rounds; `only_rounds` as in `Transcript.sync`."""
        for round_ in rounds:
            self.session.apply(RoundFinished(self.answer.run_id, round_, 0.1))
        self.transcript.sync(only_rounds)

    def finish(self) -> None:
        """Ends the newest answer."""
        answer = self.answer
        text = "".join(round_.text for round_ in answer.rounds)
        tokens = sum(len(round_.emitted) for round_ in answer.rounds)
        self.session.apply(RunFinished(answer.run_id, "eos", text, tokens, 1.0, 0.1, 0.1, None))
        self.transcript.sync()
        self.verdicts.touch()

    def shown_text(self) -> str:
        """The newest answer's text as it stands on the screen, without ghosts."""
        flow = self.transcript.blocks[-1].flow
        return flow.text_between(0, flow.length)

    def middle(self, place: Place) -> QPoint:
        """A point of the viewport on a token."""
        return self.transcript.pointing.boxes(place)[0].center().toPoint()

    def hover(self, at: Place | QPoint) -> None:
        """Moves the mouse pointer to a token or a point of the viewport."""
        point, none = QPointF(self.middle(at) if isinstance(at, Place) else at), Qt.MouseButton.NoButton
        viewport = self.transcript.viewport()
        move = QMouseEvent(QEvent.Type.MouseMove, point, viewport.mapToGlobal(point), none, none, Qt.KeyboardModifier.NoModifier)
        QApplication.sendEvent(viewport, move)

    def click(self, qtbot: QtBot, place: Place) -> None:
        qtbot.mouseClick(self.transcript.viewport(), Qt.MouseButton.LeftButton, pos=self.middle(place))


Show = Callable[..., Conversation]


def gain(answer: Answer, rounds: Sequence[Round]) -> Answer:
    """Returns the answer, with more rounds."""
    for round_ in rounds:
        answer.tally.add(round_)
        answer.rounds.append(round_)
        answer.text.add(round_)
    return answer


def colours_in(image: QImage) -> set[str]:
    """The colours of an image, as #rrggbb."""
    pixels = np.frombuffer(image.convertToFormat(QImage.Format.Format_RGB32).constBits(), np.uint32)
    return {f"#{colour & 0xFFFFFF:06x}" for colour in np.unique(pixels)}
