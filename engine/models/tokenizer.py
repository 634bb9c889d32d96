"""Text to token ids and back, exact to the byte, and conversations to prompts.

Two rules of this module matter to everything above it: a control token that a user types is text, never control; and
`token_bytes` gives the bytes a token stands for, so a token may be half a character. `engine.models.tokenizer_files` builds
tokenizers from a model's files.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tokenizers import Tokenizer as Backend

from engine.errors import DraftlightError
from engine.models.chat_templates import ChatTemplate
from engine.models.turn_ends import ends_among
from engine.types import Message, Thinking


@contextlib.contextmanager
def explained(what: str, remedy: str) -> Iterator[None]:
    """Turns what goes wrong inside into a DraftlightError: `what` cannot be done, the reason, and what to do.

    The library raises bare Exception, and where its own code breaks, something that is none: it derives from BaseException.
    """
    try:
        yield
    except DraftlightError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0].removesuffix(".")
        raise DraftlightError(f"{what}: {reason}. {remedy}") from error


os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
"""A batch of one needs no threads, and a process that has them is warned of each fork."""

_STAND_INS = range(0x100000, 0x10FFFE)
"""The last private-use plane: stand-ins for characters of typed control tokens are taken from it."""

_THINKING_SWITCHES = ("enable_thinking", "thinking")
"""Variables by which templates ask whether the model is to think: Qwen's, SmolLM's and most others'; DeepSeek's and Granite's."""

_UNNAMED = {"bos_token": "", "eos_token": ""}
"""What templates get for these two where a model has no such token: many join them to text without asking."""


@dataclass(frozen=True)
class Special:
    """A control token. `swallows_left` and `swallows_right`: white space beside it in a template belongs to it."""

    id: int
    text: str
    swallows_left: bool = False
    swallows_right: bool = False


