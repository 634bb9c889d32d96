"""Words that the window, the terminal and what is exported share: how an answer ended, what its figures are, and what became of
its tokens."""

from __future__ import annotations

from engine.lens.pieces import Kind
from engine.types import Finish

FINISHES: dict[Finish, str] = {
    "eos": "end of answer",
    "stop": "stop sequence reached",
    "length": "length limit reached",
    "context": "context is full",
    "cancelled": "stopped",
}
FIGURES = {
    "throughput": "emitted tokens divided by the seconds from the end of reading the prompt to the last token.",
    "alpha": "accepted / (accepted + rejected). Unjudged proposals say nothing and are left out.",
    "tau": "emitted tokens per round, correction or bonus included.",
    "predicted_tau": "the mean over rounds of (1 − alpha^(gamma + 1)) / (1 − alpha)",
    "draft_yield": "accepted / proposals. Many articles call it alpha, but it counts the unjudged proposals too.",
}
"""What each figure is, to be put after its name; of the predicted tau, how it is computed."""
LEGEND: dict[Kind, str] = {
    "accepted": "proposed and accepted",
    "rejected": "proposed but rejected; shown as a ghost",
    "unjudged": "proposed after a rejected token, so never judged; shown as a ghost",
    "correction": "the target's token in place of a rejected one",
    "bonus": "the target's extra token after every proposal was accepted",
}
