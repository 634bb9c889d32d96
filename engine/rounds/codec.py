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
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from engine.files.foreign import valid_entries
from engine.types import SKIPS, Candidate, DecodingOptions, Expected, Outlook, Proposal, Round, Skipped, option_names
from engine.values.errors import is_number

JSON = dict[str, Any]


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
        round: Round = _reader(Round)(value)
    except KeyError as missing:
        raise ValueError(f"{missing} is missing") from None
    except (TypeError, AttributeError) as error:
        raise ValueError(str(error)) from None
    parents = [proposal.parent for proposal in round.proposals]
    if any(parent is not None for parent in parents):
        for at, parent in enumerate(parents):
            if parent is None or not -1 <= parent < at:
                raise ValueError(f"{parent} is not the parent of proposal {at}")
    return round


def options_to_json(options: DecodingOptions) -> JSON:
    """Returns the JSON object of all options."""
    return plain(options)


def options_from_json(value: Mapping[str, Any]) -> DecodingOptions:
    """Returns the options that `options_to_json` wrote; unknown ones are ignored. Raises ValueError like DecodingOptions."""
    return DecodingOptions(**{name: value[name] for name in option_names() if name in value})


def sound_options(value: Mapping[str, Any]) -> DecodingOptions:
    """Returns the valid options of a JSON object, with defaults in place of invalid ones."""
    return options_from_json(valid_entries(options_from_json, value))


@functools.cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """Returns the function that reads the JSON values of a type: a dataclass, or what is annotated in one."""
    if kind in _READERS:
        return _READERS[kind]
    if dataclasses.is_dataclass(kind):
        return _object_reader(kind)
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return lambda value: _choice(value, arguments)
    one = _reader(arguments[0])
    if get_origin(kind) is tuple:
        return lambda values: tuple(map(one, values))
    return lambda value: None if value is None else one(value)  # X | None


def _object_reader(kind: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(kind, localns={})  # a field named bytes is not the type bytes
    fields = [
        (field.name, _FIELDS.get((kind, field.name)) or _reader(hints[field.name]), field.default)
        for field in dataclasses.fields(kind)
    ]
    required = [(name, one) for name, one, default in fields if default is dataclasses.MISSING]
    optional = [field for field in fields if field[2] is not dataclasses.MISSING]

    def read(value: Any) -> Any:
        """Returns the object of a JSON value."""
        get = value.get
        return kind(
            *[one(value[name]) for name, one in required],
            *[default if (found := get(name, default)) is default else one(found) for name, one, default in optional],
        )

    return read


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


def _chance(value: object) -> float:
    """Returns a probability, clamped to 0 to 1, so that damaged values do not spoil sums."""
    number = _number(value)
    return number if math.isnan(number) else min(max(number, 0.0), 1.0)


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


def _rank(value: object) -> int:
    """Returns a proposal's place among its siblings."""
    if (rank := _whole(value)) >= 0:
        return rank
    raise ValueError(f"{reprlib.repr(value)} is not a rank")


def _position(value: object) -> int:
    """Returns a position in the text; the noise counts them in 32 bits."""
    if 0 <= (place := _whole(value)) < 2**32:
        return place
    raise ValueError(f"{reprlib.repr(value)} is not a position")


def _truth(value: object) -> bool:
    """Returns a boolean; null, too, is false."""
    if value is None or isinstance(value, bool):
        return bool(value)
    raise ValueError(f"{reprlib.repr(value)} is neither true nor false")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"{reprlib.repr(value)} is not a string")


def _choice(value: object, choices: tuple[str, ...]) -> str:
    for choice in choices:
        if value == choice:
            return choice
    raise ValueError(f"{reprlib.repr(value)} is none of {', '.join(choices)}")


_READERS: dict[Any, Callable[[Any], Any]] = {
    int: _whole,
    float: _number,
    str: _text,
    bool: _truth,
    bytes: bytes.fromhex,
    tuple[Candidate, ...]: _candidates,
}
_FIELDS: dict[tuple[type[Any], str], Callable[[Any], Any]] = {
    (Round, "position"): _position,
    (Proposal, "rank"): _rank,
    (Outlook, "skipped"): _skipped,
    **{(Expected, field.name): _chance for field in dataclasses.fields(Expected)},
}
"""Fields that allow less, or more, than their types."""
