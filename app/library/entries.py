"""The rows of the model lists, as values. No Qt."""

from __future__ import annotations

from dataclasses import dataclass

from app.library.downloads import State
from engine.files.hub import HubModel, Offer
from engine.files.library import LibraryModel
from engine.files.pairs import Recommended, Suggestion
from engine.values.drafter_kinds import DRAFTERS, NGRAM
from engine.values.wording import listed, size

ATTENTION_KINDS = {
    "keys": "full attention",
    "window": "sliding window",
    "chunks": "chunked attention",
    "recurrent": "recurrent state",
    "": "",
}


HEADS = {"yes": "MTP head", "missing": "MTP head missing", "no": "", "": ""}


@dataclass(frozen=True, slots=True)
class Entry:
    """One row.

    Attributes:
        key: path or name of the model, as used for loading. facts: the second line. amount, mark: shown at the right.
        problem: why the model cannot be used; it greys the row. fraction: share downloaded, None if complete.
    """

    key: str
    title: str
    facts: str = ""
    amount: str = ""
    mark: str = ""
    problem: str = ""
    fraction: float | None = None

    @property
    def spoken(self) -> str:
        """The text for screen readers."""
        return ", ".join(part for part in (self.title, self.mark, self.amount, self.facts, self.problem) if part)

    def contains(self, words: str) -> bool:
        """Returns whether the row contains every one of the words."""
        text = f"{self.title} {self.facts} {self.key}".casefold()
        return all(word in text for word in words.casefold().split())


def _joined(*facts: str) -> str:
    return " · ".join(fact for fact in facts if fact)


def too_large(needed: int | None, free: int | None) -> bool:
    """Returns whether a model needs more memory than is free."""
    return needed is not None and free is not None and needed > free


def model_entry(model: LibraryModel, free: int | None, target: str, drafter: str, unsuitable: str = "") -> Entry:
    """Returns the row of a model on this machine.

    Args:
        free: bytes of free memory.
        target, drafter: those in use.
        unsuitable: why it cannot be used for the chosen purpose.
    """
    memory = "" if model.need is None else f"{size(model.need)} of memory"
    if model.need is not None and free is not None and model.need > free:
        memory += f", {size(free)} free"
    context = "" if model.context is None else f"context {model.context:,}"
    facts = _joined(
        f"{model.form} {model.quantisation}".strip(),
        model.architecture,
        context,
        ATTENTION_KINDS[model.remembers],
        HEADS[model.head],
        memory,
        model.source,
    )
    mark = "Target" if model.target == target else "Drafter" if model.target == drafter else ""
    return Entry(model.target, model.name, facts, size(model.size), mark, model.problem or unsuitable)


def about_model(model: LibraryModel, free: int | None) -> str:
    """Describes the chosen model in sentences."""
    origin = "The model that Draftlight comes with." if model.target == "builtin" else model.target
    if model.problem:
        return f"{origin}\nThis model cannot be used. {model.problem}"
    memory = ""
    if model.need is not None:
        memory = f"It needs about {size(model.need)} of memory in a chat of moderate length"
        memory += "." if free is None else f"; {size(free)} is free{' now, which is too little' if model.need > free else ''}."
    return f"{origin}\n{memory}".strip()


def about_pairs(model: LibraryModel, suggestions: list[Suggestion]) -> str:
    """Describes the drafters for a model in sentences."""
    if model.only_drafts:
        return "It was made only for drafting and cannot answer by itself. Choose it as the drafter of the model that it fits."
    ngram_note = f"{DRAFTERS[NGRAM].title} drafts for every model: it copies what followed the same words earlier."
    if model.heads:
        ngram_note = f"{ngram_note} {model.heads}"
    if model.target == "builtin":
        builtin_drafters = listed([kind.title for kind in DRAFTERS.values() if kind.fits == "builtin"])
        return f"{ngram_note} Made for it: {builtin_drafters}."
    if not suggestions:
        return ngram_note
    best = suggestions[0]
    availability = "which is on this machine" if best.local_model is not None else "which can be downloaded"
    measured = f" {best.pair.measured}" if best.pair.measured else ""
    return f"{ngram_note} Known to draft for it: {best.pair.title}, {availability}.{measured}"


def about_drafting(model: LibraryModel, target: LibraryModel | None, reason: str, free: int | None, warning: str = "") -> str:
    """Describes whether a model can draft for the current target, and the memory both need.

    Args:
        target: None for the built-in one.
        reason: why it cannot; empty if its tokens fit.
        warning: a caveat if it can.
    """
    if reason:
        return f"It cannot draft for the target in use. {reason}"
    memory_note = ""
    if target is not None and target.need is not None and model.need is not None:
        memory_note = f" Both together need about {size(target.need + model.need)} of memory."
        if too_large(model.need, free):
            memory_note += f" Only {size(free or 0)} is free besides what is loaded."
    fit_note = "Its tokens fit the target in use, so it can draft for it."
    if model.only_drafts:
        fit_note = "It may have been made for the target in use." if warning else "It was made for the target in use."
    return fit_note + memory_note + (f" {warning}" if warning else "")


def recommended_entry(model: Recommended, here: bool, free: int | None) -> Entry:
    """Returns the row of a model in the list shipped with Draftlight."""
    weights = "" if model.weights is None else f"about {size(model.weights)} of weights"
    fits = "more than is free" if too_large(model.weights, free) else ""
    facts = _joined(f"drafts for {'; '.join(model.drafts_for)}", weights, fits)
    return Entry(model.repository, model.repository, facts, "", "On this machine" if here else "")


def about_recommended(model: Recommended) -> str:
    """Describes the chosen recommended model in sentences."""
    measured = " ".join(model.measured) or "No measurement is known."
    return f"{measured}\nSize and licence stand on its page on the Hub."


def found_entry(model: HubModel, here: bool) -> Entry:
    """Returns the row of a model that a search on the Hub found."""
    parameters = "" if model.parameters is None else f"{model.parameters / 1e9:.2g} billion parameters"
    context = "" if model.context is None else f"context {model.context:,}"
    facts = _joined(model.form, model.architecture, parameters, context, f"{model.downloads:,} downloads a month")
    mark = "On this machine" if here else "Gated" if model.gated else ""
    return Entry(model.name, model.name, facts, "", mark, model.problem)


def download_entry(name: str, state: State) -> Entry:
    """Returns the row of a running or resumable download."""
    marks = {"failed": "Needs a token" if state.page else "Failed", "paused": "Paused", "pausing": "Pausing"}
    return Entry(name, name, state.description, "", marks.get(state.phase, "Downloading"), fraction=state.fraction)


def offer_text(offer: Offer, free: int | None) -> str:
    """Returns the text for one of several versions of a model that can be downloaded."""
    name = offer.file.rpartition("/")[2] or "for mlx-lm"
    memory = "" if offer.need is None else f"needs {size(offer.need)} of memory"
    if too_large(offer.need, free):
        memory += ", more than is free"
    return _joined(name, offer.quantisation if not offer.file else "", size(offer.size), memory, offer.problem)
