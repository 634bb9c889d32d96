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


def weighed(round_: Round) -> str:
    """Returns one or two sentences on why drafting went on or paused in this round; "" if unknown."""
    outlook = round_.outlook
    if outlook is None:
        return ""
    then = ""
    if not round_.proposals and outlook.next_try is not None:
        then = f" {rest(outlook).capitalize()}."
    elif outlook.skipped is not None:
        then = f" {SKIPPED[outlook.skipped]}"
    return f"{price(outlook)}.{then}"


def price(outlook: Outlook) -> str:
    """Returns what drafting costs here, the alpha at which it pays and the current alpha, without a full stop."""
    many = amount(outlook.gamma, "proposal")
    words = f"A round of {many} takes {outlook.cost:.2f} times as long as one without here"
    if outlook.needed >= 0.995:
        words += ", which no alpha makes up for"
    else:
        words += f", which pays from {'a chance' if outlook.copies else 'an alpha'} of {outlook.needed:.2f}"
    if outlook.copies:
        return f"{words}; the copy at hand has {outlook.alpha:.2f}"
    return (
        f"{words}; the {drafter_title(outlook.drafter).lower() if outlook.drafter else 'drafter'} has {outlook.alpha:.2f} lately"
    )


def rest(outlook: Outlook) -> str:
    """Returns that drafting is paused, and for how long; "" if it is not. If the figures would pay, they improved since the last
    try."""
    if outlook.next_try is None:
        return ""
    if outlook.next_try == 0:
        return "drafting is tried again"
    why = ", since the last one hardly paid" if outlook.alpha >= outlook.needed else ""
    return f"drafting rests, next try in {amount(outlook.next_try, 'round')}{why}"


def resting(round_: Round) -> str:
    """Returns that drafting is paused and why, as part of a sentence, for a round that has no proposals because of it; else
    ""."""
    if round_.outlook is None or round_.proposals or round_.outlook.next_try is None:
        return ""
    why = price(round_.outlook)
    return f"{rest(round_.outlook)}: {why[0].lower()}{why[1:]}"
