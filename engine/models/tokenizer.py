"""Tokenizers: text to token ids and back, exact to the byte, and conversations to prompts.

Other modules rely on two rules: the text of a control token in a user's message never becomes that control token; and
`token_bytes` returns the bytes of a token, which may be a part of a character. `engine.models.tokenizer_files` builds
tokenizers from a model's files.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tokenizers import AddedToken, models
from tokenizers import Tokenizer as Backend
from tokenizers.normalizers import Normalizer

from engine.lens.thoughts import CHANNEL, MARKS, split_thought
from engine.models.chat_templates import ChatTemplate
from engine.types import Message, Thinking
from engine.values.errors import DraftlightError


@contextlib.contextmanager
def explained(what: str, remedy: str) -> Iterator[None]:
    """Turns exceptions into a DraftlightError with three parts: `what` cannot be done, the reason, and the `remedy`.

    The tokenizers library raises plain Exception; for bugs in its own code it raises a PanicException, derived from
    BaseException.
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
"""A batch of one needs no threads, and a process that has started them gets a warning at each fork."""

_STAND_INS = {True: range(0x20000, 0x2A6D0), False: range(0x100000, 0x10FFF0)}
"""Code points that stand in for the characters of typed control tokens: rare ideographs for word characters (True), because some
tokens' flags make their match depend on adjacent word characters; the last private-use plane for other characters (False)."""

_SECRET = secrets.token_hex(8)


def secret_name(token: int) -> str:
    """Returns the name of a control token in the backend that encodes users' text. It contains a secret, so nobody can type
    it."""
    return f"\U0010fffd{_SECRET}.{token}\U0010fffd"


_THINKING_SWITCHES = ("enable_thinking", "thinking")
"""Template variables that switch thinking: Qwen's, SmolLM's and most others'; DeepSeek's and Granite's."""

_THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking")
"""Message fields in which templates expect an old answer's thought: Qwen, GLM and Seed-OSS; newer models; gpt-oss."""

_UNNAMED = {"bos_token": "", "eos_token": ""}
"""Values of these template variables if the model has no such token: many templates concatenate them without a check."""


@dataclass(frozen=True)
class Special:
    """A control token. `swallows_left`, `swallows_right`: whether it absorbs the white space before or after it in a
    template."""

    id: int
    text: str
    swallows_left: bool = False
    swallows_right: bool = False


@dataclass(frozen=True)
class TokenizerParts:
    """Parts of a `Tokenizer`, as the readers of every kind of file make them.

    Attributes:
        plain: knows the control tokens by their secret names: its model contains them, or `Tokenizer` adds them.
        full: knows the control tokens by their texts.
        special: the control tokens.
        vocabulary: bytes of every id, None for ids without a token.
        ids: token ids by the text of the token.
        adds_bos: whether a text starts with the BOS token.
        leading_spaces: number of leading spaces that the decoder strips: one if SentencePiece puts a space before the text.
    """

    plain: Backend
    full: Backend
    special: list[Special]
    vocabulary: list[bytes | None]
    ids: dict[str, int]
    adds_bos: bool = False
    leading_spaces: int = 0


_END_TOKENS = frozenset(
    {
        *("<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>"),
        *("<|return|>", "<|call|>", "<|calls|>", "<|flush|>", "<|tool_response>", "<turn|>"),
        *("<end_of_turn>", "<end_of_utterance>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"),
    }
)
"""Control tokens that end an answer in every model that has them, even if its files do not name them as EOS. Many files name one
EOS token of their family while the model writes another. The list is that of llama.cpp (`llama-vocab.cpp`).

They are unlikely in ordinary text, so they end an answer even if not marked as control tokens, as in older GGUF conversions."""
_END_TOKENS_IF_CONTROL = frozenset({"</s>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]"})
"""End an answer only if marked as control tokens. They may be ordinary text: `</s>` is HTML in the vocabularies of Gemma."""


def _end_tokens(added: Mapping[int, AddedToken], special: Collection[int]) -> frozenset[int]:
    """Returns the ids of the added tokens that end an answer. `special`: ids of the control tokens."""
    texts = {token.content for token in added.values()}
    excluded = set()
    if {"<|return|>", "<|flush|>"} & texts:
        excluded.add("<|end|>")  # ends one message; a turn may have several
    if "<|tool_response>" in texts:
        excluded.add("</s>")  # HTML in Gemma 4
    ends = {
        index: token.content in _END_TOKENS or (index in special and token.content in _END_TOKENS_IF_CONTROL)
        for index, token in added.items()
    }
    return frozenset(index for index, is_end in ends.items() if is_end and added[index].content not in excluded)


_Finder = tuple[Backend, dict[int, int]]
"""A backend that finds all added tokens in one pass and nothing else, and their ids by the backend's own ids."""


