"""The status bar: the current activity, and the button that selects which ghosts the text shows."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt, Slot
from PySide6.QtWidgets import QSizePolicy, QToolButton, QWidget

from app.look import theme as themes
from app.look.command import native_keys
from app.look.theme import Theme
from app.look.widgets import ElidedLabel, in_row, named
from app.look.wording import GHOST_TITLES, drafter_title
from app.session.session import Session
from engine.lens.outlook_words import pause_reason
from engine.lens.pieces import GHOST_STEPS, Ghosts
from engine.lens.shared_wording import FINISH_WORDS
from engine.values.drafter_kinds import drafter_kind
from engine.values.events import LOADING
from engine.values.wording import amount, capitalised, seconds


class StatusStrip(QWidget):
    """Shows the state of the session."""

    def __init__(self, session: Session, override_text: Callable[[], str]) -> None:
        """Args:
        override_text: returns what to show instead of the state, or "".
        """
        super().__init__()
        self._session, self._override_text = session, override_text
        self.setObjectName("statusStrip")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._ghosts: Ghosts = "all"
        self.line = named(ElidedLabel(), "statusLine", "Status")
        self.line.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.ghosts = named(QToolButton(toolButtonStyle=Qt.ToolButtonStyle.ToolButtonTextBesideIcon), "ghostsToggle")
        self.ghosts.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        in_row((self.line, 1), self.ghosts, spacing=18, margins=(16, 3, 12, 3), parent=self)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the ghosts button."""
        self._theme = theme
        self.ghosts.setIconSize(QSize(round(16 * scale), round(16 * scale)))
        self.show_ghosts(self._ghosts)
        label_width = max(self.ghosts.fontMetrics().horizontalAdvance(_ghosts_label(step)) for step in GHOST_STEPS)
        self.ghosts.setMinimumWidth(label_width + round(40 * scale))  # so that a press moves nothing

    def show_ghosts(self, shown: Ghosts) -> None:
        """Updates the ghosts button: the label gives the state, the tooltip explains it and names the next state."""
        self._ghosts = shown
        following = GHOST_STEPS[(GHOST_STEPS.index(shown) + 1) % len(GHOST_STEPS)]
        self.ghosts.setText(_ghosts_label(shown))
        self.ghosts.setAccessibleName(_ghosts_label(shown))
        self.ghosts.setAccessibleDescription(f"{GHOST_TITLES[shown]}. Press for: {following}.")
        self.ghosts.setToolTip(f"<p>{GHOST_TITLES[shown]}. Click for: {following} ({native_keys('Ctrl+G')})</p>")
        self.ghosts.setIcon(themes.icon("ghosts-hidden" if shown == "none" else "ghosts", self._theme.dim))

    @Slot()
    def refresh(self) -> None:
        """Shows the current state."""
        text = self._override_text() or phase_text(self._session)
        if text != self.line.text():
            self.line.setText(text)
            self.line.setAccessibleDescription(text)


def _ghosts_label(shown: Ghosts) -> str:
    return f"Ghosts: {shown}"


def phase_text(session: Session) -> str:
    """Returns the phase of the session, with its progress."""
    if session.replaying:
        return session.replay_words
    if session.read_only:
        return "Read only: this chat is open in another window"
    answer = session.answer
    loading = _loading_text(session)
    if answer is None or answer.state == "waiting":
        if loading:
            return loading
        if answer is not None:
            return "Waiting for the engine"
        return (
            f"Ready{_machines(session)}"
            if session.model is not None
            else "No model loaded: send a message to load it, or choose another target above"
        )
    match answer.state:
        case "reading":
            done, total = answer.prefill
            clock = seconds(session.clock() - answer.submitted)
            return f"Reading the prompt, {done:,} of {amount(total, 'token')}, {clock}"
        case "generating":
            reason = pause_reason(answer.rounds[-1]) if answer.rounds else ""
            return f"Generating, round {answer.tally.rounds:,}{f', {reason}' if reason else ''}{_machines(session)}"
        case "failed":
            return "Stopped by an error"
    if answer.foreign or answer.edited:
        return loading or ("Imported answer" if answer.foreign else "Your own version of the answer")
    if answer.finish is None and answer.ending:
        return loading or answer.ending.capitalize()
    finish = FINISH_WORDS[answer.finish or "eos"]
    return loading or (finish.capitalize() if answer.finish == "cancelled" else f"Done: {finish}")


def _machines(session: Session) -> str:
    """Returns a suffix with the number of machines of the target, if there are several."""
    return f", target on {session.machines} machines" if session.machines > 1 else ""


def _loading_text(session: Session) -> str:
    loading = session.loading
    if loading is None:
        return ""
    name = drafter_title(loading.name)
    if loading.name == "builtin":
        name = "the built-in model"
    elif drafter_kind(loading.name).members:
        name = "the drafters"
    elif drafter_kind(loading.name).fits == "builtin":
        name = f"the {name.lower()}"
    share = f", {100 * loading.fraction:.0f}%" if loading.fraction is not None else ""
    if loading.is_download:
        return f"{capitalised(loading.step)}{share}"
    step = f", {loading.step}" if loading.step not in ("", LOADING) else ""
    return f"Loading {name}{step}{share}"
