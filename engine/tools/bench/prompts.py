"""Reads the prompts of a benchmark: JSON Lines with id, category and turns. Nothing here imports MLX."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

from engine.files.foreign import content_of, json_of
from engine.values.requests.bench import BenchPrompt

OWN_PROMPTS = Path(__file__).resolve().parents[3] / "assets" / "prompts.jsonl"


def read_prompts(path: Path = OWN_PROMPTS, limit: int | None = None) -> tuple[BenchPrompt, ...]:
    """Returns the prompts of a file, alternating between categories.

    Args:
        limit: maximum number of prompts.

    Raises:
        ValueError: the file cannot be read, or a line is not a prompt; names the line.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    try:
        lines = content_of(path).decode().split("\n")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a UTF-8 text file") from None
    prompts: dict[str, BenchPrompt] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        prompt = _prompt(line, f"{path}, line {number}")
        if prompt.id in prompts:
            raise ValueError(f"{path}, line {number}: the id {prompt.id!r} is used twice")
        prompts[prompt.id] = prompt
    if not prompts:
        raise ValueError(f"{path} contains no prompts")
    return _in_turn(tuple(prompts.values()))[:limit]


def _prompt(line: str, where: str) -> BenchPrompt:
    try:
        entry = json_of(line)
    except ValueError:
        raise ValueError(f"{where}: not JSON") from None
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: not an object with id, category and turns")
    for name in ("id", "category"):
        if not isinstance(entry.get(name), str) or not entry[name]:
            raise ValueError(f"{where}: {name} must be a non-empty string")
    turns = entry.get("turns")
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) and turn.strip() for turn in turns):
        raise ValueError(f"{where}: turns must be a list of non-empty strings")
    return BenchPrompt(entry["id"], entry["category"], tuple(turns))


def _in_turn(prompts: tuple[BenchPrompt, ...]) -> tuple[BenchPrompt, ...]:
    """Returns the first prompt of every category, then the second of every category, and so on."""
    by_category: dict[str, list[BenchPrompt]] = {}
    for prompt in prompts:
        by_category.setdefault(prompt.category, []).append(prompt)
    return tuple(prompt for row in zip_longest(*by_category.values()) for prompt in row if prompt is not None)
