"""What an automatic gamma weighed before a round, in words with the numbers of the moment."""

from __future__ import annotations

from engine.lens.shared_wording import drafter_title
from engine.types import Outlook, Round


def weighed(round_: Round) -> str:
    """One or two sentences on why drafting went on or rested in this round; "" where nothing is known of it."""
    outlook = round_.outlook
    if outlook is None:
        return ""
    many = f"{outlook.gamma} proposal{'s' * (outlook.gamma != 1)}"
    price = f"A round of {many} takes {outlook.cost:.2f} times as long as one without here"
    if outlook.needed >= 0.995:
        price += ", which no alpha makes up for"
    else:
        price += f", which pays from {'a chance' if outlook.copies else 'an alpha'} of {outlook.needed:.2f}"
    who = drafter_title(outlook.drafter).lower() if outlook.drafter else "drafter"
    has = f"the copy at hand has {outlook.alpha:.2f}" if outlook.copies else f"the {who} has {outlook.alpha:.2f} lately"
    rests = "" if round_.proposals or outlook.next_try is None else f" {rest(outlook).capitalize()}."
    return f"{price}; {has}.{rests}"


def rest(outlook: Outlook) -> str:
    """That drafting is parked, and for how long; "" where it is not."""
    if outlook.next_try is None:
        return ""
    if outlook.next_try == 0:
        return "drafting is tried again"
    return f"drafting rests, next try in {outlook.next_try} round{'s' * (outlook.next_try != 1)}"


def resting(round_: Round) -> str:
    """The same of a round, where it went without proposals."""
    return "" if round_.outlook is None or round_.proposals else rest(round_.outlook)
