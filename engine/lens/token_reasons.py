"""Explanations of a token's verdict, in sentences that fit its rule; used by the card and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.lens.outlook_words import explanation
from engine.lens.pieces import Spot, judged_at, place_of, quoted, visible, visible_candidate
from engine.rounds import near_ties
from engine.types import INVARIANT_RULES, RATIO_RULES, Candidate, Emitted, Proposal, Round
from engine.values.drafter_kinds import drafter_kind
from engine.values.wording import amount, listed


def decision(round_: Round, spot: Spot, greedy: bool) -> str:
    """Returns one or two sentences on how the token was decided."""
    if spot.own:
        return _decision_on_target_token(round_, spot, greedy)
    proposal = round_.proposals[spot.at]
    if proposal.status == "unjudged":
        why = _decision_on_branch(round_, spot, greedy) if round_.is_tree else _decision_on_unjudged(round_)
        return why + _named_unjudged(round_)
    choices = round_.choices(spot.at)
    if len(choices) < 2:
        return _decision_alone(round_, spot, greedy)
    if proposal.status == "accepted" and proposal.rank == 0:
        return f"{_decision_alone(round_, spot, greedy)} It was the first of {len(choices)} choices for this position."
    return _decision_among(round_, proposal, choices, _drawn_by_target(round_, spot), greedy)


def headline(round_: Round, spot: Spot, temperature: float) -> str:
    """Returns how the token came about, in plain words without formulas."""
    return " ".join(filter(None, [_how(round_, spot, temperature), outside_vocabulary(round_, spot)]))


def outside_vocabulary(round_: Round, spot: Spot) -> str:
    """Returns a sentence for a rejected proposal, and for the token in its place, if that one is not in the draft vocabulary."""
    is_here = spot.at == round_.accepted and (spot.own or round_.proposals[spot.at].status == "rejected")
    if not is_here or not round_.outside_draft_vocabulary:
        return ""
    return "The target's token is not in the draft vocabulary, so the drafter could not propose it."


def _how(round_: Round, spot: Spot, temperature: float) -> str:
    greedy = temperature == 0
    place = place_of(round_, spot)
    judged = judged_at(round_, spot)
    if spot.own and judged is None:
        name, bonus = _emitted_name(round_, place), round_.emitted[spot.at].origin == "bonus"
        end = "The whole path was accepted" if round_.is_tree else "Every proposal was accepted"
        why = f"{end}, so the same pass of the target gave one token more" if bonus else "Nothing was proposed in this round"
        if bonus:
            return f"{why}: {'its most likely one' if greedy else 'it drew'} {name}."
        return f"{why}: {_target_did(greedy)} {name}."
    if judged is None:
        return _decision_on_branch(round_, spot, greedy) if round_.is_tree else _decision_on_unjudged(round_)
    choices = round_.choices(place)
    if len(choices) > 1:
        return _headline_among(round_, judged, choices, place, temperature)
    drafted, kept = _plain(judged), judged.status == "accepted"
    copied = was_copied(round_, judged)
    proposed = f"{drafted} was copied from earlier in the text" if copied else f"The drafter proposed {drafted}"
    target = _emitted_name(round_, place)
    if greedy:
        most = "The target's most likely token is"
        return f"{proposed}. {most} the same, so it stays." if kept else f"{proposed}. {most} {target}, which takes its place."
    if round_.rule in INVARIANT_RULES:
        noise = "With the same noise the target" if round_.rule == "gumbel" else "With noise of its own the target"
        how = "The target" if copied else noise
        if kept:
            return f"{proposed}. {how} drew the same token, so it stays."
        return f"{proposed}. {how} drew {target}, which takes its place."
    if round_.rule == "block":
        accepted, count = round_.accepted, len(round_.proposals)
        end = f"and {drafted} is one of them" if kept else f"and {drafted} is the first that was not. {target} takes its place"
        return f"Block judges the proposals of a round together: {accepted} of {count} were accepted, {end}."
    if judged.p is None or not judged.q:
        return f"{proposed}, and a coin decided: it was {judged.status}."
    if kept and judged.p >= judged.q:
        return f"{proposed}. The target wants it at least as much as the drafter does, so it stays whatever the coin."
    if judged.p == 0:
        return f"{proposed}. The target gives it no chance here (p = 0), so it goes. {target} takes its place."
    chance = percent(judged.p / judged.q)
    less = f"{proposed}. The target wants it less than the drafter does, so a coin with a chance of {chance} decided"
    if kept:
        return f"{less}: it stays."
    if place < len(round_.expected) and round_.expected[place].rejection >= 1:
        return f"{less}: it goes. {target} takes its place, drawn by the target."
    return f"{less}: it goes. {target} takes its place, drawn from the tokens that the drafter undervalued."


def _headline_among(round_: Round, judged: Proposal, choices: Sequence[Proposal], place: int, temperature: float) -> str:
    """Returns how one of several choices for a position was accepted, or none of them."""
    greedy = temperature == 0
    many, target = len(choices), _emitted_name(round_, place)
    if _compares_draws(round_, greedy):
        if judged.status != "accepted":
            return f"The drafter made {many} choices for this position. {_target_did(greedy)} {target}, which is none of them."
        margin = round_.emitted[place].margin if place < len(round_.emitted) else None
        least = "at least " if margin is not None and near_ties.is_lower_bound(margin, temperature) else ""
        won = "" if margin is None else f" Its score was {least}{margin:.2f} above the next best."
        return (
            f"The drafter made {many} choices for this position. {_target_did(greedy)} {_plain(judged)}, the drafter's "
            f"{ordinal(judged.rank + 1)} choice.{won}"
        )
    if judged.status != "accepted":
        return f"None of the drafter's {many} choices for this position passed its coin. {target} was drawn from what they left."
    return (
        f"The drafter made {many} choices for this position, and each was tried in turn. {_plain(judged)}, its "
        f"{ordinal(judged.rank + 1)} choice, was the first to pass its coin."
    )


def _target_did(greedy: bool) -> str:
    return "The target's most likely token is" if greedy else "The target drew"


def _emitted_name(round_: Round, place: int) -> str:
    """Returns the token in the text at a position of the round, quoted."""
    if place >= len(round_.emitted):
        return "another token"
    return _plain(round_.emitted[place])


def _plain(token: Proposal | Emitted) -> str:
    """Returns a token within a sentence, quoted: without the dots for blanks around a word, which say nothing there."""
    return f"“{visible(token.text, token.bytes, within_text=True).strip()}”"


def ordinal(number: int) -> str:
    """Returns "first" to "fourth", then "5th" and so on."""
    words = ("first", "second", "third", "fourth")
    return words[number - 1] if number <= len(words) else f"{number}th"


def percent(share: float) -> str:
    """Returns a share in per cent, with more digits below 1 % so that it does not read 0."""
    return f"{100 * share:.0f}%" if share <= 0 or share >= 0.01 else f"{100 * share:.1g}%" if share >= 1e-4 else "less than 0.01%"


@dataclass(frozen=True, slots=True)
class Coin:
    """A coin that was compared with the chance of a proposal to be accepted; it is accepted if the coin is below."""

    token: str
    coin: float
    chance: float
    accepted: bool


def coins_at(round_: Round, spot: Spot, greedy: bool) -> tuple[Coin, ...]:
    """Returns the coins that rejection tossed at the position of a token, in their order; empty under other rules, and in records
    without them. Under block no single coin decides."""
    judged = judged_at(round_, spot)
    if greedy or round_.rule != "rejection" or judged is None:
        return ()
    found = []
    for choice in round_.choices(place_of(round_, spot)):
        chance = choice.acceptance
        if chance is None and choice.p is not None and choice.q and not round_.is_tree:
            chance = min(1.0, choice.p / choice.q)
        if choice.coin is not None and chance is not None:
            found.append(Coin(visible(choice.text, choice.bytes), choice.coin, chance, choice.status == "accepted"))
    return tuple(found)


def _decision_alone(round_: Round, spot: Spot, greedy: bool) -> str:
    """Returns how a judged proposal was decided, without the other choices of a tree."""
    proposal = round_.proposals[spot.at]
    is_accepted = proposal.status == "accepted"
    drawn = quoted(proposal)
    target = _drawn_by_target(round_, spot)
    if greedy:
        return f"At temperature 0 every rule accepts only the target's argmax, which is {drawn if is_accepted else target}."
    if round_.rule in INVARIANT_RULES:
        if was_copied(round_, proposal):
            same = "the same token" if is_accepted else target
            return f"{drawn} was copied from earlier in the text, not drawn; the target drew {same}."
        how = "with the same noise" if round_.rule == "gumbel" else "independently"
        if is_accepted:
            return f"Drafter and target drew {how}, and both drew {drawn}."
        return f"Drafter and target drew {how}: the drafter drew {drawn}, the target {target}."
    if round_.rule == "block":
        accepted, proposals = round_.accepted, len(round_.proposals)
        return (
            f"Block judges the proposals of a round together: it accepts the longest prefix whose coin passes, here {accepted} "
            f"of {proposals}, so no single coin decides."
        )
    return _decision_by_coin(proposal)


def _decision_by_coin(proposal: Proposal) -> str:
    if proposal.coin is None or proposal.p is None or not proposal.q:
        return "Rejection accepts a proposal if its coin u is below p/q."
    ratio = proposal.p / proposal.q
    coin, threshold = _distinguishable(proposal.coin, ratio)
    if proposal.status == "accepted":
        if ratio >= 1:
            return f"p/q is at least 1, so the proposal is accepted whatever the coin (u = {coin})."
        return f"The coin u = {coin} is below p/q = {threshold}, so the proposal is accepted."
    return (
        f"The coin u = {coin} is not below p/q = {threshold}, so the proposal is rejected. Its replacement is drawn from the "
        "residual: max(p − q, 0), normalised."
    )


def _distinguishable(coin: float, ratio: float) -> tuple[str, str]:
    """Returns both numbers with three decimals, or as many as it takes to see which is larger."""
    for decimals in range(3, 9):
        words = f"{coin:.{decimals}f}", f"{ratio:.{decimals}f}"
        if words[0] != words[1]:
            break
    return words


def was_copied(round_: Round, proposal: Proposal) -> bool:
    """Returns whether the drafter copied the proposal instead of drawing it. Older traces, which do not record that, only show a
    q of 1 without alternatives, which a filter that leaves one token can cause too."""
    if proposal.copied is not None:
        return proposal.copied
    return not drafter_kind(round_.drafted_by).has_distribution or (proposal.q == 1 and len(proposal.draft_top) == 1)


MAX_NAMED = 24
"""Maximum number of unjudged proposals that are named in a sentence."""


def _decision_among(round_: Round, proposal: Proposal, choices: Sequence[Proposal], target: str, greedy: bool) -> str:
    """Returns how a choice of a tree was accepted, or the first choice rejected, where there were several.

    Args:
        choices: all choices for the position, by rank.
        target: the target's own draw, named.
    """
    stands = proposal.status == "accepted"
    many = len(choices)
    if _compares_draws(round_, greedy):
        what = "target's argmax is" if greedy else "target drew"
        if stands:
            return f"The {what} {quoted(proposal)}, choice {proposal.rank + 1} of {many} for this position."
        return f"The {what} {target}, which is none of the {many} choices for this position: {_names(choices)}."
    if not stands:
        return f"None of the {many} choices for this position was accepted, tried in this order: {_tried(choices)}."
    before = [choice for choice in choices if choice.rank < proposal.rank]
    tried = f"{'It was' if len(before) == 1 else 'They were'} tried before and not accepted: {_tried(before)}."
    return (
        f"Choice {proposal.rank + 1} of {many} for this position, judged by what the choices before it left of p: "
        f"{_tried([proposal])}. {tried}"
    )


def _compares_draws(round_: Round, greedy: bool) -> bool:
    """Returns whether the target draws its own token, which a choice has to equal."""
    return greedy or round_.rule in INVARIANT_RULES


def _tried(choices: Sequence[Proposal]) -> str:
    """Returns choices that rejection judged one after the other, each with its coin and its chance to be accepted."""
    said = []
    for choice in choices:
        if choice.coin is None or choice.acceptance is None:
            said.append(quoted(choice))
            continue
        coin, chance = _distinguishable(choice.coin, choice.acceptance)
        relation = "below" if choice.status == "accepted" else "not below"
        said.append(f"{quoted(choice)} (u = {coin}, {relation} its chance {chance})")
    return ", then ".join(said)


def _decision_on_branch(round_: Round, spot: Spot, greedy: bool) -> str:
    """Returns why a proposal of a tree has no verdict of its own."""
    proposal, place = round_.proposals[spot.at], place_of(round_, spot)
    if place > round_.accepted or proposal.parent != place - 1:
        parent = -1 if proposal.parent is None else proposal.parent
        behind = f"{quoted(round_.proposals[parent])}, which was not accepted" if parent >= 0 else "a branch that was left"
        return f"It followed {behind}, so it was never judged."
    chosen = next((each for each in round_.choices(place) if each.status != "unjudged"), None)
    if chosen is None:
        return "Nothing was judged at its position."
    fate = chosen.status
    beside = f"Another choice for the same position as {quoted(chosen)}, which was {fate}"
    if _compares_draws(round_, greedy):
        if fate == "accepted":
            return f"{beside} because it is the target's {'argmax' if greedy else 'draw'}."
        target = _drawn_by_target(round_, Spot(spot.round, False, place))
        return f"{beside}. The target's {'argmax' if greedy else 'draw'} was {target}, none of the choices."
    if proposal.coin is None or proposal.acceptance is None:
        return f"{beside} before this one was tried." if chosen.rank < proposal.rank else f"{beside}."
    order = "before" if proposal.rank < chosen.rank else "after"
    coin, chance = _distinguishable(proposal.coin, proposal.acceptance)
    return f"{beside}. This one was tried {order} it: its coin u = {coin} is not below its chance {chance}."


def _decision_on_unjudged(round_: Round) -> str:
    if round_.rule == "block":
        return (
            f"Block judges the proposals of a round together and accepted {round_.accepted} of {len(round_.proposals)}. "
            "This one came after the first that was not accepted."
        )
    rejected = round_.proposals[round_.accepted] if round_.accepted < len(round_.proposals) else None
    behind = "the rejected proposal" if rejected is None else f"the rejected {quoted(rejected)}"
    return f"It came after {behind}, so it was never judged."


def _named_unjudged(round_: Round) -> str:
    """Returns a sentence that names the unjudged proposals of a round; empty if there is only one."""
    unjudged = [proposal for proposal in round_.proposals if proposal.status == "unjudged"]
    if len(unjudged) < 2:
        return ""
    more = f" and {len(unjudged) - MAX_NAMED:,} more" if len(unjudged) > MAX_NAMED else ""
    named = ", ".join(quoted(proposal) for proposal in unjudged[:MAX_NAMED])
    return f" The {amount(len(unjudged), 'unjudged proposal')} of this round: {named}{more}."


def _decision_on_target_token(round_: Round, spot: Spot, greedy: bool) -> str:
    origin = round_.emitted[spot.at].origin
    if origin == "plain":
        how = "the target's argmax" if greedy else "drawn by the target with its noise for this position"
        reason = explanation(round_)
        return f"Nothing was proposed in this round: the token is {how}.{f' {reason}' if reason else ''}"
    if origin == "bonus":
        how = "the target's argmax" if greedy else "drawn by the target"
        why = "Nothing was proposed after the accepted tokens" if round_.is_tree else "Every proposal was accepted"
        return f"{why}, so the same pass gave one extra token: {how}."
    rejected = judged_at(round_, spot)
    choices = round_.choices(spot.at)
    if len(choices) > 1:
        if _compares_draws(round_, greedy):
            what = "target's argmax" if greedy else "token that the target drew"
            return f"The {what}. It is none of the {len(choices)} choices for this position: {_names(choices)}."
        return (
            f"Drawn from what {len(choices)} choices for this position left of p, none of which was accepted. They were tried in "
            f"this order: {_tried(choices)}."
        )
    ghost = "the rejected proposal" if rejected is None else f"the rejected {quoted(rejected)}"
    if greedy:
        return f"The target's argmax, in place of {ghost}."
    if round_.rule in INVARIANT_RULES:
        return f"The token that the target drew, in place of {ghost}."
    if rejected is not None and spot.at < len(round_.expected) and round_.expected[spot.at].rejection >= 1:
        return f"Drawn from p in place of {ghost}, because p never exceeds q and the residual is empty."
    if round_.rule == "block":
        weight = block_weight(round_)
        if weight is None or weight < 1:
            scale = "" if weight is None else f", with w = {weight:.3f} from the accepted proposals"
            return f"Drawn from the residual in place of {ghost}: max(w p − q, 0), normalised{scale}."
    return f"Drawn from the residual in place of {ghost}: max(p − q, 0), normalised."


def limitations(round_: Round, spot: Spot, greedy: bool) -> tuple[str, ...]:
    """Returns notes on the figures that a round lacks, and on the limits of the others."""
    notes = []
    proposal = round_.proposals[spot.at] if not spot.own else None
    analysed = (proposal.q if proposal is not None else round_.emitted[spot.at].p) is not None
    if not analysed:
        return ("Analysis was off for this answer, so its probabilities were not recorded.",)
    if proposal is not None and proposal.status == "unjudged" and not _is_beside_path(round_, spot):
        follows = "it follows text that was rejected"
        known = proposal.p is not None
        notes.append(f"Its p is given the proposals before it: {follows}." if known else f"Its p is unknown: {follows}.")
    here = judged_at(round_, spot) if proposal is None else proposal
    copied = here is not None and was_copied(round_, here)
    if greedy:
        without_p = proposal is not None and proposal.p is None
        alone = copied or here is None
        which = "q is" if without_p else "p is" if alone else "p and q are"
        notes.append(f"{which} shown for temperature 1 without filters: at temperature 0 there would only be 0 and 1.")
    elif copied and not drafter_kind(round_.drafted_by).has_distribution:
        notes.append(
            "The drafter proposes without probabilities: q is 1 for its token, so every rule accepts it with probability p."
        )
    elif copied:
        notes.append("The proposal here was copied: q is 1 for it, so every rule accepts it with probability p.")
    if spot.own and not greedy and round_.rule in RATIO_RULES and round_.emitted[spot.at].origin == "correction":
        notes.append("No margin is recorded for a draw from the residual.")
    if spot.own and round_.emitted[spot.at].origin in ("bonus", "plain"):
        notes.append("No proposal was judged here, so there is no expected acceptance.")
    if len(round_.choices(spot.at)) > 1 and judged_at(round_, spot) is not None and round_.expected and not greedy:
        notes.append("The expected acceptance here is that of a single draw of the drafter, without the other choices.")
    last = len(round_.emitted) - 1
    if round_.finish == "eos" and spot.at == last and (spot.own or round_.emitted[last].origin == "accepted"):
        notes.append("It ends the answer and adds no text.")
    if proposal is not None and proposal.status != "unjudged" and spot.at > last:
        result = "it is not in the text" if proposal.status == "accepted" else "nothing replaces it"
        notes.append(f"The answer ended before this token, so {result}.")
    return tuple(notes)


def _is_beside_path(round_: Round, spot: Spot) -> bool:
    """Returns whether a proposal of a tree follows the accepted tokens, although it is not one of them."""
    place = place_of(round_, spot)
    return round_.is_tree and place <= round_.accepted and round_.proposals[spot.at].parent == place - 1


def _drawn_by_target(round_: Round, spot: Spot) -> str:
    """Returns the target's own draw at a judged position, by its text if the round has it."""
    proposal = round_.proposals[spot.at]
    drawn = proposal.target_argmax
    if spot.at < len(round_.emitted) and (drawn is None or round_.emitted[spot.at].id == drawn):
        return quoted(round_.emitted[spot.at])
    known: Candidate | None = next((entry for entry in proposal.target_top if entry.id == drawn), None)
    return f"“{visible_candidate(known)}”" if known is not None else "a different token" if drawn is None else f"token {drawn}"


def _names(choices: Sequence[Proposal]) -> str:
    return listed(list(map(quoted, choices)))


def block_weight(round_: Round) -> float | None:
    """Returns block's weight w of the accepted proposals, a capped likelihood ratio; None if p or q is missing. Block draws a
    replacement from max(w p − q, 0)."""
    weight = 1.0
    for proposal in round_.proposals[: round_.accepted]:
        if proposal.p is None or not proposal.q:
            return None
        weight = min(1.0, weight * proposal.p / proposal.q)
    return weight
