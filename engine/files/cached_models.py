"""Models in the cache of the Hugging Face Hub's own programs: found, and deleted as those do it, by revision, through
huggingface_hub.

Files that other revisions of the repository use as well stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.files.paths import hub_cache
from engine.values.errors import DraftlightError

if TYPE_CHECKING:
    from huggingface_hub import DeleteCacheStrategy


@dataclass(frozen=True, slots=True)
class CachedRevision:
    """What is deleted with a model in the cache: a whole state of its repository, with every file that was fetched of it.

    Attributes:
        repository: "owner/model". place: its snapshot folder. files: their names. freed: bytes.
    """

    repository: str
    place: Path
    commit: str
    files: tuple[str, ...]
    freed: int


def snapshots(repository: Path) -> list[Path]:
    """The folders with what the Hub's own programs fetched of a repository: of its branch `main`, if they noted which that is and
    it is there, else of any state, the newest first.

    A cache that was copied may have a line break behind the note, and what was fetched by its commit alone has none.

    Args:
        repository: its folder in the cache.
    """
    place = repository / "snapshots"
    try:
        commit = (repository / "refs" / "main").read_text(encoding="utf-8").strip()
        if commit and "/" not in commit and (place / commit).is_dir():
            return [place / commit]
    except (OSError, ValueError):
        pass
    try:
        return sorted((path for path in place.iterdir() if path.is_dir()), key=lambda path: -path.stat().st_mtime)
    except OSError:
        return []


def repository_folder(name: str) -> Path:
    """Where the Hub's own programs keep what they fetched of "owner/model"."""
    return hub_cache() / f"models--{name.replace('/', '--')}"


def cached_revision(path: Path) -> CachedRevision:
    """The revision to which a snapshot, or a file in it, belongs. Raises DraftlightError if the cache has none such."""
    for revision, _ in _strategies(path):
        return revision
    raise DraftlightError(f"{path} is not in the cache of the Hugging Face Hub any more.")


def delete_cached(path: Path) -> None:
    """Deletes the revision to which a snapshot, or a file in it, belongs.

    Raises:
        DraftlightError: the cache has none such, or it cannot be deleted.
    """
    revision = cached_revision(path)
    for _, strategy in _strategies(path):
        strategy.execute()  # only logs what it cannot delete
    if revision.place.exists():
        raise DraftlightError(f"{revision.place} cannot be removed. Close the programs that use it and try again.")


def _strategies(path: Path) -> list[tuple[CachedRevision, DeleteCacheStrategy]]:
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    path = path.absolute()
    try:
        found = scan_cache_dir(hub_cache())
    except (CacheNotFound, OSError, ValueError):
        return []
    result = []
    for repository in found.repos:
        for revision in repository.revisions:
            place = revision.snapshot_path
            if place.resolve() in (path, *path.parents) or place in (path, *path.parents):
                strategy = found.delete_revisions(revision.commit_hash)
                names = tuple(sorted(file.file_name for file in revision.files))
                told = CachedRevision(repository.repo_id, place, revision.commit_hash, names, strategy.expected_freed_size)
                result.append((told, strategy))
    return result
