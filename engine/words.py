"""Words that the window, the terminal and what is exported share: how an answer ended, and what became of its tokens."""

from __future__ import annotations

from engine.pieces import Kind
from engine.types import Finish

FINISHES: dict[Finish, str] = {
    "eos": "end of answer",
    "stop": "stop text reached",
    "length": "length limit reached",
    "context": "context is full",
    "cancelled": "stopped",
}
LEGEND: dict[Kind, str] = {
    "accepted": "drafted, and the target agreed",
    "rejected": "drafted, and the target did not agree; shown as a ghost",
    "unjudged": "drafted behind a rejected token, so never judged; shown as a ghost",
    "correction": "the target's token in place of a rejected one",
    "bonus": "the target's extra token after every proposal was accepted",
}
