"""Text to token ids and back, exact to the byte, and conversations to prompts.

Two rules of this module matter to everything above it: a control token that a user types is text, never control; and
`token_bytes` gives the bytes a token stands for, so a token may be half a character. `engine.models.tokenizer_files` builds
tokenizers from a model's files.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tokenizers import AddedToken, models
from tokenizers import Tokenizer as Backend
from tokenizers.normalizers import Normalizer

from engine.lens.thoughts import CHANNEL, MARKS, thought_of
from engine.models.chat_templates import ChatTemplate
from engine.models.turn_ends import ends_among
from engine.types import Message, Thinking
from engine.values.errors import DraftlightError


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

_STAND_INS = {True: range(0x20000, 0x2A6D0), False: range(0x100000, 0x10FFF0)}
"""Stand-ins for characters of typed control tokens: rare ideographs for characters of words, since some tokens are found beside
words only or not at all, and the last private-use plane for others."""

_SECRET = secrets.token_hex(8)


def secret_name(token: int) -> str:
    """The text by which a backend that encodes what users write knows the control token with this id. Nobody can type it."""
    return f"\U0010fffd{_SECRET}.{token}\U0010fffd"


_THINKING_SWITCHES = ("enable_thinking", "thinking")
"""Variables by which templates ask whether the model is to think: Qwen's, SmolLM's and most others'; DeepSeek's and Granite's."""

_THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking")
"""Fields in which templates want the thought of an old answer: those of Qwen, GLM and Seed-OSS; of newer ones; of gpt-oss."""

_UNNAMED = {"bos_token": "", "eos_token": ""}
"""What templates get for these two where a model has no such token: many join them to text without asking."""


@dataclass(frozen=True)
class Special:
    """A control token. `swallows_left` and `swallows_right`: white space beside it in a template belongs to it."""

    id: int
    text: str
    swallows_left: bool = False
    swallows_right: bool = False


