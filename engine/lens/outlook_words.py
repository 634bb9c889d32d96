"""Words for an automatic gamma's decision before a round, with its current figures."""

from __future__ import annotations

from engine.lens.shared_wording import drafter_title
from engine.types import Outlook, Round, Skipped
from engine.values.wording import amount

SKIPPED: dict[Skipped, str] = {
    "measured": "Now and then a round skips drafting even when it pays, to measure the cost of a plain round.",
    "last": "There was room for only one more token.",
    "reading": "This round also read the rest of the prompt, so nothing was drafted.",
}


def explanation(round_: Round) -> str:
    """Returns one or two sentences on why drafting went on or paused in this round; "" if unknown."""
    outlook = round_.outlook
    if outlook is None:
        return ""
    addition = ""
    if not round_.proposals and outlook.next_try is not None:
        addition = f" {pause_words(outlook).capitalize()}."
    elif outlook.skipped is not None:
        addition = f" {SKIPPED[outlook.skipped]}"
    return f"{cost_words(outlook)}.{addition}"


def cost_words(outlook: Outlook) -> str:
    """Returns what drafting costs here, the acceptance rate at which it pays, and the current one, without a full stop."""
    proposals = amount(outlook.gamma, "proposal")
    words = f"Here a round with {proposals} takes {outlook.cost:.2f} times as long as a plain one"
    if outlook.copies:
        threshold = "no chance is high enough" if _is_hopeless(outlook) else f"copying pays from a chance of {outlook.needed:.0%}"
        return f"{words}; {threshold}, and this copy has {outlook.alpha:.0%}"
    threshold = "no acceptance rate makes up for that" if _is_hopeless(outlook) else f"it pays from {outlook.needed:.0%} accepted"
    name = drafter_title(outlook.drafter).lower() if outlook.drafter else "drafter"
    return f"{words}; {threshold}, and the {name} is at {outlook.alpha:.0%} (α)"


def _is_hopeless(outlook: Outlook) -> bool:
    return outlook.needed >= 0.995


def pause_words(outlook: Outlook) -> str:
    """Returns how long drafting is paused; "" if it is not. If the current figures would pay, it adds the reason: the last try
    hardly paid."""
    if outlook.next_try is None:
        return ""
    if outlook.next_try == 0:
        return "drafting is tried again"
    reason = ", since the last one hardly paid" if outlook.alpha >= outlook.needed else ""
    return f"drafting is paused, next try in {amount(outlook.next_try, 'round')}{reason}"


def pause_reason(round_: Round) -> str:
    """Returns in a few words why drafting is paused, for a round that has no proposals because of that; else ""."""
    outlook = round_.outlook
    if outlook is None or round_.proposals or outlook.next_try is None:
        return ""
    if _is_hopeless(outlook):
        return "drafting paused: it costs too much here"
    if outlook.alpha >= outlook.needed:
        return "drafting paused: it hardly paid"
    return f"drafting paused: {outlook.alpha:.0%} accepted, {outlook.needed:.0%} needed here"
