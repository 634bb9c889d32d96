"""Builds SentencePiece-like tokenizers from their pieces, which come from a GGUF file or a `tokenizer.model`.

A BPE vocabulary merges the pair whose piece has the highest score. A unigram vocabulary chooses the most likely sequence of
pieces (Kudo and Richardson 2018). Text that no piece covers is written as bytes, if the vocabulary has byte tokens. This module
also contains the pre-tokenizers of byte-level vocabularies (GGUF's type gpt2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from engine.models.tokenizer import Special, TokenizerParts, explained, secret_name

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SPACE = "\u2581"
"""Character that stands for a space in SentencePiece's pieces."""


def _byte_characters() -> dict[str, int]:
    """Returns the byte of each character in GPT-2's byte-level vocabularies (Radford et al. 2019, `encoder.py`)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    shifted = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + index): byte for index, byte in enumerate(shifted)}


_BYTES = _byte_characters()
_CHARACTERS = {byte: character for character, byte in _BYTES.items()}


def byte_level(token: str) -> bytes:
    """Returns the bytes of a byte-level token. A token with other characters was added as text and is encoded as such."""
    return bytes(_BYTES[char] for char in token) if all(char in _BYTES for char in token) else token.encode()


def in_characters(token: bytes) -> str:
    """Returns the byte-level token of these bytes."""
    return "".join(_CHARACTERS[byte] for byte in token)


def byte_fallback(token: str) -> bytes:
    """Returns the bytes of a SentencePiece-like token: U+2581 is a space, `<0xNN>` a byte."""
    single = _BYTE_TOKEN.fullmatch(token)
    return bytes([int(single[1], 16)]) if single else token.replace(SPACE, " ").encode()


NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Types of pieces, with the same numbers in SentencePiece and ggml."""


@dataclass(frozen=True)
class Pieces:
    """A SentencePiece-like vocabulary.

    Attributes:
        pieces, scores, kinds: by token id.
        unigram: whether the vocabulary is unigram; otherwise it is BPE.
        space_first: whether a space is put before a text.
        one_space: whether runs of spaces become one, and spaces at both ends are removed.
        charsmap: SentencePiece's table of replaced characters; empty for none.
        merges: pairs in merge order; None if the scores determine the order.
    """

    pieces: Sequence[str]
    scores: Sequence[float]
    kinds: Sequence[int]
    unigram: bool = False
    space_first: bool = True
    one_space: bool = False
    charsmap: bytes = b""
    merges: Sequence[tuple[str, str]] | None = None

    def cut_to(self, width: int) -> Pieces:
        """Returns the pieces without those beyond the model's width, if text needs none of these; else all pieces."""
        if any(kind in (NORMAL, BYTE) for kind in self.kinds[width:]):
            return self
        return replace(self, pieces=self.pieces[:width], scores=self.scores[:width], kinds=self.kinds[:width])

    def parts(self, width: int, adds_bos: bool) -> TokenizerParts:
        """Returns the tokenizer of a model with `width` tokens. Raises DraftlightError if it is damaged."""
        with explained("The tokenizer is damaged", "Download the model again."):
            plain, full = self._backend([*map(secret_name, range(len(self.pieces)))]), self._backend(self.pieces)
        vocabulary: list[bytes | None] = [None] * width
        for index, piece in enumerate(self.pieces):
            if self.kinds[index] in (CONTROL, USER_DEFINED):
                vocabulary[index] = piece.encode()
            elif self.kinds[index] != UNUSED:
                vocabulary[index] = byte_fallback(piece)
        special = [Special(index, piece) for index, piece in enumerate(self.pieces) if self.kinds[index] == CONTROL]
        _add_tokens(plain, full, special, [piece for index, piece in enumerate(self.pieces) if self.kinds[index] == USER_DEFINED])
        ids = {piece: index for index, piece in enumerate(self.pieces)}
        return TokenizerParts(plain, full, special, vocabulary, ids, adds_bos, int(self.space_first))

    def _backend(self, controls: Sequence[str]) -> Backend:
        """Returns a backend. `controls`: by token id, the text of each control token; other entries are ignored."""
        unknown = next((index for index, kind in enumerate(self.kinds) if kind == UNKNOWN), None)
        has_bytes = BYTE in self.kinds
        if self.unigram:
            texts = {CONTROL: lambda index: controls[index], UNUSED: secret_name, UNKNOWN: secret_name}
            entries = [
                (texts[kind](index) if (kind := self.kinds[index]) in texts else piece, float(self.scores[index]))
                for index, piece in enumerate(self.pieces)
            ]
            backend = Backend(models.Unigram(entries, unk_id=unknown, byte_fallback=has_bytes))
        else:
            ids = {
                piece: index
                for index, piece in enumerate(self.pieces)
                if self.kinds[index] not in (CONTROL, UNUSED, USER_DEFINED)
            }
            merges = _merges(ids, self.scores) if self.merges is None else list(self.merges)
            name = None if unknown is None else self.pieces[unknown]
            ids |= {piece: index for index, piece in enumerate(self.pieces) if self.kinds[index] == USER_DEFINED}
            ids |= {piece: index for index, piece in enumerate(controls) if self.kinds[index] == CONTROL}
            backend = Backend(models.BPE(vocab=ids, merges=merges, unk_token=name, fuse_unk=True, byte_fallback=has_bytes))
        backend.normalizer = self._normalizer()
        return backend

    def _normalizer(self) -> normalizers.Normalizer:
        steps: list[normalizers.Normalizer] = []
        if self.charsmap:
            steps.append(normalizers.Precompiled(self.charsmap))
        if self.one_space:
            steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
        if self.space_first:
            steps.append(normalizers.Prepend(SPACE))
        return normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])


