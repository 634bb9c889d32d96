"""The words of the window: descriptions of rules, definitions of numbers. Pure functions."""

from __future__ import annotations

from engine.lens.pieces import Ghosts
from engine.lens.shared_wording import FIGURES, no_template, path_title
from engine.lens.shared_wording import RULE_TITLES as RULE_TITLES
from engine.lens.shared_wording import drafter_title as drafter_title
from engine.types import INVARIANT_RULES, Rule
from engine.values.drafter_kinds import NO_DRAFTER, DrafterKind, Fits

RULE_NOTES: dict[Rule, str] = {
    "match": "Match: drafter and target draw independently; a proposal is accepted if both drew the same token.",
    "rejection": "Rejection: a proposal is accepted with probability min(1, p/q); otherwise the target draws from the residual. "
    "The text depends on the drafter (same probabilities, different dice).",
    "gumbel": "Gumbel: drafter and target draw with the same noise, so they agree more often than under Match. "
    "The drafter does not change the text.",
    "block": "Block: the proposals of a round are judged together; on average at least as many are accepted as under Rejection.",
}
GHOST_TITLES: dict[Ghosts, str] = {
    "none": "Rejected proposals hidden",
    "above": "Rejected proposals above the text",
    "rejected": "Rejected proposals in the text",
    "all": "Rejected and unjudged proposals in the text",
}
FITS_NOTES: dict[Fits, str] = {
    "any": "",
    "builtin": "Works with the built-in target only.",
    "vocabulary": "Works with targets that have the same vocabulary.",
    "own": "Works with the target that it was trained for.",
    "inside": "Works with targets whose files have one.",
}
DEFINITIONS = {
    "throughput": f"Throughput: {FIGURES['throughput']}",
    "alpha": f"Acceptance rate (alpha): {FIGURES['alpha']} ± is half the width of Wilson's 95% interval.",
    "expected_acceptance": "Expected acceptance: the share of the proposals judged in any column that a rule accepts on average, "
    "in closed form. Block judges jointly and has none.",
    "tau": f"Tokens per pass (tau): {FIGURES['tau']} The expected value follows from alpha: {FIGURES['predicted_tau']}.",
    "tau_block": f"Tokens per pass (tau): {FIGURES['tau']} Block judges jointly, so no value follows from alpha.",
    "draft_yield": f"Draft yield: {FIGURES['draft_yield']}",
    "answer": "The panel beside the conversation shows the figures of one answer; press one there for its definition.",
    "lanes": "One row per round, on a time axis in milliseconds. Above, its tokens: filled = accepted, hatched and struck out = "
    "rejected, dashed = unjudged; then the target's own token, underlined for a correction or dotted for a bonus. In a tree the "
    "first row is the text, and below it are the other choices for each position; one with a solid outline is the token that the "
    "text has there, on a branch that was not reached. Below, its time: draft, verify, judge and other, in this order, for "
    "rounds timed by phase, which costs extra waits; a thin line for the others, whose total alone is known. A dotted line is a "
    "pause before the next round.",
    "speed_up": "Speed-up: throughput divided by that of a plain run (without a drafter), measured on the same prompt "
    "with the same settings, model and machine. It is never derived from other figures.",
    "first_token": "Time from sending the prompt to the first token: waiting, reading the prompt and the first round. "
    "Loading models for the answer does not count, nor, in a comparison, do the other answers' turns.",
    "invariant": f"Same with any drafter: under {' and '.join(RULE_TITLES[rule] for rule in INVARIANT_RULES)} the target draws "
    "with noise that depends only on the seed and the position, so another drafter gives the same text, except at near-ties.",
    "context": "Tokens of the conversation and of what you are writing, out of those that the model reads at most. The answer "
    "takes part of them too.",
}


def why_rules_coincide(temperature: float, drafter: str, has_distribution: bool) -> str:
    """Explains why the rules cannot differ under these settings; empty if they can."""
    if drafter == NO_DRAFTER:
        return "Without a drafter there is nothing to judge: every rule gives the target's own text."
    if temperature == 0:
        return "At temperature 0 every rule accepts only the target's argmax, so switching rules changes nothing."
    if not has_distribution:
        return (
            f"{drafter_title(drafter)} proposes without probabilities, so every rule accepts with probability p(x): "
            "switching rules changes nothing measurable."
        )
    return ""


def rule_note(rule: Rule, temperature: float, drafter: str, has_distribution: bool) -> str:
    """Returns the line below the rule selector: why rules coincide, or else how the chosen one works."""
    return why_rules_coincide(temperature, drafter, has_distribution) or RULE_NOTES[rule]


def drafter_note(kind: DrafterKind) -> str:
    """Describes a drafter and the targets that it fits."""
    own_length = "With gamma set to auto, it decides how many tokens to propose." if kind.sets_own_length else ""
    return " ".join(filter(None, (kind.does, own_length, FITS_NOTES[kind.fits])))


def raw_note(raw: bool, has_template: bool) -> str:
    """Explains how a message is sent if no chat template is used; empty if one is."""
    if not has_template:
        return f"{no_template('This model')}."
    return "Raw completion: the model continues your text as it stands." if raw else ""


def target_title(name: str) -> str:
    """Returns a readable name of a target; for a path, its last part."""
    return "SmolLM2 135M" if name == "builtin" else path_title(name)


def number(value: float | None, decimals: int = 2) -> str:
    """Formats a number; None becomes a dash."""
    return "–" if value is None else f"{value:,.{decimals}f}"
