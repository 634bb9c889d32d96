"""Where Draftlight keeps what it writes: models it fetched and traces of answers. Nothing here imports MLX."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def data_folder() -> Path:
    """`$DRAFTLIGHT_HOME`, else the platform's folder for application data. It may not exist yet."""
    chosen = os.environ.get("DRAFTLIGHT_HOME")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_data_path("draftlight", appauthor=False))


def traces_folder() -> Path:
    """One trace per answer lies here."""
    return data_folder() / "traces"


def hub_cache() -> Path:
    """Where the Hugging Face Hub's own programs keep what they downloaded, by the rules of `huggingface_hub.constants`."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{caches}/huggingface"
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"
    return Path(os.path.expandvars(named)).expanduser()


def models_folder() -> Path:
    """Models that Draftlight fetched lie here, one folder each."""
    return data_folder() / "models"
