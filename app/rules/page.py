"""The page that judges the shown answer again under another rule or with fewer proposals per round."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QComboBox, QLabel, QSizePolicy, QWidget

from app.look.fields import require_focus_for_wheel
from app.look.flow_layout import FlowLayout
from app.look.selectors import RuleSelector
from app.look.theme import Theme
from app.look.widgets import choice_box, in_column, named, push_button, restyle, scrolling, stretch, text_label
from app.rules.changes import ChangeList
from app.session.cursor import Cursor, Place, ShownAnswer
from app.session.session import NO_ROUNDS_YET, Answer
from engine.lens.rejudge import JUDGED_AGAIN, Rejudge, refusal
from engine.lens.rejudge_words import limits, summary
from engine.types import ExpectedRule

EMPTY_NOTE = "As proposals are judged, this page shows what another rule would accept and reject."


class RulesPage(QWidget):
    """Judges each round once, when it arrives. While the page is shown, text and lanes mark the changes."""

    def __init__(self, shown: ShownAnswer, cursor: Cursor) -> None:
        super().__init__()
        self.shown, self.cursor_place = shown, cursor
        self._answer: Answer | None = None
        self._rejudge: Rejudge | None = None
        self._chosen: ExpectedRule | None = None
        self._gamma: int | None = None
        self._offered_gamma = 0
        self._marks: dict[int, Place] = {}
        self.title = named(QLabel("Judge again under"), "sectionTitle")
        self.rule = named(
            RuleSelector(JUDGED_AGAIN, "againSelector", "Rule to judge again with"),
            description="Shows what this rule would have accepted and rejected in the shown answer.",
        )
        self.rule.chosen.connect(self._rule_chosen)
        self.gamma = named(choice_box(), "againGamma")
        require_focus_for_wheel(self.gamma)
        self.gamma.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        named(
            self.gamma,
            label="Proposals per round to judge again",
            tip="<p>How many proposals of each round are judged again. Longer drafts than recorded cannot be judged.</p>",
        )
        self.gamma.activated.connect(self._gamma_chosen)
        self.keep_marks = push_button("Keep marks", "smallButton")
        self.keep_marks.setCheckable(True)
        named(
            self.keep_marks,
            description="Keeps the changes marked in the text and in the rounds while another page is shown.",
            tip="<p>Keep the brackets in the text and over the rounds while another page is shown.</p>",
        )
        self.keep_marks.toggled.connect(self._mark)
        self.headline, self.details, self.notes = (
            text_label(f"again{name}", selectable=True) for name in ("Found", "Words", "Notes")
        )
        for label in (self.headline, self.details, self.notes):
            policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
            policy.setHeightForWidth(True)
            label.setSizePolicy(policy)
        self.list = ChangeList(cursor)
        self._arrange()
        self._fill_gamma(0)
        self.rule.set_rule("rejection")

    def _arrange(self) -> None:
        controls = FlowLayout(8)
        for control in (self.title, self.rule, self.gamma, self.keep_marks):
            controls.addWidget(control)
        body = named(QWidget(), "panelBody")
        in_column(
            in_column(controls, 2, self.headline, self.details, self.notes, spacing=8, margins=(16, 0, 12, 0)),
            (self.list, 1),
            stretch(0),  # takes the space of the hidden list
            spacing=8,
            margins=(0, 8, 0, 0),
            parent=body,
        )
        self.area = scrolling(body)  # for low windows, and for large text
        in_column(self.area, parent=self)
        self.setTabOrder(self.gamma, self.keep_marks)
        self.setTabOrder(self.keep_marks, self.list)

    # Input.

    @property
    def effective_rule(self) -> ExpectedRule:
        """The rule that judges again: the chosen one, else one that the answer did not use."""
        if self._chosen is not None:
            return self._chosen
        answer = self.shown.answer
        return "rejection" if answer is None or answer.options.rule != "rejection" else "gumbel"

    @Slot(str)
    def _rule_chosen(self, rule: str) -> None:
        self._chosen = next(each for each in JUDGED_AGAIN if each == rule)
        self._reset()
        self.refresh()

    @Slot(int)
    def _gamma_chosen(self, index: int) -> None:
        self._gamma = self.gamma.itemData(index)
        self._reset()
        self.refresh()

    def _fill_gamma(self, longest: int) -> None:
        """Offers to judge at most 1, 2, … `longest` - 1 proposals a round; `longest` itself is “All proposals”."""
        if self._offered_gamma == longest and self.gamma.count():
            return
        self._offered_gamma = longest
        self.gamma.clear()
        self.gamma.addItem("All proposals", None)
        for count in range(1, longest):
            self.gamma.addItem(f"At most {count} a round", count)
        self.gamma.setCurrentIndex(max(0, self.gamma.findData(self._gamma)))

    # Output.

    def refresh(self) -> None:
        """Judges the new rounds of the answer and shows the result."""
        answer = self.shown.answer
        rounds = [] if answer is None else answer.rounds
        if answer is not self._answer or (self._rejudge is not None and len(rounds) < len(self._rejudge.rounds)):
            self._answer = answer
            self._gamma = None
            self._reset()
        self.rule.set_rule(self.effective_rule)
        self._judge()
        rejudge = self._rejudge
        self._fill_gamma(0 if rejudge is None else rejudge.max_proposals)
        notes: list[str] = []
        if answer is None or not rounds or (rejudge is not None and not rejudge.rules and answer.running):
            lines = [EMPTY_NOTE if answer is None or answer.waiting_words == NO_ROUNDS_YET else answer.waiting_words]
        elif rejudge is None:
            lines = [refusal(answer.options, self.effective_rule, self._gamma, rounds=rounds)]
        else:
            lines, notes = summary(rejudge), [] if rejudge.failure_reason else limits(rejudge)
        headline, *details = lines
        for label, text in ((self.headline, headline), (self.details, "\n".join(details)), (self.notes, " ".join(notes))):
            label.setText(text)
            label.setVisible(bool(text))
        restyle(self.headline, "alone", not details)
        has_rows = self.list.changes.rowCount() > 0
        self.list.setVisible(has_rows)
        self.setFocusProxy(self.list if has_rows else self.rule.buttons[self.effective_rule])

    def _reset(self) -> None:
        self._rejudge = None
        self._marks = {}
        self.list.turn = self.shown.turn
        self.list.changes.reset(self._answer, self.effective_rule)
        self._mark()

    def _judge(self) -> None:
        """Judges the rounds added since the last call; none if the answer cannot be judged again at all."""
        answer = self._answer
        if answer is None or (self._rejudge is None and refusal(answer.options, self.effective_rule, self._gamma)):
            return
        if self._rejudge is None:
            self._rejudge = Rejudge(answer.options, self.effective_rule, self._gamma)
        results = [self._rejudge.add(round_) for round_ in answer.rounds[len(self._rejudge.rounds) :]]
        changes = [result.change for result in results if result.change is not None]
        if changes:
            self.list.changes.add(changes)
            self._marks |= {change.spot.round: Place(self.list.turn, change.spot.round, change.spot.at) for change in changes}
            self._mark()

    @property
    def shows_marks(self) -> bool:
        """Whether the changes are marked in the text and in the rounds: while the page is shown, or if the user keeps the
        marks."""
        return self.isVisible() or self.keep_marks.isChecked()

    @Slot()
    def _mark(self) -> None:
        self.cursor_place.mark(self._marks if self.shows_marks else {})

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
