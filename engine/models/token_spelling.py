"""How vocabularies spell bytes: GPT-2's characters for them, and SentencePiece's words with byte tokens."""

from __future__ import annotations

import re

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SPACE = "\u2581"
"""What stands for a space in SentencePiece's pieces."""


def _byte_characters() -> dict[str, int]:
    """The byte behind each character of GPT-2's byte-level vocabularies (Radford et al. 2019, `encoder.py`)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    shifted = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + index): byte for index, byte in enumerate(shifted)}


_BYTES = _byte_characters()
_CHARACTERS = {byte: character for character, byte in _BYTES.items()}


def byte_level(token: str) -> bytes:
    """Bytes of a byte-level token; one with other characters can only have been added as text."""
    return bytes(_BYTES[char] for char in token) if all(char in _BYTES for char in token) else token.encode()


def in_characters(token: bytes) -> str:
    """The byte-level token of these bytes."""
    return "".join(_CHARACTERS[byte] for byte in token)


def byte_fallback(token: str) -> bytes:
    """Bytes of a SentencePiece-like token: U+2581 is a space, `<0xNN>` a byte."""
    single = _BYTE_TOKEN.fullmatch(token)
    return bytes([int(single[1], 16)]) if single else token.replace(SPACE, " ").encode()
