"""Lossless conversion of rounds to JSON values and back.

Keys are the field names of `engine.types`, with three conventions: the bytes of a token are hexadecimal digits, a number that is
not finite is null, and a list stands for a tuple. Unknown keys are ignored, so that a later version may add some, and a key whose
field has a default may be missing. Nothing here imports MLX.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from engine.files.foreign import sound_part
from engine.types import (
    FINISHES,
    ORIGINS,
    RULES,
    SKIPS,
    STATUSES,
    Candidate,
    DecodingOptions,
    DrafterStatistics,
    Draw,
    Emitted,
    Expected,
    Milliseconds,
    Outlook,
    Proposal,
    Round,
    Skipped,
    option_names,
)
from engine.values.errors import is_number

JSON = dict[str, Any]
Choice = TypeVar("Choice", bound=str)


@functools.cache
def _field_names(kind: type[Any]) -> tuple[str, ...] | None:
    """Returns the names of a dataclass's fields; None for any other type. Cached, because it is called for every value of every
    round."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def plain(value: Any) -> Any:
    """Returns the JSON value of plain data: dataclasses become objects, tuples lists, bytes hexadecimal, non-finite numbers
    None."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    names = _field_names(type(value))  # type: ignore[arg-type]  # mypy mistakes the __hash__ of instances for that of the class
    if names is not None:
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    raise TypeError(f"{type(value).__name__} has no JSON form in a trace")


def round_to_json(round: Round) -> JSON:
    """Returns the JSON object of a round."""
    return plain(round)


def round_from_json(value: Mapping[str, Any]) -> Round:
    """Returns the round that `round_to_json` wrote. Raises ValueError if a value is missing or impossible."""
    try:
        return Round(
            index=_whole(value["index"]),
            position=_position(value["position"]),
            drafter=_text(value["drafter"]),
            rule=_choice(value["rule"], RULES),
            proposals=tuple(_proposal(entry) for entry in value["proposals"]),
            emitted=tuple(_emitted(entry) for entry in value["emitted"]),
            expected=tuple(_expected(entry) for entry in value["expected"]),
            milliseconds=_milliseconds(value["milliseconds"]),
            rows=_whole(value["rows"]),
            cache_length=_whole(value["cache_length"]),
            started=_number(value.get("started", 0.0)),
            text=_text(value.get("text", "")),
            finish=None if value.get("finish") is None else _choice(value["finish"], FINISHES),
            drafter_statistics=_statistics(value.get("drafter_statistics")),
            outlook=_outlook(value.get("outlook")),
            proposer=None if value.get("proposer") is None else _text(value["proposer"]),
            queued=bool(_optional_truth(value.get("queued"))),
        )
    except KeyError as missing:
        raise ValueError(f"{missing} is missing") from None
    except (TypeError, AttributeError) as error:
        raise ValueError(str(error)) from None


def options_to_json(options: DecodingOptions) -> JSON:
    """Returns the JSON object of all options."""
    return plain(options)


def options_from_json(value: Mapping[str, Any]) -> DecodingOptions:
    """Returns the options that `options_to_json` wrote; unknown ones are ignored. Raises ValueError like DecodingOptions."""
    return DecodingOptions(**{name: value[name] for name in option_names() if name in value})


def sound_options(value: Mapping[str, Any]) -> DecodingOptions:
    """Returns the valid options of a JSON object, with defaults in place of invalid ones."""
    return options_from_json(sound_part(options_from_json, value))


def _proposal(value: Mapping[str, Any]) -> Proposal:
    return Proposal(
        id=_whole(value["id"]),
        text=_text(value["text"]),
        bytes=bytes.fromhex(value["bytes"]),
        status=_choice(value["status"], STATUSES),
        q=_optional_number(value.get("q")),
        p=_optional_number(value.get("p")),
        acceptance=_optional_number(value.get("acceptance")),
        coin=_optional_number(value.get("coin")),
        draft_argmax=_optional_whole(value.get("draft_argmax")),
        target_argmax=_optional_whole(value.get("target_argmax")),
        draft_top=_candidates(value.get("draft_top", ())),
        target_top=_candidates(value.get("target_top", ())),
        copied=_optional_truth(value.get("copied")),
        target_draw=_draw(value.get("target_draw")),
        coupled_draw=_draw(value.get("coupled_draw")),
        independent_draw=_draw(value.get("independent_draw")),
    )


def _emitted(value: Mapping[str, Any]) -> Emitted:
    return Emitted(
        id=_whole(value["id"]),
        text=_text(value["text"]),
        bytes=bytes.fromhex(value["bytes"]),
        origin=_choice(value["origin"], ORIGINS),
        p=_optional_number(value.get("p")),
        entropy=_optional_number(value.get("entropy")),
        margin=_optional_number(value.get("margin")),
        target_top=_candidates(value.get("target_top", ())),
        border=_optional_number(value.get("border")),
    )


def _draw(value: Mapping[str, Any] | None) -> Draw | None:
    return None if value is None else Draw(_whole(value["id"]), _text(value["text"]))


def _candidates(values: Iterable[Mapping[str, Any]]) -> tuple[Candidate, ...]:
    """Returns candidates. They make up most of a trace, so the usual types take a fast path without a call for each value."""
    found = []
    for value in values:
        token, text, probability = value["id"], value["text"], value["probability"]
        if type(token) is int and type(text) is str and type(probability) is float:
            found.append(Candidate(token, text, probability))
        else:
            found.append(Candidate(_whole(token), _text(text), _number(probability)))
    return tuple(found)


def _expected(value: Mapping[str, Any]) -> Expected:
    return Expected(match=_chance(value["match"]), gumbel=_chance(value["gumbel"]), rejection=_chance(value["rejection"]))


def _chance(value: object) -> float:
    """Returns a probability, clamped to 0 to 1, so that damaged values do not spoil sums."""
    number = _number(value)
    return number if math.isnan(number) else min(max(number, 0.0), 1.0)


def _milliseconds(value: Mapping[str, Any]) -> Milliseconds:
    return Milliseconds(
        total=_number(value["total"]),
        draft=_optional_number(value.get("draft")),
        verify=_optional_number(value.get("verify")),
        judge=_optional_number(value.get("judge")),
        other=_optional_number(value.get("other")),
        communication=_optional_number(value.get("communication")),
    )


def _statistics(value: Mapping[str, Any] | None) -> DrafterStatistics | None:
    if value is None:
        return None
    return DrafterStatistics(
        hits=_whole(value["hits"]),
        misses=_whole(value["misses"]),
        match=_whole(value["match"]),
        entries=_whole(value["entries"]),
        capacity=_optional_whole(value.get("capacity")),
        resets=_whole(value.get("resets", 0)),
    )


def _outlook(value: Mapping[str, Any] | None) -> Outlook | None:
    if value is None:
        return None
    return Outlook(
        gamma=_whole(value["gamma"]),
        cost=_number(value["cost"]),
        alpha=_number(value["alpha"]),
        needed=_number(value["needed"]),
        next_try=_optional_whole(value.get("next_try")),
        copies=_optional_truth(value.get("copies")) is True,
        drafter=_text(value.get("drafter", "")),
        skipped=_skipped(value.get("skipped")),
    )


def _skipped(value: object) -> Skipped | None:
    """Returns the reason, or None for one that this version does not know, so that the round can still be read."""
    return next((skip for skip in SKIPS if skip == value), None)


def _whole(value: object) -> int:
    if type(value) is int:  # not for bool
        return value
    raise ValueError(f"{reprlib.repr(value)} is not a whole number")


def _number(value: object) -> float:
    """Returns a number; null stands for one that was not finite."""
    if type(value) is float:
        return value
    if value is None:
        return math.nan
    if is_number(value):
        return float(value)
    raise ValueError(f"{reprlib.repr(value)} is not a number")


def _position(value: object) -> int:
    """Returns a position in the text; the noise counts them in 32 bits."""
    if 0 <= (place := _whole(value)) < 2**32:
        return place
    raise ValueError(f"{reprlib.repr(value)} is not a position")


def _optional_number(value: object) -> float | None:
    return None if value is None else _number(value)


def _optional_whole(value: object) -> int | None:
    return None if value is None else _whole(value)


def _optional_truth(value: object) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise ValueError(f"{reprlib.repr(value)} is neither true nor false")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"{reprlib.repr(value)} is not a string")


def _choice(value: object, choices: tuple[Choice, ...]) -> Choice:
    for choice in choices:
        if value == choice:
            return choice
    raise ValueError(f"{reprlib.repr(value)} is none of {', '.join(choices)}")
