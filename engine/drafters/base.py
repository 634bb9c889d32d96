"""The interface of every drafter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import mlx.core as mx

from engine.drafters.draft import Draft, DraftContext, DrafterCapabilities, DraftPlan, Estimate
from engine.drafters.sampler import Sampler
from engine.target.layer_taps import Taps

Proceed = Callable[[int, int], bool]
"""Called with (tokens read, tokens to read) while a drafter catches up; returns False to cancel."""


def always(done: int, total: int) -> bool:
    """Returns True: a `Proceed` that never cancels."""
    return True


class Drafter(ABC):
    """Proposes tokens for the target to judge.

    A drafter follows the committed text: `start` gives it the whole text, `commit` the tokens that each round adds. It may run
    ahead inside `propose`, and must drop what was not accepted in `commit`.

    Attributes:
        name: the name that the user selects.
        capabilities: see `DrafterCapabilities`.
    """

    name: str
    capabilities: DrafterCapabilities

    @property
    def members(self) -> Mapping[str, Drafter]:
        """The drafters that it chooses among in each round, by name; itself if it is a single one."""
        return {self.name: self}

    @abstractmethod
    def start(self, context: DraftContext, proceed: Proceed = always) -> bool:
        """Starts to follow a text: before the target reads a prompt, or during an answer. May be called again at any time.

        Returns:
            False if `proceed` cancelled it.
        """

    def read(self, start: int, hidden_states: mx.array) -> None:  # noqa: B027  (most drafters read none)
        """Receives the (rows, layers x hidden) outputs of the layers in `capabilities` for the tokens from `start` on, which the
        target has just read."""

    def estimates(self, limit: int) -> Mapping[str, Estimate]:
        """Returns each member's estimate for at most `limit` proposals in the coming round."""
        return {self.name: Estimate()}

    def tree_reason(self) -> str:
        """Returns why it proposes no trees, as the end of a sentence; empty if it can."""
        reasons = [member.tree_reason() for name, member in self.members.items() if member is not self]
        return min(reasons, default="it proposes one token for each position")

    def has_token(self, token: int) -> bool:
        """Returns whether a token of the target is in the drafter's own vocabulary."""
        return True

    @abstractmethod
    def propose(self, plan: DraftPlan, sampler: Sampler) -> Draft:
        """Proposes at most `plan.length` (>= 1) tokens that follow the committed ones; `sampler.draft()` without a token is a
        plain round."""

    @abstractmethod
    def commit(self, path: Sequence[int], tokens: Sequence[int], hidden_states: mx.array | None) -> None:
        """Adds the tokens of a round to the text.

        Args:
            path: the nodes of the tree after which the target drew `tokens`, from the root on, one for each.
            tokens: the accepted proposals and the target's own token, without tokens that a stop cut.
            hidden_states: (len(tokens), layers x hidden) of these nodes, lazy; None if the drafter reads none.
        """

    def prefetch(self) -> None:  # noqa: B027  (may do nothing)
        """Starts the first step of the next round on the device, if possible, while the host reports this one."""

    def finish(self) -> None:  # noqa: B027  (may do nothing)
        """Leaves the cache at exactly the committed tokens without the newest, at the end of an answer."""


def reading(drafter: Drafter, taps: Taps, proceed: Proceed, first: int = 0) -> Proceed:
    """Returns a `Proceed` that first gives the drafter the hidden states of each chunk, from position `first` on, then calls
    `proceed`."""
    read = 0

    def heard(done: int, total: int) -> bool:
        """Passes the chunk's hidden states to the drafter, then calls `proceed`."""
        nonlocal read
        if done > read:
            drafter.read(first + read, taps.take()[: done - read])
            read = done
        return proceed(done, total)

    return heard
