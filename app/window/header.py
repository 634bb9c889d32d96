"""The header: controls for models, rule, gamma and temperature, and a note on what the rule does."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QComboBox, QLabel, QToolButton, QWidget

from app.look.command import native_keys
from app.look.fields import GammaBox, SeedField, TemperatureBox, fit_widths, require_focus_for_wheel
from app.look.flow_layout import wrapping
from app.look.selectors import USUAL_DRAFTER, ModelSelector, RuleSelector
from app.look.theme import Theme
from app.look.widgets import LabelledControl, icon_button, in_column, in_row, named, plain_tip, tint
from app.look.wording import drafter_note, drafter_title, rule_note, target_title
from app.session.session import Session
from app.session.settings import Settings
from app.window.rule_bars import RuleStrip, conditions, rule_bars
from engine.types import RANGES
from engine.values.drafter_kinds import BY_PATH, DRAFTERS, may_fit

ROW_GAP = 5
"""Pixels between two rows of controls."""
LOW_HEIGHT = 560
"""Window height in pixels at text scale 1 below which the bars take one row, and narrow windows have no room for a sentence."""
BESIDE_WIDTH = 900
"""Window width in pixels at text scale 1, from which bars in one row have the sentence beside them."""
REPLAY_NOTE = "Replay: its own settings are shown above its text. The settings here apply to your next answer."
OPEN_LIBRARY, OPEN_FOLDER, OPEN_FILE = "\0library", "\0folder", "\0file"


class Header(QWidget):
    """Shows the settings and emits the user's changes.

    Signals:
        changed: (name of the setting, its new value).
        open_model: ("target" or "drafter", then "library", "folder" or "file") the user wants to choose one.
    """

    changed = Signal(str, object)
    open_model = Signal(str, str)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("header")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._last_seed: int | None = None
        self.wordmark = named(QLabel("Draftlight"), "wordmark")
        self.target = self._selector(
            "targetSelector", "Target model", "The model that decides the text. It checks every proposed token."
        )
        self.drafter = self._selector(
            "drafterSelector", "Drafter", "What proposes tokens. Can be changed during an answer.", USUAL_DRAFTER
        )
        self.rule = RuleSelector()
        self.rule.chosen.connect(lambda rule: self.changed.emit("rule", rule))
        self.gamma = self._gamma()
        self.temperature = self._temperature()
        self.seed = SeedField()
        self.pin = icon_button("pin", "Keep this seed", self._pin)
        self._set_up_seed()
        require_focus_for_wheel(self.target, self.drafter)
        self.sidebar = icon_button("sidebar", f"Show or hide the chats ({native_keys('Ctrl+B')})")
        self.sidebar.setCheckable(True)
        self.compare = named(icon_button("compare", f"Compare settings side by side ({native_keys('F4')})"), label="Compare")
        self.options = icon_button("options", "Sampling options and system prompt")
        self.panel = icon_button("panel", "Show or hide the panel")
        self.panel.setCheckable(True)
        self.menu = icon_button("menu", "Menu")
        self.menu.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.rule_note = ""
        self.strip = RuleStrip()
        self._arrange()

    def _arrange(self) -> None:
        self.wordmark.setContentsMargins(8, 0, 8, 0)
        self.model_chips = (LabelledControl("Target", self.target), LabelledControl("Drafter", self.drafter))
        right = QWidget()
        in_row(self.compare, self.options, self.panel, self.menu, spacing=2, margins=(8, 0, 0, 0), parent=right)
        controls = wrapping(
            6,
            self.sidebar,
            self.wordmark,
            *self.model_chips,
            self.rule,
            LabelledControl("Gamma", self.gamma),
            LabelledControl("Temp.", self.temperature),
            LabelledControl("Seed", self.seed, self.pin),
            right,
            corner=True,  # in a narrow window, the controls get the full width
            expands=True,
            row_gap=ROW_GAP,
        )
        self.strip_row = in_row(self.strip)
        in_column(controls, self.strip_row, spacing=5, margins=(16, 4, 12, 2), parent=self)

    def _selector(self, name: str, label: str, description: str, example: str = "") -> ModelSelector:
        box = named(ModelSelector(example), name, label, description, description)
        box.activated.connect(self._handle_choice)
        return box

    def _gamma(self) -> GammaBox:
        description = f"Gamma: proposals per round, {RANGES['gamma'].short} (0). Can be changed during an answer."
        box = named(GammaBox(), "gammaControl", "Gamma", description, description)
        box.taken.connect(lambda value: self.changed.emit("gamma", value))
        return box

    def _temperature(self) -> TemperatureBox:
        description = (
            f"Temperature, {RANGES['temperature'].short}: 0 always takes the most likely token; higher values are more varied. "
            "Takes effect with the next answer."
        )
        box = named(TemperatureBox(), "temperatureControl", "Temperature", description, description)
        box.taken.connect(lambda value: self.changed.emit("temperature", value))
        return box

    def _set_up_seed(self) -> None:
        named(self.seed, "seedControl", "Seed")
        self.seed.describe(
            f"Seed, {RANGES['seed'].short}. Leave empty to draw a new one for each answer. A typed or pinned seed is reused. "
            "Takes effect with the next answer."
        )
        self.seed.taken.connect(self._seed_edited)
        self.pin.setObjectName("pinButton")
        self.pin.setCheckable(True)

    # Updates from the settings.

    def show_settings(self, settings: Settings) -> None:
        """Shows the settings in the controls, without emitting signals of change."""
        blockers = [QSignalBlocker(box) for box in (self.target, self.drafter)]
        self._fill(self.target, ("builtin", *settings.recent_models), settings.target, "target", settings.target)
        self._fill(self.drafter, tuple(DRAFTERS), settings.drafter, "drafter", settings.target)
        self.rule.set_rule(settings.rule)
        self.gamma.show_value(settings.gamma)
        self.temperature.show_value(settings.temperature)
        self.seed.show_value(settings.seed)
        self.pin.setChecked(settings.seed is not None)
        self.panel.setChecked(settings.side_panel)
        del blockers

    def show_session(self, session: Session, settings: Settings) -> None:
        """Shows how the rules compare in the newest answer; what the rule does, or why no rule makes a difference, is behind the
        question mark."""
        current = conditions(session, settings)
        state = (current.temperature, current.drafter, session.has_distribution(current.drafter))
        self.rule_note = REPLAY_NOTE if session.replaying else rule_note(current.rule, *state)
        self.strip.show_rules(rule_bars(session, settings), self.rule_note)

    def focus_rule(self) -> None:
        """Focuses the button of the current rule."""
        self.rule.buttons[self.rule.rule].setFocus(Qt.FocusReason.ShortcutFocusReason)

    def show_drawn_seed(self, seed: int | None) -> None:
        """Shows in the empty field which seed the engine drew last; the pin button keeps it."""
        self._last_seed = seed
        self.seed.show_last(seed)
        self.pin.setToolTip("Keep this seed" if seed is None else f"Keep the seed {seed} for the next answers")

    def _fill(self, box: ModelSelector, names: tuple[str, ...], current: str, kind: str, target: str) -> None:
        box.clear()
        for name in names if current in names else (*names, current):
            drafter = DRAFTERS.get(name) if kind == "drafter" else None
            title = target_title(name) if kind == "target" else drafter_title(name)
            built_in = name == "builtin" or (drafter is not None and drafter.fits == "builtin")
            fits = kind == "target" or may_fit(name, target)
            elsewhere = "for the built-in target only" if built_in else "not in this model"
            box.add_model(title, name, ("built in" if built_in else "") if fits else elsewhere)
            tip = drafter_note(drafter) if drafter is not None else "" if built_in else name
            box.setItemData(box.count() - 1, plain_tip(tip), Qt.ItemDataRole.ToolTipRole)
            if not fits:
                items = box.model()
                assert isinstance(items, QStandardItemModel)
                items.item(box.count() - 1).setEnabled(False)
        box.setCurrentIndex(box.findData(current))
        box.setToolTip(plain_tip(f"{box.currentText()}\n{box.accessibleDescription()}"))  # the name may be cut off
        box.updateGeometry()
        box.insertSeparator(box.count())
        box.addItem("Models…", OPEN_LIBRARY)
        box.addItem("Open model folder…", OPEN_FOLDER)
        if kind == "drafter":
            tip = "\n".join(f"{chosen.title}: {drafter_note(chosen)}" for chosen in BY_PATH.values())
            box.setItemData(box.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        box.addItem("Open GGUF file…", OPEN_FILE)

    def _handle_choice(self, index: int) -> None:
        box = self.sender()
        if not isinstance(box, QComboBox):
            return
        kind, value = ("target" if box is self.target else "drafter"), box.itemData(index)
        if value in (OPEN_LIBRARY, OPEN_FOLDER, OPEN_FILE):
            self.open_model.emit(kind, value[1:])
        else:
            self.changed.emit(kind, value)

    def _seed_edited(self, value: int | None) -> None:
        self.pin.setChecked(value is not None)
        self.changed.emit("seed", value)

    def _pin(self) -> None:
        value = None
        if self.pin.isChecked():
            value = self._last_seed if self.seed.seed is None else self.seed.seed
        self.seed.show_value(value)
        self.pin.setChecked(value is not None)
        self.changed.emit("seed", value)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Tints the buttons and makes the number fields just wide enough for their longest values."""
        for button in (self.sidebar, self.compare, self.options, self.panel, self.menu, self.pin):
            tint(button, theme, scale)
        fit_widths(scale, ((self.gamma, "auto"), (self.temperature, "0.80")))
        self.seed.set_look(scale)
        self.wordmark.setFixedHeight(round(32 * scale))
        self.strip.set_look(theme, scale)

    def set_window_size(self, width: int, height: int, scale: float) -> None:
        """Hides the program's name first, then the labels of the lists, if the controls need the width. The bars take one row
        where the controls take two, or if the conversation needs the height."""
        target, drafter = self.model_chips
        chats_button_width = 0 if self.sidebar.isHidden() else 46 * scale
        in_two_rows = 640 * scale <= width < 1120 * scale
        target.words.setVisible(width >= 1330 * scale + chats_button_width or in_two_rows)
        drafter.words.setVisible(
            width >= 1280 * scale + chats_button_width or in_two_rows if chats_button_width else width >= 640 * scale
        )
        shows_wordmark = width >= 1400 * scale + chats_button_width
        self.wordmark.setVisible(shows_wordmark)
        indent = self.wordmark.sizeHint().width() if shows_wordmark else 2
        self.strip_row.setContentsMargins(indent, 0, 0, 0)
        flat = width < 1120 * scale + chats_button_width or height < LOW_HEIGHT * scale
        beside = width >= (BESIDE_WIDTH if flat else 560) * scale
        self.strip.set_room(flat, width < 640 * scale, beside, below=height >= LOW_HEIGHT * scale)


def model_path(chosen: str) -> str:
    """Returns the engine's name for a chosen file or folder."""
    return str(Path(chosen).resolve())
