"""The style sheet: shapes and spacing of the named widgets. Colours come from the theme, sizes from the text scale."""

from __future__ import annotations

from app.look.theme import Theme, assets_folder
from engine.types import RULES


def quoted(text: str) -> str:
    """Returns text as a string literal for a style sheet. Unquoted, an accent or apostrophe in a path would end the sheet
    there."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def stylesheet(theme: Theme, scale: float) -> str:
    """Returns the whole style sheet for a theme and a text scale."""

    def px(size: float) -> str:
        """Returns a size in pixels at text scale 1 as a length at this scale."""
        return f"{round(size * scale)}px"

    knob = round(5 * scale)  # overhang of a slider's handle over its groove of 4 pixels
    chevron = quoted((assets_folder() / "icons" / f"chevron-{theme.name}.svg").as_posix())
    # a band in the rule's colour along the lower edge of its button
    checked_rules = "".join(
        f'RuleSelector QPushButton[rule="{rule}"]:checked {{ background: qlineargradient(x1: 0, y1: 0, x2: 0, y2: 1, '
        f"stop: 0 {theme.raised}, stop: 0.87 {theme.raised}, stop: 0.871 {theme.rule(rule)}, stop: 1 {theme.rule(rule)}); }}\n"
        for rule in RULES
    )
    return f"""
    QWidget {{ font-size: {px(13)}; }}
    QPushButton {{ outline: none; }}  /* the style's own frame would lie in that of :focus */
    QMainWindow, #chatColumn {{ background: {theme.background}; }}
    #header, #sidePanel, #sidebar, #statusStrip {{ background: {theme.panel}; }}
    #header {{ border-bottom: 1px solid {theme.line}; }}
    #statusStrip {{ border-top: 1px solid {theme.line}; }}
    #wordmark {{ font-size: {px(15)}; font-weight: 600; }}
    #ruleNote {{ color: {theme.dim}; font-size: {px(12)}; }}
    #barsTold {{ color: {theme.text}; font-size: {px(12)}; }}
    QPushButton#barsRemedy {{
        background: transparent; border: 1px solid {theme.faint}; border-radius: 7px; color: {theme.text};
        padding: 0 {px(9)}; font-size: {px(12)}; font-weight: 500; }}
    QPushButton#barsHelp {{
        background: transparent; border: 1px solid {theme.line}; border-radius: {px(7)}; color: {theme.dim}; padding: 0;
        font-size: {px(11)}; font-weight: 600; }}
    QPushButton#barsHelp:hover {{ background: {theme.raised}; }}
    QPushButton#barsHelp:focus {{ border: 2px solid {theme.accent}; }}
    QPushButton#barsRemedy:hover {{ background: {theme.raised}; }}
    QPushButton#barsRemedy:focus {{ border: 2px solid {theme.accent}; padding: 0 {px(8)}; }}

    #chip {{
        background: {theme.background}; border: 1px solid {theme.line}; border-radius: 8px;
        min-height: {px(30)}; max-height: {px(30)}; }}
    #chip:hover {{ border-color: {theme.faint}; }}
    #chip[focused="true"] {{
        border: 2px solid {theme.accent}; min-height: {round(30 * scale) - 2}px; max-height: {round(30 * scale) - 2}px; }}
    #chip QLabel {{ color: {theme.faint}; font-size: {px(11)}; }}
    #chip > QComboBox, #chip > QAbstractSpinBox {{
        background: transparent; border: none; color: {theme.text}; padding: 0; min-height: {px(28)};
        placeholder-text-color: {theme.faint};
        selection-background-color: {theme.accent}; selection-color: {theme.on_accent}; }}
    QAbstractSpinBox::up-button, QAbstractSpinBox::down-button {{ width: 0px; height: 0px; border: none; }}
    #chip QComboBox:disabled, #chip QAbstractSpinBox:disabled {{ color: {theme.faint}; }}
    #chip QComboBox::drop-down {{ border: none; width: {px(18)}; }}
    #chip QComboBox::down-arrow {{ image: url({chevron}); width: {px(14)}; height: {px(14)}; }}
    QComboBox QAbstractItemView {{
        background: {theme.panel}; color: {theme.text}; border: 1px solid {theme.line}; border-radius: 8px; padding: 4px;
        selection-background-color: {theme.raised}; selection-color: {theme.text}; outline: none; }}

    RuleSelector {{ background: {theme.background}; border: 1px solid {theme.line}; border-radius: 8px; }}
    RuleSelector QPushButton {{
        background: transparent; border: 2px solid transparent; border-radius: 7px; color: {theme.dim}; font-weight: 500;
        padding: 0 {px(10)}; min-height: {px(26)}; }}
    RuleSelector QPushButton:hover {{ color: {theme.text}; }}
    RuleSelector QPushButton:checked {{ color: {theme.text}; }}
    {checked_rules}
    RuleSelector QPushButton:focus {{ border-color: {theme.text}; }}

    QToolButton#iconButton, QToolButton#pinButton {{
        background: transparent; border: 2px solid transparent; border-radius: 8px; color: {theme.dim}; padding: 4px; }}
    QToolButton#iconButton:hover, QToolButton#pinButton:hover {{ background: {theme.raised}; color: {theme.text}; }}
    QToolButton#iconButton:focus, QToolButton#pinButton:focus {{ border-color: {theme.accent}; }}
    QToolButton#iconButton:checked, QToolButton#pinButton:checked {{ background: {theme.raised}; }}
    QToolButton#iconButton[floating="true"] {{ background: {theme.panel}; border: 1px solid {theme.faint}; padding: 3px; }}
    QToolButton#iconButton[floating="true"]:hover {{ background: {theme.raised}; border-color: {theme.dim}; }}
    QToolButton#thoughtButton, QToolButton#verdictDetails {{
        background: transparent; border: 2px solid transparent; border-radius: 8px; color: {theme.dim};
        padding: 0 {px(6)} 0 3px; }}
    QToolButton#thoughtButton:hover, QToolButton#verdictDetails:hover {{ background: {theme.raised}; color: {theme.text}; }}
    QToolButton#thoughtButton:focus, QToolButton#verdictDetails:focus {{ border-color: {theme.accent}; }}
    QToolButton#continueButton {{
        background: {theme.accent}; border: 2px solid transparent; border-radius: 8px; color: {theme.on_accent};
        font-size: {px(12)}; font-weight: 600; }}
    QToolButton#continueButton[earlier="true"] {{
        background: transparent; border: 1px solid {theme.faint}; color: {theme.text}; }}
    QToolButton#continueButton:hover, QToolButton#continueButton:focus {{ border-color: {theme.dim}; }}
    QToolButton::menu-indicator {{ image: none; }}

    #composerFrame {{ background: {theme.panel}; border: 1px solid {theme.line}; border-radius: 14px; }}
    #composerFrame[focused="true"] {{ border-color: {theme.accent}; }}
    QPlainTextEdit#composer {{
        background: transparent; border: none; color: {theme.text}; font-size: {px(16)}; placeholder-text-color: {theme.faint};
        selection-background-color: {theme.selection}; selection-color: {theme.text}; }}
    #composerHint {{ color: {theme.faint}; font-size: {px(12)}; }}
    #contextUse {{ color: {theme.dim}; font-size: {px(12)}; }}
    #contextUse[warns="true"] {{ color: {theme.rejected}; font-weight: 600; }}
    #attachmentChip {{ background: {theme.raised}; border: 1px solid {theme.line}; border-radius: 8px; }}
    #activeChip {{ background: transparent; border: 1px solid {theme.line}; border-radius: 8px; }}
    QPushButton#activeOpen {{
        background: transparent; border: 2px solid transparent; border-radius: 7px; color: {theme.dim}; padding: 0 {px(6)};
        min-height: {px(20)}; font-size: {px(12)}; text-align: left; }}
    QPushButton#activeOpen:hover {{ color: {theme.text}; }}
    QPushButton#activeOpen:focus {{ border-color: {theme.accent}; }}
    #activeChip QToolButton#iconButton {{ padding: 1px; }}
    #attachmentChip #chipName {{ color: {theme.text}; font-size: {px(12)}; font-weight: 400; border: 1px solid transparent;
        background: transparent; padding: 0; min-height: 0; text-align: left; }}
    #attachmentChip #chipName:focus {{ border-color: {theme.accent}; border-radius: 4px; }}
    #attachmentChip #chipName:hover {{ text-decoration: underline; }}
    #editNote {{ color: {theme.dim}; font-size: {px(12)}; }}
    QPushButton#sendButton, QPushButton#stopButton {{
        border-radius: 9px; padding: 0 {px(14)}; min-height: {px(30)}; font-weight: 600; border: 2px solid transparent; }}
    QPushButton#sendButton {{ background: {theme.accent}; color: {theme.on_accent}; }}
    QPushButton#sendButton:disabled {{ background: {theme.raised}; color: {theme.faint}; }}
    QPushButton#stopButton {{ background: {theme.text}; color: {theme.background}; }}
    QPushButton#sendButton:focus, QPushButton#stopButton:focus {{ border-color: {theme.dim}; }}

    QPushButton#promptCard {{
        background: {theme.panel}; border: 1px solid {theme.line}; border-radius: 12px; padding: 0; text-align: left; }}
    QPushButton#promptCard:hover {{ background: {theme.raised}; border-color: {theme.faint}; }}
    QPushButton#promptCard:focus {{ border: 2px solid {theme.accent}; }}
    #cardTitle {{ font-weight: 600; }}
    #cardText, #emptyText {{ color: {theme.dim}; }}
    #emptyTitle {{ font-size: {px(24)}; font-weight: 600; }}

    #replayBar:focus #composerFrame {{ border-color: {theme.accent}; }}
    #replayPlace {{ color: {theme.text}; }}
    #replayName {{ color: {theme.dim}; font-size: {px(12)}; }}
    QToolButton#playButton {{ background: {theme.raised}; border: 2px solid transparent; border-radius: 8px; padding: 3px; }}
    QToolButton#playButton:hover {{ border-color: {theme.faint}; }}
    QToolButton#playButton:focus {{ border-color: {theme.accent}; }}
    QSlider#replaySlider {{ min-height: {px(22)}; border: 2px solid transparent; border-radius: 6px; }}
    QSlider#replaySlider:focus {{ border-color: {theme.accent}; }}
    QSlider#replaySlider::groove:horizontal {{ height: 4px; background: {theme.line}; border-radius: 2px; }}
    QSlider#replaySlider::sub-page:horizontal {{ height: 4px; background: {theme.accent}; border-radius: 2px; }}
    QSlider#replaySlider::handle:horizontal {{
        background: {theme.text}; width: {2 * knob + 4}px; margin: -{knob}px 0; border-radius: {knob + 2}px; }}
    QComboBox[look="choice"] {{
        background: {theme.background}; border: 1px solid {theme.line}; border-radius: 8px; color: {theme.text};
        padding: 0 4px 0 {px(9)}; min-height: {px(26)}; max-height: {px(26)}; }}
    QComboBox[look="choice"]:disabled {{ color: {theme.faint}; }}
    QComboBox[look="choice"]:hover {{ border-color: {theme.faint}; }}
    QComboBox[look="choice"]:focus {{ border: 2px solid {theme.accent}; padding: 0 3px 0 {px(8)}; }}
    QComboBox[look="choice"]::drop-down {{ border: none; width: {px(18)}; }}
    QComboBox[look="choice"]::down-arrow {{ image: url({chevron}); width: {px(14)}; height: {px(14)}; }}
    #roundCaption {{ color: {theme.text}; }}
    QPushButton#replayClose, #roundSteps QPushButton {{
        background: transparent; border: 1px solid {theme.line}; border-radius: 8px; color: {theme.text};
        padding: 0 {px(11)}; min-height: {px(26)}; max-height: {px(26)}; font-weight: 500; }}
    #roundSteps QPushButton:disabled {{ color: {theme.faint}; }}
    QPushButton#replayClose:hover, #roundSteps QPushButton:hover {{ background: {theme.raised}; }}
    QPushButton#replayClose:focus, #roundSteps QPushButton:focus {{ border: 2px solid {theme.accent}; padding: 0 {px(10)}; }}

    #banner {{ background: {theme.warning_tint}; border: 1px solid {theme.rejected}; border-radius: 10px; }}
    #banner[tone="note"] {{ background: {theme.raised}; border-color: {theme.line}; }}
    #banner[tone="lock"] {{ background: {theme.raised}; border-color: {theme.accent}; }}
    #banner QLabel {{ color: {theme.text}; }}
    QPushButton#bannerAction {{
        background: transparent; border: 1px solid {theme.faint}; border-radius: 8px; color: {theme.text};
        padding: 0 {px(12)}; min-height: {px(26)}; font-weight: 500; }}
    QPushButton#bannerAction:hover {{ background: {theme.panel}; }}
    QPushButton#bannerAction:focus {{ border: 2px solid {theme.accent}; }}

    QTabBar#panelTabs {{ background: transparent; border: none; }}
    QTabBar#panelTabs::tab {{
        background: transparent; border: none; border-bottom: 2px solid transparent; color: {theme.dim};
        padding: {px(6)} 1px {px(5)} 1px; margin: 0 {px(10)} 0 {px(10)}; font-weight: 500; }}
    QTabBar#panelTabs::tab:first {{ margin-left: 16px; }}
    QTabBar#panelTabs::tab:hover {{ color: {theme.text}; }}
    QTabBar#panelTabs::tab:selected {{ color: {theme.text}; border-bottom-color: {theme.accent}; }}
    QTabBar#panelTabs::tab:focus {{ background: {theme.raised}; border-radius: 4px; }}

    #panelHeading {{ color: {theme.dim}; font-size: {px(12)}; }}
    QPushButton#tile {{
        background: {theme.background}; border: 1px solid {theme.line}; border-radius: 10px; padding: 0; text-align: left; }}
    QPushButton#tile:hover {{ border-color: {theme.faint}; }}
    QPushButton#tile:focus {{ border: 2px solid {theme.accent}; }}
    #tileName {{ color: {theme.dim}; font-size: {px(11)}; }}
    #tileValue, #tileEarlier {{ font-size: {px(18)}; font-weight: 600; }}
    #tileEarlier {{ color: {theme.dim}; }}
    #figuresAbout {{ color: {theme.dim}; font-size: {px(12)}; }}
    #tileUnit {{ color: {theme.faint}; font-size: {px(11)}; }}
    QPushButton#tileAction {{
        background: transparent; border: 1px solid {theme.faint}; border-radius: 6px; color: {theme.text};
        padding: 0 {px(6)}; font-size: {px(11)}; font-weight: 500; }}
    QPushButton#tileAction:hover {{ background: {theme.raised}; }}
    QPushButton#tileAction:focus {{ border: 2px solid {theme.accent}; padding: 0 {px(5)}; }}
    #sectionTitle {{ font-size: {px(12)}; font-weight: 600; }}
    QPushButton#sectionTitle {{
        background: transparent; border: 2px solid transparent; border-radius: 6px; color: {theme.text}; padding: 2px 4px;
        text-align: left; }}
    QPushButton#sectionTitle:hover {{ background: {theme.raised}; }}
    QPushButton#sectionTitle:focus {{ border-color: {theme.accent}; }}
    QPushButton#smallButton {{
        background: transparent; border: 1px solid {theme.line}; border-radius: 7px; padding: 2px {px(8)}; color: {theme.dim};
        font-size: {px(11)}; }}
    QPushButton#smallButton:hover {{ color: {theme.text}; background: {theme.raised}; }}
    QPushButton#smallButton:checked {{ color: {theme.text}; background: {theme.raised}; border-color: {theme.faint}; }}
    QPushButton#smallButton:focus {{ border: 2px solid {theme.accent}; padding: 1px {px(7)}; }}
    #definitionTitle {{ font-weight: 600; }}
    #definitionFormula {{ color: {theme.accent}; font-size: {px(12)}; }}
    #definitionHere {{ font-size: {px(12)}; }}
    #definitionWords {{ color: {theme.dim}; font-size: {px(12)}; }}
    #sectionNote {{ color: {theme.faint}; font-size: {px(11)}; }}
    #chainsNote {{ color: {theme.dim}; font-size: {px(12)}; }}
    #plotEmpty, #panelWaiting {{ color: {theme.faint}; font-size: {px(12)}; }}

    #timePlot {{ font-size: {px(12)}; }}
    #statusStrip QLabel {{ color: {theme.dim}; font-size: {px(12)}; }}
    QToolButton#ghostsToggle {{
        background: transparent; border: 2px solid transparent; border-radius: 6px; color: {theme.dim};
        font-size: {px(12)}; padding: 1px 6px; }}
    QToolButton#ghostsToggle:hover {{ color: {theme.text}; background: {theme.raised}; }}
    QToolButton#ghostsToggle:focus {{ border-color: {theme.accent}; }}

    #verdictCard {{ background: {theme.panel}; border: 1px solid {theme.faint}; border-radius: 12px; }}
    #verdictCard:focus {{ border: 2px solid {theme.accent}; }}
    #verdictCard QScrollArea {{ background: transparent; border: none; }}
    #verdictWhere, #verdictNotes, #verdictHint {{ color: {theme.dim}; font-size: {px(12)}; }}
    #verdictData {{ color: {theme.faint}; }}
    #verdictSection {{ color: {theme.dim}; font-size: {px(11)}; font-weight: 600; padding-top: 3px; }}
    #verdictHint {{ color: {theme.faint}; padding-top: 3px; }}
    #tour {{ background: {theme.panel}; border: 2px solid {theme.accent}; border-radius: 12px; }}
    #tourLegend {{ background: transparent; }}
    #aboutName {{ font-size: {px(20)}; font-weight: 600; }}
    #aboutVersions {{ color: {theme.dim}; font-size: {px(12)}; }}
    #fieldReason {{
        background: {theme.warning_tint}; border: 1px solid {theme.rejected}; border-radius: 7px; color: {theme.text};
        padding: {px(4)} {px(8)}; font-size: {px(12)}; }}
    #popover {{ background: {theme.panel}; border: 1px solid {theme.line}; border-radius: 12px; }}
    #palette {{ background: {theme.panel}; border: 1px solid {theme.line}; border-radius: 12px; }}
    QListView#paletteList {{ background: transparent; border: none; outline: none; }}
    #popover QLabel#fieldHint {{ color: {theme.faint}; font-size: {px(11)}; }}
    #popover QAbstractSpinBox, #popover QPlainTextEdit, QDialog QLineEdit, #popover QLineEdit,
    #settingsWindow QAbstractSpinBox, #settingsWindow QPlainTextEdit {{
        background: {theme.background}; border: 1px solid {theme.line}; border-radius: 7px; padding: 4px 6px;
        color: {theme.text}; placeholder-text-color: {theme.faint};
        selection-background-color: {theme.selection}; selection-color: {theme.text}; }}
    #popover QAbstractSpinBox, #settingsWindow QAbstractSpinBox {{ padding: 4px 0; }}
    #popover QPlainTextEdit:focus, #popover QLineEdit:focus, #settingsWindow QLineEdit:focus,
    #settingsWindow QPlainTextEdit:focus {{ border: 2px solid {theme.accent}; padding: 3px 5px; }}
    #popover QAbstractSpinBox:focus, #settingsWindow QAbstractSpinBox:focus {{
        border: 2px solid {theme.accent}; padding: 3px 0; }}
    #popover QAbstractSpinBox QLineEdit, #settingsWindow QAbstractSpinBox QLineEdit {{
        background: transparent; border: none; padding: 0; }}
    QPushButton#primaryButton {{
        background: {theme.accent}; border: 1px solid {theme.accent}; border-radius: 8px; padding: 4px 14px;
        color: {theme.on_accent}; font-weight: 600; }}
    QPushButton#primaryButton:focus {{ border: 2px solid {theme.text}; padding: 3px 13px; }}
    QPushButton#primaryButton:disabled {{ background: {theme.raised}; border-color: {theme.line}; color: {theme.faint}; }}
    QPushButton#quietButton:disabled {{ color: {theme.faint}; }}
    QPushButton#quietButton, QDialogButtonBox QPushButton {{
        background: transparent; border: 1px solid {theme.line}; border-radius: 8px; padding: 4px 12px; color: {theme.text}; }}
    QPushButton#quietButton:hover, QDialogButtonBox QPushButton:hover {{ background: {theme.raised}; }}
    QPushButton#quietButton:focus, QDialogButtonBox QPushButton:focus {{ border: 2px solid {theme.accent}; padding: 3px 11px; }}
    QDialogButtonBox QPushButton {{ min-width: {px(60)}; }}
    QDialogButtonBox QPushButton:disabled {{ color: {theme.faint}; }}
    QDialogButtonBox {{ dialogbuttonbox-buttons-have-icons: 0; }}
    #keysHeading {{ font-weight: 600; }}
    #settingSection {{ color: {theme.dim}; font-size: {px(12)}; font-weight: 600; }}
    #settingTitle {{ font-weight: 500; }}
    QPushButton#settingSwitch {{
        background: {theme.background}; border: 1px solid {theme.line}; border-radius: 8px; color: {theme.dim};
        padding: 0 {px(12)}; min-height: {px(26)}; min-width: {px(30)}; }}
    QPushButton#settingSwitch:checked {{ background: {theme.raised}; color: {theme.text}; border-color: {theme.faint}; }}
    QPushButton#settingSwitch:focus {{ border: 2px solid {theme.accent}; padding: 0 {px(11)}; }}
    #settingWords {{ color: {theme.dim}; font-size: {px(12)}; }}

    #againFound {{ color: {theme.text}; font-size: {px(14)}; font-weight: 600; }}
    #againFound[alone="true"] {{ font-size: {px(13)}; font-weight: 400; }}
    #againWords {{ color: {theme.text}; font-size: {px(13)}; }}
    #againNotes {{ color: {theme.dim}; font-size: {px(12)}; }}
    #sidebar {{ border-right: 1px solid {theme.line}; }}
    QDialogButtonBox QPushButton {{ qproperty-icon: none; }}
    #answerEditor QPlainTextEdit {{
        background: {theme.panel}; border: 1px solid {theme.line}; border-radius: 7px; padding: {px(4)}; font-size: {px(15)}; }}
    #answerEditor QPlainTextEdit:focus {{ border-color: {theme.accent}; }}
    #tracesDialog QAbstractSpinBox, QDialog QTableWidget {{
        background: {theme.panel}; border: 1px solid {theme.line}; border-radius: 7px;
        selection-background-color: {theme.selection}; selection-color: {theme.text}; outline: none; }}
    #tracesDialog QAbstractSpinBox {{ padding: {px(3)} {px(6)}; }}
    #tracesDialog QAbstractSpinBox:focus, QDialog QTableWidget:focus {{ border-color: {theme.accent}; }}
    QDialog QTableWidget QHeaderView::section {{
        background: {theme.panel}; color: {theme.dim}; border: none; border-bottom: 1px solid {theme.line};
        padding: {px(4)} {px(8)}; font-size: {px(11)}; text-align: left; }}
    QDialog QTableWidget::item {{ padding: 0 {px(8)}; }}
    QRadioButton::indicator {{
        width: {px(12)}; height: {px(12)}; border: 1px solid {theme.dim}; border-radius: {px(7)}; background: {theme.panel}; }}
    QRadioButton::indicator:checked {{ border: {px(4)} solid {theme.accent}; width: {px(6)}; height: {px(6)}; }}
    QRadioButton:focus {{ color: {theme.accent}; }}
    #unsavedQuestion QLabel#qt_msgbox_informativelabel {{ min-width: {px(330)}; }}
    QPushButton#tracesButton {{
        background: transparent; border: none; border-top: 1px solid {theme.line}; border-radius: 0; color: {theme.dim};
        font-size: {px(11)}; padding: {px(7)} {px(14)}; text-align: left; }}
    QPushButton#tracesButton:hover {{ background: {theme.raised}; }}
    QPushButton#tracesButton:focus {{ border: 1px solid {theme.accent}; }}
    #chatsEmpty {{ color: {theme.dim}; font-size: {px(12)}; padding: 6px 14px; }}
    QLineEdit#chatSearch, QLineEdit#chatTitle, QLineEdit#findField, QLineEdit#modelSearch, QLineEdit#tokenField,
    QLineEdit#settingsSearch, QLineEdit#paletteField {{
        background: {theme.background}; border: 1px solid {theme.line}; border-radius: 8px; padding: 0 {px(7)};
        min-height: {px(26)}; color: {theme.text}; placeholder-text-color: {theme.faint};
        selection-background-color: {theme.selection}; selection-color: {theme.text}; }}
    QLineEdit#chatSearch:focus, QLineEdit#chatTitle:focus, QLineEdit#findField:focus, QLineEdit#modelSearch:focus,
    QLineEdit#tokenField:focus, QLineEdit#settingsSearch:focus, QLineEdit#paletteField:focus {{ border-color: {theme.accent}; }}
    QListView#chatList {{ background: {theme.panel}; border: none; outline: none; }}
    #modelsDialog {{ background: {theme.background}; }}
    #modelsDialog QTabBar#panelTabs::tab:first {{ margin-left: 0; }}
    #entryTitle {{ font-weight: 600; }}
    #entryAbout {{ color: {theme.dim}; font-size: {px(12)}; }}
    QListView#entryList {{
        background: {theme.panel}; border: 1px solid {theme.line}; border-radius: 10px; padding: 4px 0; outline: none; }}
    QListView#entryList:focus {{ border-color: {theme.faint}; }}
    QListView#changeList {{ background: {theme.panel}; border: none; border-top: 1px solid {theme.line}; outline: none; }}

    QTableView#roundTable {{
        background: {theme.panel}; color: {theme.text}; border: none; selection-background-color: {theme.selection};
        selection-color: {theme.text}; font-size: {px(12)}; }}
    QTableView#roundTable::item {{ padding: 0 {px(6)}; }}
    QTableView#roundTable::item:focus {{ border: 1px solid {theme.accent}; }}
    QTableView#roundTable QHeaderView {{ background: {theme.panel}; }}
    QTableView#roundTable QHeaderView::section {{
        background: {theme.panel}; color: {theme.dim}; border: none; border-bottom: 1px solid {theme.line};
        padding: {px(4)} {px(6)}; font-size: {px(11)}; font-weight: 500; }}
    QTableView#roundTable QHeaderView::up-arrow, QTableView#roundTable QHeaderView::down-arrow {{ width: 0; height: 0; }}
    QTableView#roundTable QHeaderView::section:hover {{ color: {theme.text}; }}

    QPushButton#clockButton {{
        background: transparent; border: 1px solid {theme.line}; border-radius: 7px; padding: 2px {px(8)}; color: {theme.dim};
        font-size: {px(12)}; margin-right: 4px; }}
    QPushButton#clockButton:hover {{ color: {theme.text}; }}
    QPushButton#clockButton:checked {{ background: {theme.raised}; color: {theme.text}; border-color: {theme.faint}; }}
    QPushButton#clockButton:focus {{ border: 2px solid {theme.accent}; padding: 1px {px(7)}; }}

    #compareView, #compareColumn {{ background: {theme.background}; }}
    #compareColumn {{ border: none; border-right: 1px solid {theme.line}; }}
    #columnLetter {{ background: {theme.raised}; color: {theme.text}; border-radius: {px(6)}; font-weight: 600; }}
    #columnFigures {{ color: {theme.dim}; font-size: {px(13)}; }}
    #relationLine {{ color: {theme.dim}; font-size: {px(12)}; }}
    #relationLine[kind="unexpected"] {{ color: {theme.rejected}; font-weight: 600; }}
    #relationLine[kind="near-tie"] {{ color: {theme.text}; }}
    #verdictLine {{
        color: {theme.dim}; font-size: {px(12)}; padding: 5px 12px; border-top: 1px solid {theme.line}; }}
    #partingLine {{ background: {theme.raised}; border: none; border-bottom: 1px solid {theme.line}; }}
    #partingWords {{ color: {theme.text}; font-size: {px(12)}; }}
    #ruleName, #ruleFigure {{ color: {theme.text}; font-size: {px(14)}; font-weight: 600; }}
    #ruleCaption {{ color: {theme.dim}; font-size: {px(12)}; }}
    QPlainTextEdit#comparePrompt {{
        background: {theme.background}; border: 1px solid {theme.line}; border-radius: 8px; color: {theme.text}; padding: 2px 5px;
        placeholder-text-color: {theme.faint};
        selection-background-color: {theme.selection}; selection-color: {theme.text}; }}
    QPlainTextEdit#comparePrompt:focus {{ border: 2px solid {theme.accent}; padding: 1px 4px; }}
    QToolButton#presetButton {{
        background: {theme.background}; border: 1px solid {theme.line}; border-radius: 8px; color: {theme.text};
        padding: 0 {px(12)}; min-height: {px(30)}; max-height: {px(30)}; }}
    QToolButton#presetButton:hover {{ border-color: {theme.faint}; }}
    QToolButton#presetButton:focus {{ border: 2px solid {theme.accent}; }}
    QToolButton#presetButton:disabled {{ color: {theme.faint}; }}

    QMenu {{ background: {theme.panel}; color: {theme.text}; border: 1px solid {theme.line}; padding: 5px; }}
    QMenu::item {{ padding: {px(6)} {px(30)} {px(6)} {px(22)}; border-radius: 6px; }}
    QMenu::item:selected {{ background: {theme.raised}; }}
    QMenu::item:disabled {{ color: {theme.faint}; }}
    QMenu::separator {{ height: 1px; background: {theme.line}; margin: 5px 8px; }}
    QMenuBar {{ background: {theme.panel}; }}
    QToolTip {{ background: {theme.raised}; color: {theme.text}; border: 1px solid {theme.line}; padding: 6px 8px; }}

    QSplitter::handle {{ background: {theme.line}; }}
    QScrollArea, #panelBody {{ background: transparent; border: none; }}
    QAbstractScrollArea::corner {{ background: transparent; border: none; }}
    QScrollBar:vertical {{ background: transparent; width: 10px; margin: 2px; }}
    QScrollBar::handle:vertical {{ background: {theme.line}; border-radius: 3px; min-height: 28px; }}
    QScrollBar::handle:vertical:hover {{ background: {theme.faint}; }}
    QScrollBar::add-line:vertical, QScrollBar::sub-line:vertical {{ height: 0; }}
    QScrollBar:horizontal {{ background: transparent; height: 10px; margin: 2px; }}
    QScrollBar::handle:horizontal {{ background: {theme.line}; border-radius: 3px; min-width: 28px; }}
    QScrollBar::handle:horizontal:hover {{ background: {theme.faint}; }}
    QScrollBar::add-line:horizontal, QScrollBar::sub-line:horizontal {{ width: 0; }}
    QScrollBar::add-page:horizontal, QScrollBar::sub-page:horizontal {{ background: transparent; }}
    QScrollBar::add-page:vertical, QScrollBar::sub-page:vertical {{ background: transparent; }}
    """
