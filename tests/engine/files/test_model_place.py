"""Whether a model is on this machine, by its name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.files.hub import is_here


def test_built_in_names_and_existing_paths_are_local(tmp_path: Path) -> None:
    assert is_here("builtin") and is_here("none") and is_here("ngram") and is_here(str(tmp_path))
    assert not is_here(str(tmp_path / "gone.gguf"))
    assert not is_here("gone/model.gguf")


def test_hub_model_is_local_once_its_configuration_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert not is_here("owner/Model-4bit")
    folder = tmp_path / "models--owner--Model-4bit" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    assert not is_here("owner/Model-4bit")
    (folder / "config.json").write_text("{}")
    assert is_here("owner/Model-4bit")


COMPARISON = """
import importlib, json, os, sys
from huggingface_hub import constants
from engine.files.paths import hub_cache
usual = dict(os.environ)
for changed in json.loads(sys.argv[1]):
    os.environ.clear()
    os.environ.update(usual | changed)
    print(json.dumps([str(hub_cache()), importlib.reload(constants).HF_HUB_CACHE]))
"""


def test_the_cache_is_where_the_hubs_own_library_has_it() -> None:
    environments: list[dict[str, str]] = [
        {},
        {"HOME": "/somebody", "XDG_CACHE_HOME": "~/caches"},
        {"XDG_CACHE_HOME": "/caches"},
        {"HF_HOME": "~/faces", "HOME": "/somebody"},
        {"HF_HOME": "$PLACE/faces", "PLACE": "/place"},
        {"HUGGINGFACE_HUB_CACHE": "/older", "HF_HOME": "/faces"},
        {"HF_HUB_CACHE": "~/$PLACE", "PLACE": "own", "HUGGINGFACE_HUB_CACHE": "/older"},
    ]
    command = [sys.executable, "-c", COMPARISON, json.dumps(environments)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    assert len(told) == len(environments)
    for line, environment in zip(told, environments, strict=True):
        ours, theirs = json.loads(line)
        assert ours == theirs, environment
