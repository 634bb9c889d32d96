"""Tokenizers of SentencePiece's kinds from their pieces, wherever those come from: a GGUF file or a `tokenizer.model`.

A vocabulary of the kind BPE merges the pair whose piece has the highest score; one of the kind unigram takes the pieces that
are the likeliest together (Kudo and Richardson 2018). What no piece covers is written in bytes, where the vocabulary has
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import AddedToken, Regex, models, normalizers
from tokenizers import Tokenizer as Backend

from engine.errors import DraftlightError
from engine.models.token_spelling import SPACE, byte_fallback
from engine.models.tokenizer import Special

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Kinds of pieces, numbered alike by SentencePiece and ggml."""


@dataclass(frozen=True)
class Pieces:
    """A vocabulary.

    Attributes:
        pieces, scores, kinds: by token id.
        unigram: whether the kind is unigram and not BPE.
        space_first: whether a text gets a space in front.
        one_space: whether runs of spaces count as one, and spaces at both ends as none.
        charsmap: SentencePiece's table of characters that are replaced by others; empty for none.
        merges: pairs in the order in which they merge, where they are known; else scores tell.
    """

    pieces: Sequence[str]
    scores: Sequence[float]
    kinds: Sequence[int]
    unigram: bool = False
    space_first: bool = True
    one_space: bool = False
    charsmap: bytes = b""
    merges: Sequence[tuple[str, str]] | None = None

    def special(self) -> list[Special]:
        """The control tokens."""
        return [Special(index, piece) for index, piece in enumerate(self.pieces) if self.kinds[index] == CONTROL]

    def vocabulary(self, width: int) -> list[bytes | None]:
        """The bytes of every token of a model with `width` tokens."""
        found: list[bytes | None] = [None] * width
        for index, piece in enumerate(self.pieces):
            if self.kinds[index] in (CONTROL, USER_DEFINED):
                found[index] = piece.encode()
            elif self.kinds[index] != UNUSED:
                found[index] = byte_fallback(piece)
        return found

    def backends(self) -> tuple[Backend, Backend]:
        """One that knows no control token, and one that knows them all. DraftlightError where they cannot be made."""
        try:
            plain, full = self._backend(), self._backend()
        except Exception as error:  # tokenizers raises bare Exception
            raise DraftlightError(f"The tokenizer is damaged: {error}. Download the model again.") from error
        own = [piece for index, piece in enumerate(self.pieces) if self.kinds[index] == USER_DEFINED]
        for backend in (plain, full):
            backend.add_tokens([AddedToken(piece, normalized=False) for piece in own])
        full.add_special_tokens([AddedToken(token.text, normalized=False, special=True) for token in self.special()])
        return plain, full

    def _backend(self) -> Backend:
        unknown = next((index for index, kind in enumerate(self.kinds) if kind == UNKNOWN), None)
        has_bytes = BYTE in self.kinds
        if self.unigram:
            never_in_text = (CONTROL, UNUSED, UNKNOWN)
            entries = [
                (f"\U0010ffff{index}" if self.kinds[index] in never_in_text else piece, float(self.scores[index]))
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
    """Every way to make a piece of two others, the pieces with the highest score first."""
    found = []
    for piece, index in ids.items():
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in ids and right in ids:
                found.append((-scores[index], index, ids[left], ids[right], left, right))
    return [(left, right) for *_, left, right in sorted(found)]