class Tokenizer:
    """Encodes, decodes and writes prompts for one model.

    Attributes:
        special: control tokens by id. They are recognised in templates and with `allow_special`, never in users' text.
        vocabulary: bytes of every id, None for ids without a token.
        chat_template: the model's Jinja template, or None.
        named: texts of tokens by their names in templates (such as "bos_token"), as far as the model's files name them.
        bos_id, eos_id: as the model's files name them, or None.
        eos_ids: every token that ends an answer: those that the files name, and those known by their texts.
        prefix: ids that the model's own tokenizer puts before a text, often the BOS token.
        leading_spaces: as in `TokenizerParts`.
    """

    def __init__(
        self,
        parts: TokenizerParts,
        chat_template: str | None = None,
        bos_id: int | None = None,
        eos_id: int | None = None,
        more_eos_ids: Iterable[int] = (),
        named: Mapping[str, str] | None = None,
        prefix: Iterable[int] = (),
    ) -> None:
        self._plain, self._full = parts.plain, parts.full
        self.special = {token.id: token for token in parts.special}
        self._added = self._full.get_added_tokens_decoder()
        renamed = [_renamed(self._added[index], secret_name(index)) for index in self.special if index in self._added]
        self._plain.add_tokens(renamed)
        self.vocabulary = tuple(parts.vocabulary)
        self.leading_spaces = parts.leading_spaces
        self.chat_template = chat_template
        self.named = dict(named or {})
        self.bos_id = bos_id
        self.eos_id = eos_id
        self.eos_ids = _end_tokens(self._added, self.special.keys()).union(more_eos_ids, () if eos_id is None else (eos_id,))
        self.prefix = tuple(prefix)
        self._removes_thought: dict[tuple[str, str], bool] = {}

    def encode(self, text: str, allow_special: bool = False) -> list[int]:
        """Returns the token ids of `text`; nothing is added before or after it.

        Unpaired surrogates become question marks. Some vocabularies have no token for a few control characters, which are then
        omitted, as by those models' own tokenizers.
        """
        text = _without_surrogates(text)
        backend = self._full if allow_special else self._plain
        with explained("The model's tokenizer cannot take this text", "Choose another model."):
            ids: list[int] = backend.encode_batch_fast([text], add_special_tokens=False)[0].ids  # `encode` blocks other threads
        return ids

    def raw_prompt(self, text: str) -> list[int]:
        """Returns the token ids of a text to continue without a chat template; empty for an empty text."""
        ids = self.encode(text)
        return [*self.prefix, *ids] if ids else []

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of `ids`, including control tokens; invalid bytes become U+FFFD."""
        return b"".join(self.token_bytes(token) for token in ids).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        """Returns the bytes of `token`; empty for an id without a token. Raises IndexError outside of the vocabulary."""
        if token < 0:
            raise IndexError(f"token id {token} is negative")
        return self.vocabulary[token] or b""

    def apply_chat_template(
        self, messages: Sequence[Message | Mapping[str, str]], add_generation_prompt: bool = True, thinking: Thinking = "auto"
    ) -> list[int]:
        """Returns the token ids of a conversation. Text in messages never becomes a control token, with one exception: the
        marks of thoughts in a model's answer, which the template removes from old answers or keeps.

        `thinking` is passed to templates that ask for it (`switches_thinking`).

        If a message contains the text of a control token, stand-ins replace its characters while the template is rendered; they
        occur nowhere else. Control tokens found in the result are then the template's own, and get their secret names. The
        messages get their characters back, and the whole text is encoded at once. If no message contains such a text, `full`
        encodes the result directly.

        Raises:
            DraftlightError: the model has no template, or its template refuses these messages.
        """
        turns = [{"role": turn.role, "content": turn.content} if isinstance(turn, Message) else dict(turn) for turn in messages]
        turns = [self._with_thought(turn) for turn in turns]
        stand_ins = _StandIns((self.chat_template or "") + "".join(value for turn in turns for value in turn.values()))
        hidden = [
            {
                name: value
                if name == "role"
                else self._hide_control_tokens(value, stand_ins, by_model=turn.get("role") == "assistant")
                for name, value in turn.items()
            }
            for turn in turns
        ]
        rendered = _without_surrogates(self._render(hidden, add_generation_prompt, thinking))
        text = rendered.translate(stand_ins.originals)
        template_tokens = self._occurrences(rendered) if stand_ins.originals else []
        if not stand_ins.originals or (not stand_ins.tokens and template_tokens == self._occurrences(text)):
            return self.encode(text, allow_special=True)
        parts: list[str] = []
        end = 0
        for start, stop, token in template_tokens:
            parts += rendered[end:start], secret_name(token)
            end = stop
        return self.encode("".join([*parts, rendered[end:]]).translate(stand_ins.originals))

    def _with_thought(self, turn: dict[str, str]) -> dict[str, str]:
        """Returns the turn with the model's thought where the chat template expects it: in a separate field, if the template
        has one and does not remove thoughts from the content itself. In the Harmony format thoughts are never part of the
        content."""
        thought = split_thought(turn.get("content", "")) if turn.get("role") == "assistant" else None
        if thought is None or (
            thought.marks[0] != CHANNEL and (not self._thought_fields or self._template_removes_thought(thought.marks))
        ):
            return turn
        fields = dict.fromkeys(self._thought_fields, thought.text) if thought.text else {}
        return turn | {"content": thought.answer} | fields

    @cached_property
    def _thought_fields(self) -> list[str]:
        keys = self._template.keys()
        return [name for name in _THOUGHT_FIELDS if name in keys]

    def _template_removes_thought(self, marks: tuple[str, str]) -> bool:
        """Returns whether the chat template removes a thought between these marks from an old answer."""
        if marks not in self._removes_thought:
            example = ("user", "a"), ("assistant", f"{marks[0]}\n{_SECRET}\n{marks[1]}\n\nb"), ("user", "c")
            turns = [{"role": role, "content": content} for role, content in example]
            try:
                self._removes_thought[marks] = _SECRET not in self._render(turns, add_generation_prompt=True, thinking="auto")
            except DraftlightError:
                self._removes_thought[marks] = False
        return self._removes_thought[marks]

    def _hide_control_tokens(self, content: str, stand_ins: _StandIns, by_model: bool) -> str:
        """Returns `content` with stand-ins for every control token, including one that is cut off at the end. In a model's text
        the marks of thoughts are left unchanged."""
        content = _without_surrogates(content)
        finders = [self._literal_finder]
        if any(token.normalized for index, token in self._added.items() if index in self.special):
            finders.append(self._finder)  # for other spellings that the normalizer maps to a control token
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
        """Returns the start of a control token that is cut off at the end of the text; the text's length if there is none."""
        for start in range(max(0, len(text) - self._max_token_length + 1), len(text)):
            index = bisect_right(self._texts, text[start:])  # of the first control token that may start with these characters
            if index < len(self._texts) and self._texts[index].startswith(text[start:]):
                return start
        return len(text)

    def _occurrences(self, text: str, finder: _Finder | None = None) -> list[tuple[int, int, int]]:
        """Returns start, end and id of the control tokens in a text, without the white space that they absorb."""
        backend, ids = finder or self._finder
        with explained("The model's tokenizer cannot take this text", "Choose another model."):
            found = backend.encode_batch([text], add_special_tokens=False)[0]
        spans = []
        for (start, stop), backend_id in zip(found.offsets, found.ids, strict=True):
            if (token := ids[backend_id]) in self.special:
                literal = text.find(self.special[token].text, start, stop)
                if literal >= 0:
                    start, stop = literal, literal + len(self.special[token].text)
                spans.append((start, stop, token))
        return spans

    @cached_property
    def _finder(self) -> _Finder:
        """Finder of added tokens, with the same matches as `full`."""
        return _finder_of(self._added, self._full.normalizer)

    @cached_property
    def _literal_finder(self) -> _Finder:
        """Finder of the exact text of every control token, even where its flags forbid a match: some models' tokenizers match
        it anyway."""
        return _finder_of({token.id: AddedToken(token.text, normalized=False) for token in self.special.values()})

    @cached_property
    def _marks(self) -> frozenset[int]:
        """Ids of the control tokens that are a mark of thoughts or a part of one."""
        marks = [mark for pair in MARKS for mark in pair]
        return frozenset(token.id for token in self.special.values() if any(token.text in mark for mark in marks))

    @cached_property
    def _texts(self) -> list[str]:
        return sorted(token.text for token in self.special.values())

    @cached_property
    def _max_token_length(self) -> int:
        return max(map(len, self._texts), default=0)

    @cached_property
    def switches_thinking(self) -> bool:
        """Whether the chat template has a variable that switches thinking."""
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
    """Maps characters to stand-ins that do not occur in `text`.

    Attributes:
        originals: the original character of each stand-in, for `str.translate`.
        tokens: whether stand-ins replace a whole control token.
    """

    tokens = False

    def __init__(self, text: str) -> None:
        occurring = set(text)
        self._unused = {
            is_word: (chr(code) for code in codes if chr(code) not in occurring) for is_word, codes in _STAND_INS.items()
        }
        self._known: dict[str, str] = {}
        self.originals: dict[int, str] = {}

    def of(self, text: str) -> str:
        """Returns the text in stand-ins. White space is left unchanged, because templates trim it."""
        return "".join(character if character.isspace() else self._of(character) for character in text)

    def _of(self, character: str) -> str:
        if character not in self._known:
            self._known[character] = stand_in = next(self._unused[character.isalnum() or character == "_"])
            self.originals[ord(stand_in)] = character
        return self._known[character]


def _finder_of(tokens: Mapping[int, AddedToken], normalizer: Normalizer | None = None) -> _Finder:
    backend = Backend(models.BPE())
    if normalizer is not None:
        backend.normalizer = normalizer
    backend.add_tokens([*tokens.values()])
    known = backend.get_vocab(with_added_tokens=True)
    return backend, {known[token.content]: index for index, token in tokens.items() if token.content in known}


def _without_surrogates(text: str) -> str:
    """Returns the text with question marks for unpaired surrogates, which tokenizers cannot encode."""
    return text.encode("utf-8", "replace").decode()


def _renamed(token: AddedToken, name: str) -> AddedToken:
    """Returns the token under another name, with the same flags except `single_word`."""
    return AddedToken(name, normalized=token.normalized, lstrip=token.lstrip, rstrip=token.rstrip, special=token.special)
