"""Mutations of JSON values, JSON lines and templates that still pass the parser."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

Mutate = Callable[[bytes, random.Random], bytes]

_STRANGE: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3, 64, 65, 255, 2**31, 2**32, 2**53, 2**63, -(2**63) - 1, 10**18, 10**25, 10**400),
    *(-(10**400), 0.0, -0.0, 0.5, 1e-320, 1e308, -1e308, float("nan"), float("inf"), float("-inf")),
    *("", " ", "\x00", "\ud800", "\u202e", "a" * 300, "0", "1e999", "NaN", "..", "../../x", "/etc/passwd", "=1+1", "<img src=x>"),
    *("\n", [], {}, [[]], [None], {"": None}, [0] * 50, [1, 2, 3], {"id": 0}),
]
_RAW = ["[" * 3000, '{"a":' * 3000, "1" * 5000, "1e400", "-", '"\\ud800"', "NaN", '"\\u0000"', "[" * 900 + "]" * 900]
"""What takes the place of a value as it stands, valid or not."""


def json_value(data: bytes, rng: random.Random) -> bytes:
    """JSON with a few of its values changed; what is none stays as it is."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        value = _changed(value, rng)
    if isinstance(value, (dict, list)) and rng.random() < 0.03:
        return _with_raw(value, rng)
    try:
        return json.dumps(value).encode()
    except (ValueError, RecursionError):
        return data


def json_lines(data: bytes, rng: random.Random) -> bytes:
    """JSON lines of which one is changed, taken out, repeated or moved."""
    lines = data.split(b"\n")
    place = rng.randrange(len(lines))
    match rng.randrange(12):
        case 0:
            lines.insert(rng.randrange(len(lines) + 1), lines[place])
        case 1 if len(lines) > 1:
            lines.pop(place)
        case 2:
            other = rng.randrange(len(lines))
            lines[place], lines[other] = lines[other], lines[place]
        case 3:
            lines[place] = lines[place][: rng.randrange(len(lines[place]) + 1)]
        case _:
            lines[place] = json_value(lines[place], rng)
    return b"\n".join(lines)


def behind_length(data: bytes, rng: random.Random) -> bytes:
    """What safetensors files begin with: eight bytes of length, then JSON."""
    length = int.from_bytes(data[:8], "little")
    if length > len(data) - 8 or rng.random() < 0.1:
        return data[: rng.randrange(len(data) + 1)] + rng.randbytes(rng.randrange(9))
    changed = json_value(data[8 : 8 + length], rng)
    return len(changed).to_bytes(8, "little") + changed + data[8 + length :]


def _changed(value: Any, rng: random.Random) -> Any:
    """The value with one place in it changed."""
    holder: Any = None
    at: Any = None
    inner = value
    while isinstance(inner, (dict, list)) and inner and (holder is None or rng.random() < 0.85):
        holder = inner
        at = rng.choice(list(inner)) if isinstance(inner, dict) else rng.randrange(len(inner))
        inner = inner[at]
    new = _other(inner, rng)
    if holder is None:
        return new
    match rng.randrange(10):
        case 0:
            if isinstance(holder, dict):
                del holder[at]
            else:
                holder.pop(at)
        case 1:
            if isinstance(holder, dict):
                holder[str(rng.choice(_STRANGE))[:40]] = inner
            else:
                holder.extend([inner] * rng.choice((1, 2, 30)))
        case 2:
            other = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
            holder[at], holder[other] = holder[other], holder[at]
        case _:
            holder[at] = new
    return value


def _other(value: Any, rng: random.Random) -> Any:
    if rng.random() < 0.4:
        if isinstance(value, bool) or value is None:
            return not value
        if isinstance(value, int):
            return value + rng.choice((-1, 1, 7, 100, 10**6, -value, -2 * value))
        if isinstance(value, float):
            return value * rng.choice((-1, 0, 1e300, 1e-300, 10)) + rng.choice((0, 1))
        if isinstance(value, str):
            place = rng.randrange(len(value) + 1)
            return (
                value[:place]
                + rng.choice(("", "\x00", "\ud83d", "\u2028", "%", "{{", " " * 40, value[:200], "é"))
                + value[place + rng.randrange(3) :]
            )
    chosen = rng.choice(_STRANGE)
    return list(chosen) if isinstance(chosen, list) else dict(chosen) if isinstance(chosen, dict) else chosen


def _with_raw(value: Any, rng: random.Random) -> bytes:
    """One value of the JSON replaced by text."""
    marker = f"@{rng.getrandbits(40):x}@"
    holder = value
    at = rng.choice(list(holder)) if isinstance(holder, dict) and holder else 0
    if not holder:
        return rng.choice(_RAW).encode()
    holder[at] = marker
    try:
        return json.dumps(value).replace(json.dumps(marker), rng.choice(_RAW)).encode()
    except (ValueError, RecursionError):
        return rng.choice(_RAW).encode()


_TEMPLATE_PARTS = [
    *("{% for m in messages %}", "{% endfor %}", "{{ m['content'] }}", "{{ messages }}", "{% if add_generation_prompt %}"),
    *("{% endif %}", "{% set x = x ~ x %}", "{{ 'a' * 1000000 }}", "{% for i in range(99999) %}"),
    *("{% macro f(n) %}{{ f(n) }}{% endmacro %}", "{{ f(1) }}", "{{ ''.__class__ }}", "{{ x|tojson }}", "{{ 10 ** 10000 }}"),
    *("{{ '%1000000d' % 1 }}", "{% set ns = namespace(a=1) %}", "{% set ns.a = ns.a * 99999 %}"),
    *("{{ messages|list|length }}", "{{ cycler(1,2) }}", "{{ lipsum(100) }}", "{% raw %}", "{% endraw %}"),
    *("{{ 'x'|center(9999999) }}", "{{ 'a'|replace('', 'bbbbbbbbbbbbbbb') }}", "{{ strftime_now('%Y' * 1000) }}"),
    *("{{ raise_exception('x') }}", "{% generation %}", "{% endgeneration %}", "{% break %}", "{% continue %}"),
    *("{% include 'x' %}", "{% import 'x' as y %}", "{{ self }}", "{% block a %}{{ self.a() }}{% endblock %}"),
    *("{{ messages[0]['content']|wordwrap(1) }}", "{{ range(100000)|join('x') }}", "{{ dict }}", "{{ 'a'.ljust(99999999) }}"),
    *("{{ '{0:99999999}'.format(1) }}", "{{ (1,) * 99999999 }}", "{{ messages|map('upper')|list }}", "{{", "}}", "{%", "%}"),
    *("{{ 2 ** 100000 }}", "{{ 7 ** 7 ** 7 ** 7 }}", "{{ [1] * 999 }}", "{% call f() %}", "{% endcall %}"),
    *("{% filter upper %}", "{% endfilter %}", "{#", "#}"),
]


def template(data: bytes, rng: random.Random) -> bytes:
    """A chat template with parts put in, taken out or repeated."""
    text = data.decode("utf-8", "replace")
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(text) + 1)
        end = min(len(text), place + rng.randrange(30))
        text = text[:place] + rng.choice((*_TEMPLATE_PARTS, text[place:end] * 2, "")) + text[rng.choice((place, end)) :]
    return text[:4000].encode()
