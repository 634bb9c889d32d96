"""The text of an answer in reading order, each token with what became of it and why: what the report colours and explains."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from engine.types import Candidate, Emitted, Proposal, Round

State = Literal["accepted", "correction", "bonus", "plain", "rejected", "unjudged"]
GHOSTS: tuple[State, ...] = ("rejected", "unjudged")


@dataclass(frozen=True, slots=True)
class Span:
    """A token, or the part of one that a stop text left over. A ghost stands where its token would have stood."""

    text: str
    state: State
    details: str

    @property
    def ghost(self) -> bool:
        return self.state in GHOSTS


def spans(rounds: Sequence[Round]) -> Iterator[Span]:
    """All tokens of an answer. Without ghosts their texts join to the answer: text is shown as far as it was released."""
    waiting: deque[Span] = deque()
    for round in rounds:
        waiting.extend(_in_order(round))
        remaining = len(round.text)
        while waiting:
            span = waiting[0]
            if span.ghost or len(span.text) <= remaining:
                remaining -= 0 if span.ghost else len(span.text)
                yield waiting.popleft()
                continue
            if remaining:
                yield replace(span, text=span.text[:remaining])
                waiting[0] = replace(span, text=span.text[remaining:])
                remaining = 0
            break
        if remaining:  # bytes that never completed a character are flushed as text of no token
            yield Span(round.text[-remaining:], round.emitted[-1].origin if round.emitted else "plain", "")


def _in_order(round: Round) -> Iterator[Span]:
    for place, token in enumerate(round.emitted):
        if token.origin == "accepted":
            proposal = round.proposals[place] if place < len(round.proposals) else None
            details = emitted_details(round, token) if proposal is None else proposal_details(round, place, token)
            yield Span(token.text, "accepted", details)
    for place, proposal in enumerate(round.proposals):
        if proposal.status != "accepted":
            yield Span(visible(proposal.text, proposal.bytes), proposal.status, proposal_details(round, place))
    for token in round.emitted:
        if token.origin != "accepted":
            yield Span(token.text, token.origin, emitted_details(round, token))


def proposal_details(round: Round, place: int, emitted: Emitted | None = None) -> str:
    """Everything that is known of a proposal, in lines."""
    proposal = round.proposals[place]
    lines = [f"{_quoted(proposal)}  {proposal.status}", f"round {round.index + 1}, place {place + 1}, {round.rule}"]
    if proposal.status == "unjudged":
        lines.append("behind a rejected proposal, so never judged")
    chances = []
    if proposal.p is not None:
        chances.append(f"target p {proposal.p:.3f}")
    if proposal.q is not None:
        chances.append(f"draft q {proposal.q:.3f}")
    if proposal.p is not None and proposal.q:
        chances.append(f"p/q {proposal.p / proposal.q:.3g}")
    lines.append("   ".join(chances))
    if proposal.copied:
        lines.append("copied by the drafter, not drawn")
    if proposal.acceptance is not None:
        coin = f", coin {proposal.coin:.3f}" if proposal.coin is not None else ""
        lines.append(f"chance to accept {proposal.acceptance:.3f}{coin}")
    if proposal.draft_argmax is not None and proposal.target_argmax is not None:
        same = "the same token" if proposal.draft_argmax == proposal.target_argmax else "another token"
        drawn = next((entry.text for entry in proposal.target_top if entry.id == proposal.target_argmax), None)
        named = "" if drawn is None or same == "the same token" else f", “{visible(drawn)}”"
        lines.append(f"the target drew {same}{named}")
    if place < len(round.expected):
        expected = round.expected[place]
        lines.append(
            f"expected here: match {expected.match:.2f}   gumbel {expected.gumbel:.2f}   rejection {expected.rejection:.2f}"
        )
    lines.append(_tops("target", proposal.target_top))
    lines.append(_tops("draft", proposal.draft_top))
    if emitted is not None and emitted.entropy is not None:
        lines.append(f"entropy {emitted.entropy:.2f} nats")
    return "\n".join(line for line in lines if line)


def emitted_details(round: Round, token: Emitted) -> str:
    """Everything that is known of a token that was not proposed, in lines."""
    what = {
        "correction": "in place of the rejected proposal",
        "bonus": "after every proposal was accepted",
        "plain": "nothing was proposed",
        "accepted": "",
    }[token.origin]
    known = [
        f"target p {token.p:.3f}" if token.p is not None else "",
        f"entropy {token.entropy:.2f} nats" if token.entropy is not None else "",
        f"margin {token.margin:.3g}" if token.margin is not None else "",
    ]
    lines = [
        f"{_quoted(token)}  {token.origin}",
        f"round {round.index + 1}, {round.rule}" + (f", {what}" if what else ""),
        "   ".join(part for part in known if part),
    ]
    return "\n".join(line for line in lines if line)


def visible(text: str, raw: bytes = b"") -> str:
    """A token on one line: white space spelled out, half characters as their bytes, control characters as their pictures."""
    if "\N{REPLACEMENT CHARACTER}" in text or (not text and raw):
        return f"‹{raw.hex(' ').upper()}›" if raw else text
    shown = text.replace("\r\n", "⏎").replace("\n", "⏎").replace("\r", "⏎").replace("\t", "⇥")
    shown = "".join(chr(0x2400 + ord(letter)) if letter < " " else letter for letter in shown)
    return shown.replace(" ", "·") if shown and not shown.strip() else shown


def _quoted(token: Proposal | Emitted) -> str:
    return f"“{visible(token.text, token.bytes)}”"


def _tops(whose: str, top: Sequence[Candidate]) -> str:
    return f"{whose}: " + "   ".join(f"“{visible(entry.text)}” {entry.probability:.2f}" for entry in top) if top else ""