def _merges(ids: dict[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Returns every pair of pieces that forms a piece, by the score of the result, highest first."""
    pairs = []
    for piece, index in ids.items():
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in ids and right in ids:
                pairs.append((-scores[index], index, ids[left], ids[right], left, right))
    return [(left, right) for *_, left, right in sorted(pairs)]


def _add_tokens(plain: Backend, full: Backend, special: Sequence[Special], ordinary: Sequence[str]) -> None:
    """Makes both backends match `ordinary` texts as a whole, and `full` the control tokens too."""
    for backend in (plain, full):
        backend.add_tokens([AddedToken(text, normalized=False) for text in ordinary])
    full.add_special_tokens([AddedToken(token.text, normalized=False, special=True) for token in special])


@dataclass(frozen=True)
class WordSplit:
    """A pre-tokenizer: one way to split text into words.

    Attributes:
        patterns: expressions applied in turn, each to the parts that the previous ones did not match; empty for GPT-2's own.
        digit_by_digit: whether every digit becomes its own word first.
        whole_words_first: whether a word that is in the vocabulary becomes one token without merging.
        bos_first: whether texts begin with the BOS token if the file does not say so.
    """

    patterns: tuple[str, ...] = ()
    digit_by_digit: bool = False
    whole_words_first: bool = False
    bos_first: bool = False

    def made(self) -> pre_tokenizers.PreTokenizer:
        """Returns the pre-tokenizer as `tokenizers` needs it, followed by the conversion of bytes to characters."""
        steps: list[pre_tokenizers.PreTokenizer] = []
        if self.digit_by_digit:
            steps.append(pre_tokenizers.Digits(individual_digits=True))
        steps += [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in self.patterns]
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not self.patterns))
        return pre_tokenizers.Sequence(steps)


_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_REST_WITH_SLASH = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _cased(endings: str) -> str:
    """Returns an expression for words that end where lower case changes to upper case."""
    return rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{endings}|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{endings}"


_LLAMA3 = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_REST}"
_QWEN35 = (
    rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SEED = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
_BAILING = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
_DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}")

_GPT2 = WordSplit()
_DIGITS = WordSplit(digit_by_digit=True)
_LLAMA3_WORDS = WordSplit((_LLAMA3,))
_LLAMA3_WHOLE = WordSplit((_LLAMA3,), whole_words_first=True, bos_first=True)
_QWEN2_WORDS = WordSplit((_QWEN2,))
_GPT4O_WORDS = WordSplit((f"{_cased(f'{_ENDINGS}?')}|\\p{{N}}{{1,3}}|{_REST_WITH_SLASH}",))

WORD_SPLITS: dict[str, WordSplit] = {
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4"), _GPT2),
    **dict.fromkeys(("gigachat", "a.x-4.0", "mellum", "modern-bert"), _GPT2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"), _DIGITS),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"), _LLAMA3_WHOLE),
    **dict.fromkeys(("dbrx", "smaug-bpe", "glm4", "chatglm-bpe"), _LLAMA3_WORDS),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan"), _QWEN2_WORDS),
    **dict.fromkeys(("solar-open", "grok-2"), _QWEN2_WORDS),
    "qwen35": WordSplit((_QWEN35,)),
    "tekken": WordSplit((rf"{_cased('')}|\p{{N}}|{_REST_WITH_SLASH}",), whole_words_first=True, bos_first=True),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"), _GPT4O_WORDS),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"), WordSplit(_DEEPSEEK3)),
    "deepseek-coder": WordSplit(_DEEPSEEK_CODER),
    **dict.fromkeys(("bailingmoe", "bailingmoe2", "llada-moe"), WordSplit((_BAILING,))),
    "seed-coder": WordSplit((_SEED,)),
}
"""Pre-tokenizers of byte-level vocabularies, by their names in `tokenizer.ggml.pre`.

Names and groups: `llama-vocab.cpp` of https://github.com/ggml-org/llama.cpp; the expressions are those of the models' own
`tokenizer.json`."""


def byte_level_parts(
    ids: Mapping[str, int],
    added: Mapping[int, tuple[str, bool]],
    merges: Sequence[tuple[str, str]],
    split: WordSplit,
    width: int,
) -> TokenizerParts:
    """Returns a byte-level tokenizer of a model with `width` tokens.

    Args:
        ids: of the ordinary tokens, by their texts in byte-level characters.
        added: by id, the text of each token that is matched as a whole, and whether it is a control token.
    """
    texts = {text: index for index, (text, _) in sorted(added.items())}
    special = [Special(index, text) for text, index in texts.items() if added[index][1]]
    ordinary = {text: index for text, index in texts.items() if not added[index][1]}
    vocabulary: list[bytes | None] = [None] * width
    for token, index in ids.items():
        vocabulary[index] = byte_level(token)
    for text, index in texts.items():
        vocabulary[index] = text.encode()

    def backend(known: dict[str, int]) -> Backend:
        """Returns a backend whose model has these tokens."""
        made = Backend(models.BPE(vocab=known, merges=[*merges], ignore_merges=split.whole_words_first))
        made.pre_tokenizer = split.made()
        return made

    plain = backend({**ids, **ordinary, **{secret_name(token.id): token.id for token in special}})
    full = backend({**ids, **texts})
    _add_tokens(plain, full, special, [*ordinary])
    return TokenizerParts(plain, full, special, vocabulary, {**ids, **texts}, split.bos_first)
