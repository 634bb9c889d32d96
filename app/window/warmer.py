"""Offers a temperature at which the rules differ, when the user chooses a rule at one where they hardly do."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Slot

from app.look.banner import Banner
from app.session.chat import Chat
from app.session.session import Answer
from engine.lens.rule_comparison import WARM, rules_nearly_coincide
from engine.values.drafter_kinds import NO_DRAFTER


class WarmerOffer(QObject):
    """Shows the offer in the banner.

    Args:
        raise_temperature: sets the warmer temperature, and answers the last prompt again if there is one.
    """

    def __init__(self, chat: Chat, banner: Banner, raise_temperature: Callable[[], object], parent: QObject) -> None:
        super().__init__(parent)
        self._chat, self._banner, self._raise_temperature = chat, banner, raise_temperature

    @Slot(str, object)
    def offer(self, setting: str, _: object = None) -> None:
        """Offers it if the rule was changed, and the temperature alone keeps the rules alike."""
        if setting != "rule" or not self._would_help():
            return
        temperature = self._temperature(self._chat.session.running)
        alike = "the same tokens" if temperature == 0 else "nearly the same tokens"
        self._banner.show_message(
            f"At temperature {temperature:g} all rules accept {alike}, so another rule shows little. At {WARM:g} they differ.",
            "note",
            is_valid=self._would_help,
        )
        again = bool(self._chat.session.turns)
        self._banner.show_action(f"{'Answer again at' if again else 'Set temperature to'} {WARM:g}", self._accept)

    def _accept(self) -> None:
        self._banner.hide()
        self._raise_temperature()

    def _temperature(self, running: Answer | None) -> float:
        """Returns the temperature of the running answer, which keeps its own, else that of the next one."""
        return self._chat.settings.temperature if running is None else running.options.temperature

    def _would_help(self) -> bool:
        chat, session = self._chat, self._chat.session
        drafter = chat.settings.drafter
        if session.replaying or session.read_only or drafter == NO_DRAFTER or not session.has_distribution(drafter):
            return False
        return rules_nearly_coincide(chat.settings.options().replace(temperature=self._temperature(session.running)))
