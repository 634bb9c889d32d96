"""Paths of Draftlight's data: downloaded models, traces of answers. No MLX."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def data_folder() -> Path:
    """Returns `$DRAFTLIGHT_HOME`, else the platform's folder for application data. It may not exist yet."""
    chosen = os.environ.get("DRAFTLIGHT_HOME")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_data_path("draftlight", appauthor=False))


def traces_folder() -> Path:
    """Returns the folder of the traces, one file for each answer."""
    return data_folder() / "traces"


def hub_cache() -> Path:
    """Returns the folder of the Hugging Face cache, by the rules of `huggingface_hub.constants`."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{caches}/huggingface"
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"
    return Path(os.path.expandvars(named)).expanduser()


def models_folder() -> Path:
    """Returns the folder of the models that Draftlight downloaded, one subfolder for each."""
    return data_folder() / "models"