class Tokenizer:
    """Encodes, decodes and writes prompts for one model.

    Attributes:
        special: control tokens by id. They are recognised in templates and with `allow_special`, never in what users write.
        vocabulary: bytes of every id, None for ids without a token.
        chat_template: the model's Jinja template, or None.
        named: texts of tokens by the names that templates know them by ("bos_token"), as far as the model's files name them.
        bos_id, eos_id: as the model's files name them, or None.
        eos_ids: every token that ends an answer: those that the files name, and those known by their texts.
        prefix: ids that the model's own tokenizer puts before a text, often the token of the beginning.
    """

    def __init__(
        self,
        plain: Backend,
        full: Backend,
        special: Iterable[Special],
        vocabulary: Sequence[bytes | None],
        chat_template: str | None = None,
        bos_id: int | None = None,
        eos_id: int | None = None,
        ends: Iterable[int] = (),
        named: Mapping[str, str] | None = None,
        prefix: Iterable[int] = (),
    ) -> None:
        """`plain` knows no control token, `full` knows them all."""
        self._plain = plain
        self._full = full
        self.special = {token.id: token for token in special}
        self.vocabulary = tuple(vocabulary)
        self.chat_template = chat_template
        self.named = dict(named or {})
        self.bos_id = bos_id
        self.eos_id = eos_id
        added = full.get_added_tokens_decoder()
        known = ends_among({index: (token.content, index in self.special) for index, token in added.items()})
        self.eos_ids = known.union(ends, () if eos_id is None else (eos_id,))
        self.prefix = tuple(prefix)
        self._ids = {token.text: token.id for token in self.special.values()}

    def encode(self, text: str, allow_special: bool = False) -> list[int]:
        """Token ids of `text`; nothing is put before or after it.

        Unpaired surrogates become question marks. A few control characters are no token of some vocabularies and are left
        out, as in those models' own tokenizers.
        """
        text = text.encode("utf-8", "replace").decode()
        backend = self._full if allow_special else self._plain
        with explained("The model's tokenizer cannot take this text", "Choose another model."):
            ids: list[int] = backend.encode_batch_fast([text], add_special_tokens=False)[0].ids  # `encode` holds other threads up
        return ids

    def raw_prompt(self, text: str) -> list[int]:
        """Token ids of a text that the model is to go on with, without a chat template; empty for an empty text."""
        ids = self.encode(text)
        return [*self.prefix, *ids] if ids else []

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, control tokens included; bytes that are no character become U+FFFD."""
        return b"".join(self.token_bytes(token) for token in ids).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        """The bytes `token` stands for; empty for an id without a token. IndexError outside the vocabulary."""
        if token < 0:
            raise IndexError(f"token id {token} is negative")
        return self.vocabulary[token] or b""

    def apply_chat_template(
        self, messages: Sequence[Message | Mapping[str, str]], add_generation_prompt: bool = True, thinking: Thinking = "auto"
    ) -> list[int]:
        """Token ids of a conversation. What the messages contain never becomes a control token.

        Whether a model thinks before it answers is told its template where it asks for that (`switches_thinking`).

        Where a message contains the text of one, its first character goes through the template as a stand-in that occurs
        nowhere else, so that splitting at control tokens finds the template's own only.

        Raises:
            DraftlightError: the model has no template, or its template refuses these messages.
        """
        turns = [{"role": turn.role, "content": turn.content} if isinstance(turn, Message) else dict(turn) for turn in messages]
        stand_ins = self._stand_ins((self.chat_template or "") + "".join(value for turn in turns for value in turn.values()))
        covered = [{name: self._cover(value, stand_ins) for name, value in turn.items()} for turn in turns]
        rendered = self._render(covered, add_generation_prompt, thinking)
        if covered == turns:
            return self.encode(rendered, allow_special=True)
        uncover = str.maketrans({stand_in: char for char, stand_in in stand_ins.items()})
        ids: list[int] = []
        end = 0
        for match in self._special_pattern.finditer(rendered):
            ids += self.encode(rendered[end : match.start()].translate(uncover))
            ids.append(self._ids[match.group(match.lastindex or 0)])
            end = match.end()
        return ids + self.encode(rendered[end:].translate(uncover))

    @cached_property
    def _special_pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self.special.values(), key=lambda token: -len(token.text))
        parts = (
            r"\s*" * token.swallows_left + f"({re.escape(token.text)})" + r"\s*" * token.swallows_right for token in longest_first
        )
        return re.compile("|".join(parts) or r"(?!)")

    def _stand_ins(self, text: str) -> dict[str, str]:
        """A character that occurs nowhere in `text` for each character that begins a control token."""
        unused = (chr(code) for code in _STAND_INS if chr(code) not in text)
        return dict(zip(sorted({text[0] for text in self._ids}), unused, strict=False))

    def _cover(self, content: str, stand_ins: Mapping[str, str]) -> str:
        """`content` with every beginning of a control token replaced, also one that the end of the content cuts off."""
        texts = tuple(self._ids)
        longest = max(map(len, texts), default=0)
        characters = list(content)
        for index, character in enumerate(content):
            if character not in stand_ins:
                continue
            rest = content[index:] if len(content) - index < longest else None
            if content.startswith(texts, index) or (rest and any(text.startswith(rest) for text in texts)):
                characters[index] = stand_ins[character]
        return "".join(characters)

    @cached_property
    def switches_thinking(self) -> bool:
        """Whether the chat template asks if the model is to think."""
        return not self._template.names().isdisjoint(_THINKING_SWITCHES)

    def _render(self, turns: list[dict[str, str]], add_generation_prompt: bool, thinking: Thinking) -> str:
        if self.chat_template is None:
            raise DraftlightError(
                "This model has no chat template, so it cannot hold a conversation. Choose an instruction-tuned model."
            )
        switches = {} if thinking == "auto" else dict.fromkeys(_THINKING_SWITCHES, thinking == "on")
        known = {"messages": turns, "tools": None, "documents": None, "add_generation_prompt": add_generation_prompt}
        return self._template.render(known | switches | _UNNAMED | self.named)

    @cached_property
    def _template(self) -> ChatTemplate:
        return ChatTemplate(self.chat_template or "")