_Finder = tuple[Backend, dict[int, int]]
"""A backend that finds added tokens, in one pass however many there are, and nothing else; their ids by its own."""


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
        leading_spaces: how many spaces its decoder leaves out at the beginning of a text: one where a space in front is part of
            SentencePiece's words.
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
        leading_spaces: int = 0,
    ) -> None:
        """`full` knows the control tokens by their texts, `plain` by their secret names: they are part of its model, or are added
        here."""
        self._plain = plain
        self._full = full
        self.special = {token.id: token for token in special}
        self._added = full.get_added_tokens_decoder()
        plain.add_tokens([_renamed(self._added[index], secret_name(index)) for index in self.special if index in self._added])
        self.vocabulary = tuple(vocabulary)
        self.chat_template = chat_template
        self.named = dict(named or {})
        self.bos_id = bos_id
        self.eos_id = eos_id
        added = full.get_added_tokens_decoder()
        known = ends_among({index: (token.content, index in self.special) for index, token in added.items()})
        self.eos_ids = known.union(ends, () if eos_id is None else (eos_id,))
        self.prefix = tuple(prefix)
        self.leading_spaces = leading_spaces
        self._cuts: dict[tuple[str, str], bool] = {}

    def encode(self, text: str, allow_special: bool = False) -> list[int]:
        """Token ids of `text`; nothing is put before or after it.

        Unpaired surrogates become question marks. A few control characters are no token of some vocabularies and are left
        out, as in those models' own tokenizers.
        """
        text = _sound(text)
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
        """Token ids of a conversation. What the messages contain never becomes a control token, but for the marks of thoughts in
        what a model wrote, which its template cuts out of old answers or keeps.

        Whether a model thinks before it answers is told its template where it asks for that (`switches_thinking`).

        Where a message contains the text of one, its characters go through the template as stand-ins that occur nowhere else.
        The control tokens that are found behind it are the template's own. They get their secret names, the messages their
        characters back, and the whole is encoded at once. Where the messages contain none, `full` encodes it as it is.

        Raises:
            DraftlightError: the model has no template, or its template refuses these messages.
        """
        turns = [{"role": turn.role, "content": turn.content} if isinstance(turn, Message) else dict(turn) for turn in messages]
        turns = [self._with_thought(turn) for turn in turns]
        stand_ins = _StandIns((self.chat_template or "") + "".join(value for turn in turns for value in turn.values()))
        covered = [
            {
                name: value if name == "role" else self._cover(value, stand_ins, by_model=turn.get("role") == "assistant")
                for name, value in turn.items()
            }
            for turn in turns
        ]
        rendered = _sound(self._render(covered, add_generation_prompt, thinking))
        whole = rendered.translate(stand_ins.back)
        own = self._occurrences(rendered) if stand_ins.back else []
        if not stand_ins.back or (not stand_ins.tokens and own == self._occurrences(whole)):
            return self.encode(whole, allow_special=True)
        parts: list[str] = []
        end = 0
        for start, stop, token in own:
            parts += rendered[end:start], secret_name(token)
            end = stop
        return self.encode("".join([*parts, rendered[end:]]).translate(stand_ins.back))

    def _with_thought(self, turn: dict[str, str]) -> dict[str, str]:
        """The turn with the model's thought where the chat template wants it: in a field of its own where there is one and the
        template does not cut thoughts out itself. Messages of the Harmony format are never content."""
        thought = thought_of(turn.get("content", "")) if turn.get("role") == "assistant" else None
        if thought is None or (thought.marks[0] != CHANNEL and (not self._thought_fields or self._cuts_out(thought.marks))):
            return turn
        fields = dict.fromkeys(self._thought_fields, thought.text) if thought.text else {}
        return turn | {"content": thought.answer} | fields

    @cached_property
    def _thought_fields(self) -> list[str]:
        keys = self._template.keys()
        return [name for name in _THOUGHT_FIELDS if name in keys]

    def _cuts_out(self, marks: tuple[str, str]) -> bool:
        """Whether the chat template cuts a thought between such marks out of an old answer."""
        if marks not in self._cuts:
            said = ("user", "a"), ("assistant", f"{marks[0]}\n{_SECRET}\n{marks[1]}\n\nb"), ("user", "c")
            turns = [{"role": role, "content": content} for role, content in said]
            try:
                self._cuts[marks] = _SECRET not in self._render(turns, add_generation_prompt=True, thinking="auto")
            except DraftlightError:
                self._cuts[marks] = False
        return self._cuts[marks]

    def _cover(self, content: str, stand_ins: _StandIns, by_model: bool) -> str:
        """`content` with stand-ins for every control token, also for one that the end of the content cuts off; but not for the
        marks of thoughts where a model wrote it."""
        content = _sound(content)
        finders = [self._literal_finder]
        if any(token.normalized for index, token in self._added.items() if index in self.special):
            finders.append(self._finder)  # of other spellings
        for finder in finders:
            parts: list[str] = []
            end = 0
            for start, stop, token in self._occurrences(content, finder):
                if by_model and token in self._marks:
                    continue
                parts += content[end:start], stand_ins.of(content[start:stop])
                end, stand_ins.tokens = stop, True
            content = "".join([*parts, content[end:]])
        cut = self._cut_off(content.rstrip())
        return content[:cut] + stand_ins.of(content[cut:])

    def _cut_off(self, text: str) -> int:
        """Where a control token begins that the end of the text cuts off; its length where none does."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            place = bisect_right(self._texts, text[start:])  # of the first text that goes on behind it
            if place < len(self._texts) and self._texts[place].startswith(text[start:]):
                return start
        return len(text)

    def _occurrences(self, text: str, finder: _Finder | None = None) -> list[tuple[int, int, int]]:
        """Beginning, end and id of the control tokens in a text. White space that belongs to one is left out."""
        backend, ids = finder or self._finder
        with explained("The model's tokenizer cannot take this text", "Choose another model."):
            found = backend.encode_batch([text], add_special_tokens=False)[0]
        places = []
        for (start, stop), known in zip(found.offsets, found.ids, strict=True):
            if (token := ids[known]) in self.special:
                literal = text.find(self.special[token].text, start, stop)
                if literal >= 0:
                    start, stop = literal, literal + len(self.special[token].text)
                places.append((start, stop, token))
        return places

    @cached_property
    def _finder(self) -> _Finder:
        """Finds added tokens as `full` does."""
        return _finder_of(self._added, self._full.normalizer)

    @cached_property
    def _literal_finder(self) -> _Finder:
        """Finds every text of a control token, also where flags keep the token from being found. Some models make the token of it
        all the same."""
        return _finder_of({token.id: AddedToken(token.text, normalized=False) for token in self.special.values()})

    @cached_property
    def _marks(self) -> frozenset[int]:
        """Control tokens that are marks of thoughts, or part of one."""
        marks = [mark for pair in MARKS for mark in pair]
        return frozenset(token.id for token in self.special.values() if any(token.text in mark for mark in marks))

    @cached_property
    def _texts(self) -> list[str]:
        return sorted(token.text for token in self.special.values())

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._texts), default=0)

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


class _StandIns:
    """Characters that occur nowhere in `text`, each for another character.

    Attributes:
        back: the character behind each one that was given, for `str.translate`.
        tokens: whether they stand for whole control tokens.
    """

    tokens = False

    def __init__(self, text: str) -> None:
        occurring = set(text)
        self._unused = {
            is_word: (chr(code) for code in codes if chr(code) not in occurring) for is_word, codes in _STAND_INS.items()
        }
        self._known: dict[str, str] = {}
        self.back: dict[int, str] = {}

    def of(self, text: str) -> str:
        """The text in stand-ins, but for its white space, which templates trim."""
        return "".join(character if character.isspace() else self._of(character) for character in text)

    def _of(self, character: str) -> str:
        if character not in self._known:
            self._known[character] = stand_in = next(self._unused[character.isalnum() or character == "_"])
            self.back[ord(stand_in)] = character
        return self._known[character]


def _finder_of(tokens: Mapping[int, AddedToken], normalizer: Normalizer | None = None) -> _Finder:
    backend = Backend(models.BPE())
    if normalizer is not None:
        backend.normalizer = normalizer
    backend.add_tokens([*tokens.values()])
    known = backend.get_vocab(with_added_tokens=True)
    return backend, {known[token.content]: index for index, token in tokens.items() if token.content in known}


def _sound(text: str) -> str:
    """The text with question marks for unpaired surrogates, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode()


def _renamed(token: AddedToken, name: str) -> AddedToken:
    """The token under another name, found wherever that stands."""
    return AddedToken(name, normalized=token.normalized, lstrip=token.lstrip, rstrip=token.rstrip, special=token.special)
