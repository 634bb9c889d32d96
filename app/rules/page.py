"""The page that judges the shown answer again under another rule or with fewer proposals per round."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QComboBox, QLabel, QSizePolicy, QWidget

from app.look.fields import require_focus_for_wheel
from app.look.flow_layout import FlowLayout
from app.look.rule_selector import RuleSelector
from app.look.theme import Theme
from app.look.widgets import choice_box, in_column, named, push_button, restyle, scrolling, stretch, text_label
from app.rules.changes import ChangeList
from app.session.cursor import Cursor, Place
from app.session.session import NO_ROUNDS_YET, Answer
from app.session.shown_answer import ShownAnswer
from engine.lens.rejudge import JUDGED_AGAIN, Rejudge, refusal
from engine.lens.rejudge_words import limits, summary
from engine.types import ExpectedRule

WAITING = "What another rule would have kept and rejected appears here as proposals are judged."


class RulesPage(QWidget):
    """Judges each round once, when it arrives. While the page is shown, text and lanes mark the changes."""

    def __init__(self, shown: ShownAnswer, cursor: Cursor) -> None:
        super().__init__()
        self.shown, self.cursor_place = shown, cursor
        self._answer: Answer | None = None
        self._judged: Rejudge | None = None
        self._chosen: ExpectedRule | None = None
        self._gamma: int | None = None
        self._offered = 0
        self._marks: dict[int, Place] = {}
        self.title = named(QLabel("Judge again under"), "sectionTitle")
        self.rule = named(
            RuleSelector(JUDGED_AGAIN, "againSelector", "Rule to judge again with"),
            description="Shows what this rule would have kept and rejected in the answer that is shown.",
        )
        self.rule.chosen.connect(self._rule_chosen)
        self.gamma = named(choice_box(), "againGamma")
        require_focus_for_wheel(self.gamma)
        self.gamma.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        named(
            self.gamma,
            label="Proposals per round to judge again",
            tip="<p>How many proposals of each round are judged again. A longer draft than was made is not known.</p>",
        )
        self.gamma.activated.connect(self._gamma_chosen)
        self.keep = push_button("Keep marks", "smallButton")
        self.keep.setCheckable(True)
        named(
            self.keep,
            description="Keeps the changes marked in the text and in the rounds while another page is shown.",
            tip="<p>Keep the brackets in the text and over the rounds while another page is shown.</p>",
        )
        self.keep.toggled.connect(self._mark)
        self.found, self.words, self.notes = (text_label(f"again{name}", selectable=True) for name in ("Found", "Words", "Notes"))
        for label in (self.found, self.words, self.notes):
            policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
            policy.setHeightForWidth(True)
            label.setSizePolicy(policy)
        self.list = ChangeList(cursor)
        self._arrange()
        self._offer(0)
        self.rule.set_rule("rejection")

    def _arrange(self) -> None:
        controls = FlowLayout(8)
        for control in (self.title, self.rule, self.gamma, self.keep):
            controls.addWidget(control)
        body = named(QWidget(), "panelBody")
        in_column(
            in_column(controls, 2, self.found, self.words, self.notes, spacing=8, margins=(16, 0, 12, 0)),
            (self.list, 1),
            stretch(0),  # takes the space of the hidden list
            spacing=8,
            margins=(0, 8, 0, 0),
            parent=body,
        )
        self.area = scrolling(body)  # for low windows, and for large text
        in_column(self.area, parent=self)
        self.setTabOrder(self.gamma, self.keep)
        self.setTabOrder(self.keep, self.list)

    # Input.

    @property
    def asked(self) -> ExpectedRule:
        """The rule that judges again: the chosen one, else one that the answer did not use."""
        if self._chosen is not None:
            return self._chosen
        answer = self.shown.answer
        return "rejection" if answer is None or answer.options.rule != "rejection" else "gumbel"

    @Slot(str)
    def _rule_chosen(self, rule: str) -> None:
        self._chosen = next(known for known in JUDGED_AGAIN if known == rule)
        self._restart()
        self.refresh()

    @Slot(int)
    def _gamma_chosen(self, index: int) -> None:
        self._gamma = self.gamma.itemData(index)
        self._restart()
        self.refresh()

    def _offer(self, max_proposals: int) -> None:
        """Offers to judge at most 1, 2, … `max_proposals` - 1 proposals a round; `max_proposals` itself is “All proposals”."""
        if self._offered == max_proposals and self.gamma.count():
            return
        self._offered = max_proposals
        self.gamma.clear()
        self.gamma.addItem("All proposals", None)
        for count in range(1, max_proposals):
            self.gamma.addItem(f"At most {count} a round", count)
        self.gamma.setCurrentIndex(max(0, self.gamma.findData(self._gamma)))

    # Output.

    def refresh(self) -> None:
        """Judges the new rounds of the answer and shows the result."""
        answer = self.shown.answer
        rounds = [] if answer is None else answer.rounds
        if answer is not self._answer or (self._judged is not None and len(rounds) < len(self._judged.rounds)):
            self._answer = answer
            self._gamma = None
            self._restart()
        self.rule.set_rule(self.asked)
        self._judge()
        judged = self._judged
        self._offer(0 if judged is None else judged.max_proposals)
        notes: list[str] = []
        if answer is None or not rounds or (judged is not None and not judged.rules and answer.running):
            words = [WAITING if answer is None or answer.waiting_words == NO_ROUNDS_YET else answer.waiting_words]
        elif judged is None:
            words = [refusal(answer.options, self.asked, self._gamma, rounds=rounds)]
        else:
            words, notes = summary(judged), [] if judged.failure_reason else limits(judged)
        found, *rest = words
        for label, said in ((self.found, found), (self.words, "\n".join(rest)), (self.notes, " ".join(notes))):
            label.setText(said)
            label.setVisible(bool(said))
        restyle(self.found, "alone", not rest)
        has_rows = self.list.changes.rowCount() > 0
        self.list.setVisible(has_rows)
        self.setFocusProxy(self.list if has_rows else self.rule.buttons[self.asked])

    def _restart(self) -> None:
        self._judged = None
        self._marks = {}
        self.list.turn = self.shown.turn
        self.list.changes.begin(self._answer, self.asked)
        self._mark()

    def _judge(self) -> None:
        """Judges the rounds added since the last call; none if the answer cannot be judged again at all."""
        answer = self._answer
        if answer is None or (self._judged is None and refusal(answer.options, self.asked, self._gamma)):
            return
        if self._judged is None:
            self._judged = Rejudge(answer.options, self.asked, self._gamma)
        fresh = [self._judged.add(round_) for round_ in answer.rounds[len(self._judged.rounds) :]]
        changes = [found.change for found in fresh if found.change is not None]
        if changes:
            self.list.changes.add(changes)
            self._marks |= {change.spot.round: Place(self.list.turn, change.spot.round, change.spot.at) for change in changes}
            self._mark()

    @property
    def marks(self) -> bool:
        """Whether the changes are marked in the text and in the rounds: while the page is shown, or if the user keeps the
        marks."""
        return self.isVisible() or self.keep.isChecked()

    @Slot()
    def _mark(self) -> None:
        self.cursor_place.mark(self._marks if self.marks else {})

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the list; the style sheet does the rest."""
        self.list.set_look(theme, scale)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._mark()

    def hideEvent(self, event: QHideEvent) -> None:
        """Removes the marks, unless they are kept."""
        super().hideEvent(event)
        self._mark()
