"""The probe on heads that were trained for a few hundred steps (`tests/references/probe/train.py`): it finds each wrong
declaration and leaves a right one, on a text that the target writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.decode.decoding import DecodingOptions, decode
from engine.drafters.head_probe import ROWS, Verdict, probe
from engine.models.eagle3_model import Eagle3Model, load_eagle3
from engine.models.loaded import LoadedModel
from engine.models.mtp_families import ALL_NORMS
from engine.models.mtp_model import MtpModel, load_mtp
from tests.engine.checkpoint_folders import CONVERTED, write_tensors
from tests.engine.head_rounds import loaded
from tests.engine.trained_heads import TAPS, read, sentences, write_eagle, write_target

Text = tuple[list[int], int]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """The target, which never ends its answer."""
    return replace(loaded(write_target(tmp_path_factory.mktemp("trained") / "target")), eos_ids=frozenset())


@pytest.fixture(scope="module")
def answer(target: LoadedModel) -> Text:
    """A text that the target goes on with, as it draws it, and the index of the last token given."""
    prompt = sentences(99_991, 40)
    options = DecodingOptions(rule="match", temperature=1.0, seed=3, max_tokens=ROWS + 2, analyse=False)
    written = [token.id for current in decode(target, list(prompt), None, options) for token in current.emitted]
    return [*prompt, *written], len(prompt) - 1


def overruled(verdict: Verdict, words: str) -> None:
    """Checks that the probe chose this reading by more than three standard errors."""
    assert verdict.words == words and not verdict.chain_words
    assert verdict.chosen - verdict.declared > 3 * verdict.error > 0
    assert verdict.right > 0.8 and words in verdict.warning


# MTP


def mtp(folder: Path, target: LoadedModel, change: Mapping[str, Any] | None = None, **metadata: Any) -> MtpModel:
    """The MTP head, beside a model whose config.json has other entries."""
    head = load_mtp(write_target(folder, change=change, **metadata), target)
    head.bind(target.model)
    return head


def contract(**entries: str) -> dict[str, Any]:
    """Returns the entries of config.json in which MTPLX describes a head."""
    return {"mtplx_mtp_contract": entries}


def test_a_right_declaration_stays(target: LoadedModel, answer: Text, tmp_path: Path) -> None:
    for head in (mtp(tmp_path / "mtp", target), eagle(tmp_path / "eagle", target)):
        declared = head.reading
        verdict = probe(head, target, answer)
        assert (verdict.words, verdict.chain_words, verdict.warning, head.reading) == ("", "", "", declared)
        assert verdict.right > 0.8 and verdict.declared > verdict.other


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"concat_order": "hidden_first"}, "the embedding comes first"),
        ({"hidden_variant": "pre_norm"}, "its state is that after the target's final norm"),
        (
            {"concat_order": "hidden_first", "hidden_variant": "pre_norm"},
            "its state is that after the target's final norm and the embedding comes first",
        ),
    ],
)
def test_a_wrong_state_or_order_is_found(
    stated: dict[str, str], words: str, target: LoadedModel, answer: Text, tmp_path: Path
) -> None:
    head = mtp(tmp_path, target, contract(**stated))
    assert (head.reading.normed_state, head.reading.embedding_first) != (True, True)
    overruled(probe(head, target, answer), words)
    assert head.reading.normed_state and head.reading.embedding_first


def part_of(name: str) -> str:
    """The part of `MtpReading.plus_one` to which a tensor belongs; empty if it is no norm."""
    return "" if "norm" not in name else "layer" if ".layers." in name else "last" if name == "mtp.norm.weight" else "inputs"


def partly_converted(folder: Path, target: LoadedModel, parts: Sequence[str]) -> MtpModel:
    """The MTP head, some of whose norms were converted, in a file that says that they are as published: as weights less one."""
    write_target(folder)
    made = {name: array + np.float32(part_of(name) in parts) for name, array in read("mtp").items()}
    write_tensors(folder / "mtp.safetensors", made)
    head = load_mtp(folder, target)
    head.bind(target.model)
    assert head.reading.plus_one == ALL_NORMS
    return head


@pytest.mark.parametrize(
    ("converted", "words"),
    [
        (("inputs",), "its norms are plus one inside the layer, after the layer only"),
        (("layer",), "its norms are plus one before the layer, after the layer only"),
        (("layer", "inputs"), "its norms are plus one after the layer only"),
    ],
)
def test_norms_that_were_converted_although_the_file_does_not_say_so_are_found(
    converted: tuple[str, ...], words: str, target: LoadedModel, answer: Text, tmp_path: Path
) -> None:
    head = partly_converted(tmp_path, target, converted)
    overruled(probe(head, target, answer), words)
    assert head.reading.plus_one == ALL_NORMS - set(converted)


def test_a_converted_last_norm_cannot_be_told_apart_on_this_head(target: LoadedModel, answer: Text, tmp_path: Path) -> None:
    """One more in each weight makes its logits only a little sharper."""
    verdict = probe(partly_converted(tmp_path, target, ["last"]), target, answer)
    assert verdict.words == "" and verdict.right > 0.8


def test_norms_that_were_not_converted_in_a_converted_file_are_found(target: LoadedModel, answer: Text, tmp_path: Path) -> None:
    head = mtp(tmp_path, target, metadata=CONVERTED)
    head.read_as(replace(head.reading, plus_one=frozenset()))  # the norms of queries and keys have spoken already
    overruled(probe(head, target, answer), "its norms are plus one")
    assert head.reading.plus_one == ALL_NORMS


def test_a_wrong_chain_is_found(target: LoadedModel, answer: Text, tmp_path: Path) -> None:
    """No file of an MTP head states it."""
    head = mtp(tmp_path, target)
    head.read_as(replace(head.reading, chain_normed=False))
    verdict = probe(head, target, answer)
    assert (verdict.words, verdict.chain_words) == ("", "a chain continues after its norm")
    assert head.reading.chain_normed and verdict.chain_words in verdict.warning


# EAGLE-3


def eagle(folder: Path, target: LoadedModel, **change: Any) -> Eagle3Model:
    """The EAGLE-3 head, with other entries of config.json."""
    head = load_eagle3(write_eagle(folder, change), target)
    head.bind(target.model)
    return head


IDS = "eagle_aux_hidden_state_layer_ids"


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({IDS: [0, 1, 2]}, "it reads layers 0, 1, 2 instead of -1, 0, 1"),
        ({"norm_before_residual": True}, "its residual stream starts before the norm"),
        (
            {IDS: [0, 1, 2], "norm_before_residual": True},
            "it reads layers 0, 1, 2 instead of -1, 0, 1 and its residual stream starts before the norm",
        ),
    ],
)
def test_wrong_layers_or_a_wrong_residual_are_found(
    stated: dict[str, Any], words: str, target: LoadedModel, answer: Text, tmp_path: Path
) -> None:
    head = eagle(tmp_path, target, **stated)
    overruled(probe(head, target, answer), words)
    assert head.config.taps == TAPS and not head.reading.norm_before_residual


def test_layers_one_later_cannot_be_told_apart_on_this_head(target: LoadedModel, answer: Text, tmp_path: Path) -> None:
    """In a residual stream of four layers, the outputs of layers 1 to 3 hold most of those of layers 0 to 2. The layers that the
    head was trained on predict better, but not by three standard errors of so few tokens, so the declared ones stay."""
    head = eagle(tmp_path, target, **{IDS: [tap + 2 for tap in TAPS]})
    verdict = probe(head, target, answer)
    assert verdict.words == "" and verdict.other > verdict.declared and verdict.right > 0.7


def test_a_wrong_chain_of_eagle_is_found(target: LoadedModel, answer: Text, tmp_path: Path) -> None:
    head = eagle(tmp_path, target, norm_output=True)
    verdict = probe(head, target, answer)
    assert (verdict.words, verdict.chain_words) == ("", "a chain continues before its norm")
    assert not head.reading.chain_normed
