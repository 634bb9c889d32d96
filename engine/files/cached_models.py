"""Finds and deletes models in the Hugging Face cache. Deletes by revision with huggingface_hub, as its own programs do.

Files that other revisions of the repository share are kept.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.files.paths import hub_cache
from engine.values.errors import DraftlightError

if TYPE_CHECKING:
    from huggingface_hub import DeleteCacheStrategy


@dataclass(frozen=True, slots=True)
class CachedRevision:
    """A revision in the cache, with every file of it that was downloaded. Deleting a model deletes its whole revision.

    Attributes:
        repository: "owner/model". place: its snapshot folder. files: names. freed: bytes that deleting it frees.
    """

    repository: str
    place: Path
    commit: str
    files: tuple[str, ...]
    freed: int


def snapshots(repository: Path) -> list[Path]:
    """Returns the snapshot of a repository's branch `main`; if `refs/main` names none that exists, all snapshots, newest first.

    In a copied cache, `refs/main` may end with a line break. A download by commit alone does not write it.

    Args:
        repository: folder of the repository in the cache.
    """
    folder = repository / "snapshots"
    try:
        commit = (repository / "refs" / "main").read_text(encoding="utf-8").strip()
        if commit and "/" not in commit and (folder / commit).is_dir():
            return [folder / commit]
    except (OSError, ValueError):
        pass
    try:
        return sorted((path for path in folder.iterdir() if path.is_dir()), key=lambda path: -path.stat().st_mtime)
    except OSError:
        return []


def repository_folder(name: str) -> Path:
    """Returns the folder of "owner/model" in the Hugging Face cache."""
    return hub_cache() / f"models--{name.replace('/', '--')}"


def cached_revision(path: Path) -> CachedRevision:
    """Returns the revision of a snapshot, or of a file in one. Raises DraftlightError if it is not in the cache."""
    return _revision_with_strategy(path)[0]


def delete_cached(path: Path) -> None:
    """Deletes the revision of a snapshot, or of a file in one.

    Raises:
        DraftlightError: it is not in the cache, or cannot be deleted.
    """
    revision, strategy = _revision_with_strategy(path)
    strategy.execute()  # logs failures instead of raising
    if revision.place.exists():
        raise DraftlightError(f"{revision.place} cannot be removed. Close the programs that use it and try again.")


def _revision_with_strategy(path: Path) -> tuple[CachedRevision, DeleteCacheStrategy]:
    """Returns a revision, and what deletes it. Raises DraftlightError as `cached_revision`."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    places = (path.absolute(), *path.absolute().parents)
    with contextlib.suppress(CacheNotFound, OSError, ValueError):
        cache = scan_cache_dir(hub_cache())
        for repository in cache.repos:
            for revision in repository.revisions:
                snapshot = revision.snapshot_path
                if snapshot.resolve() in places or snapshot in places:
                    strategy = cache.delete_revisions(revision.commit_hash)
                    names, freed = tuple(sorted(file.file_name for file in revision.files)), strategy.expected_freed_size
                    return CachedRevision(repository.repo_id, snapshot, revision.commit_hash, names, freed), strategy
    raise DraftlightError(f"{path} is not in the cache of the Hugging Face Hub any more.")
