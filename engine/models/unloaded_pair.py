"""Checks whether models that are not loaded fit together, from their files.

A draft model is checked by its vocabulary, a head by the target that it was trained for. Also finds the heads of a target.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.files import library, ollama
from engine.files.foreign import object_in, table
from engine.files.gguf_header import head_tensors, read_header
from engine.files.library import LibraryModel
from engine.files.model_folder import CONFIG, read_json
from engine.files.mtp_files import head_of
from engine.files.pairs import suggestions
from engine.models.block_config import read_block_config
from engine.models.block_model import block_reason
from engine.models.configuration import read_configuration
from engine.models.eagle3_config import read_eagle_config
from engine.models.gguf_tokenizer import from_gguf
from engine.models.head_model import head_reason
from engine.models.loaded import LoadedModel
from engine.models.mtp_model import require_family
from engine.models.pair_check import cache_reason, template_warning, vocabulary_reason
from engine.models.tokenizer import Tokenizer
from engine.models.tokenizer_files import from_folder
from engine.target.layer_taps import embedding_of, hidden_size_of
from engine.values.drafter_kinds import BLOCK_FOLDER, CUT_DRAFT, EAGLE_FOLDER, HEAD_FOLDER, MTP, MTP_FOLDER, type_stated
from engine.values.errors import DraftlightError, is_whole

_UNNAMED_TARGET = "Its files do not name its target, so a test when it is first loaded shows whether it predicts this one."


def unloaded_pair(target: LoadedModel, path: Path) -> tuple[str, str]:
    """Returns why the model of a folder or GGUF file cannot draft for a loaded target, and a warning if it can.

    Both are sentences, empty if there is nothing to report. The model's weights are not read. Checks that need the loaded
    model, such as whether its cache can be rolled back, happen when it is loaded.
    """
    if reason := cache_reason(target.model):
        return f"No drafter can be used with {target.name}: it {reason}", ""
    try:
        if path.is_file():
            of_ollama = ollama.model_of(path)
            if of_ollama is not None and of_ollama.problem:
                return f"{of_ollama.name} {of_ollama.problem}", ""
            header = read_header(ollama.weights_of(path))
            tokens = from_gguf(header.metadata, header.tensors["token_embd.weight"].shape[0])
            return _vocabulary_verdict(target, path.stem if of_ollama is None else of_ollama.name, tokens)
        config = read_json(path / CONFIG)
        if type_stated(config) == BLOCK_FOLDER:
            return block_reason(read_block_config(config, path), target) or "", ""
        if type_stated(config) == MTP_FOLDER:
            require_family(config, path, target)
            return _head_verdict(config, path, target)
        if type_stated(config) == EAGLE_FOLDER:
            read_eagle_config(config, path)
            return _head_verdict(config, path, target)
        if config.get("model_type") == HEAD_FOLDER:
            return head_reason(str(config.get("target_sha256", "")), target) or "", ""
        if config.get("model_type") == CUT_DRAFT:
            is_own_target = config.get("target_sha256") == target.sha256
            return "" if is_own_target else f"{path.name} was made for a target other than {target.name}.", ""
        config = read_configuration(path)
        width = config.get("vocab_size") or table(config.get("text_config")).get("vocab_size")
        tokens = from_folder(path, width if isinstance(width, int) else len(target.vocabulary))
        return _vocabulary_verdict(target, path.name, tokens)
    except DraftlightError as error:
        return str(error), ""


def _head_verdict(config: Mapping[str, Any], path: Path, target: LoadedModel) -> tuple[str, str]:
    """Returns the verdict on a published head: its files name no target, but state the width of the states that it reads."""
    layer = {**config, **table(config.get("text_config")), **table(config.get("transformer_layer_config"))}
    stated = config.get("target_hidden_size") or layer.get("hidden_size")
    width = hidden_size_of(embedding_of(target.model))
    if is_whole(stated) and stated != width:
        return f"{path.name} was made for a target with a hidden size of {stated:,}; that of {target.name} is {width:,}.", ""
    return "", _UNNAMED_TARGET


def _vocabulary_verdict(target: LoadedModel, name: str, tokens: Tokenizer) -> tuple[str, str]:
    reason = vocabulary_reason(target, name, tokens.vocabulary)
    return (reason, "") if reason else ("", template_warning(target, name, tokens))


def published_heads(target: LoadedModel) -> list[str]:
    """Returns the drafters that are published heads for a target: its own MTP head, if its files have one, and folders on this
    machine that the catalogue of pairs knows."""
    models = library.find(map(Path, library.added_folders()))
    own = next(
        (model for model in models if Path(model.target) == Path(target.path)), LibraryModel(target.name, target.path, "", 0)
    )
    paired = [found.local_model for found in suggestions(own, models) if found.pair.kind != "model"]
    return [MTP] * _has_own_head(target) + [model.target for model in paired if model is not None]


def _has_own_head(target: LoadedModel) -> bool:
    weights = target.weights
    try:
        if weights.is_file():
            return bool(head_tensors(weights))
        return head_of(weights, object_in(weights / CONFIG)) is not None
    except DraftlightError:  # the file is damaged, which loading it reports
        return True


def trained_head(target_sha256: str) -> Path | None:
    """Returns the newest folder on this machine with a head trained for the target of this digest; None if there is none."""
    heads = [Path(model.target) for model in library.find() if model.only_drafts and not model.problem]
    fitting = [folder for folder in heads if _target_of(folder) == target_sha256]
    return max(fitting, key=_modified_time, default=None)


def _target_of(folder: Path) -> str | None:
    """Returns the target digest that a head's config.json states ("?" if it states none); None if the folder is no head."""
    stated = object_in(folder / CONFIG)
    return str(stated.get("target_sha256") or "?") if stated.get("model_type") == HEAD_FOLDER else None


def _modified_time(folder: Path) -> float:
    try:
        return (folder / CONFIG).stat().st_mtime
    except OSError:
        return 0.0
