"""`draftlight chats`: manages stored conversations from the terminal and for other programs."""

from __future__ import annotations

import contextlib
import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from engine import chats
from engine.chats import ChatsBusy, ChatsNotSaved, ChatStore, ChatSummary, Retention, to_json, to_markdown
from engine.files.whole_file import write_whole
from engine.lens.pieces import without_controls
from engine.values.errors import DraftlightError
from engine.values.wording import amount

_MEGABYTE = 1_000_000
_SLOW_IMPORT = 50
"""Number of traces that take several seconds to import, so that the user is informed."""


@contextlib.contextmanager
def open_store() -> Iterator[ChatStore]:
    """Opens the user's chat store and imports the traces of earlier versions; notes go to standard error."""
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    with ChatStore() as store:
        if len(pending := store.traces.to_import()) > _SLOW_IMPORT:
            print(
                f"draftlight: importing {amount(len(pending), 'trace')} into the chats, only once; this may take a minute",
                file=sys.stderr,
            )
        store.import_traces()
        for note in store.notes:
            print(f"draftlight: {note}", file=sys.stderr)
        yield store
        with contextlib.suppress(ChatsBusy, ChatsNotSaved):  # retried the next time
            store.tidy()


def show_list(store: ChatStore, deleted: bool, folder: str | None, limit: int, as_json: bool) -> int:
    """Prints one line per conversation: id, time of the last change, title, whether it is pinned, and folder."""
    listed = store.conversations(deleted=deleted, folder=folder, limit=limit)
    if as_json:
        return _print_json([asdict(each) for each in listed])
    for each in listed:
        marks = "".join([" (pinned)" if each.pinned else "", f" [{each.folder}]" if each.folder else ""])
        _print(f"{each.id:>5}  {_time(each.updated)}  {each.title}{marks}")
    if not listed:
        print("There are no conversations.", file=sys.stderr)
    return 0


def show_one(store: ChatStore, conversation: int, as_json: bool) -> int:
    """Prints the shown path of a conversation, or all of it as JSON."""
    whole = store.open(conversation)
    _print(to_json([whole]) if as_json else to_markdown([whole]), end="")
    return 0


def show_hits(store: ChatStore, words: str, as_json: bool) -> int:
    """Prints the conversations that contain the words, each with an excerpt. Returns 1 if there are none, as grep does."""
    hits = store.search(words)
    if as_json:
        _print_json([{**asdict(hit.about), "message": hit.message, "excerpt": hit.excerpt, "marks": hit.marks} for hit in hits])
    else:
        for hit in hits:
            _print(f"{hit.about.id:>5}  {_time(hit.about.updated)}  {hit.about.title}")
            if hit.message is not None:
                _print(f"       {hit.excerpt}")
    return 0 if hits else 1


def export(store: ChatStore, conversations: Sequence[int], form: str | None, output: Path | None) -> int:
    """Exports conversations, by default all, to a file or to standard output. Raises DraftlightError if there are none."""
    chosen = conversations or [each.id for each in store.conversations()]
    if not chosen:
        raise DraftlightError("There are no conversations to export.")
    exported = [store.open(each) for each in chosen]
    endings = {".md": "markdown", ".markdown": "markdown"}
    form = form or endings.get(output.suffix.lower() if output else "", "json")
    content = to_markdown(exported) if form == "markdown" else to_json(exported)
    if output is None:
        sys.stdout.buffer.write(content.encode("utf-8", errors="backslashreplace"))
        return 0
    write_whole(output, content)
    print(output)
    return 0


def import_files(store: ChatStore, files: Sequence[Path]) -> int:
    """Imports the conversations in files. Reports a file without conversations and continues with the others."""
    status = 0
    for path in files:
        try:
            imported = chats.import_chats(store, path)
        except DraftlightError as error:
            print(f"draftlight: {error}", file=sys.stderr)
            status = 1
            continue
        print(f"{path}: {imported.words}")
    return status


def delete(store: ChatStore, conversations: Sequence[int], now: bool) -> int:
    """Deletes conversations: all of the given ones or, on an error, none."""
    with store.together():
        deleted = _about(store, conversations)
        if not now:
            for each in conversations:
                store.delete(each)
    if now:
        store.purge(conversations)
    for about in deleted:
        _print(f"deleted {about.id}  {about.title}")
    if not now:
        print("`draftlight chats restore ID` brings them back for 30 days.", file=sys.stderr)
    return 0


def restore(store: ChatStore, conversations: Sequence[int]) -> int:
    """Restores deleted conversations: all of the given ones or, on an error, none."""
    with store.together():
        for each in conversations:
            store.restore(each)
    for about in _about(store, conversations):
        _print(f"restored {about.id}  {about.title}")
    return 0


def traces(store: ChatStore, days: float | None, megabytes: float | None, keep_all: bool) -> int:
    """Prints the size of the traces and how long they are kept, after changing that if requested."""
    is_requested = keep_all or days is not None or megabytes is not None
    if is_requested:
        store.traces.retention = Retention(days, None if megabytes is None else round(megabytes * _MEGABYTE))
    store.tidy(requested=is_requested)  # before the size is measured
    print(f"{store.traces.bytes() / _MEGABYTE:,.1f} MB in {store.traces.folder}, kept {store.traces.retention.words}")
    return 0


def _about(store: ChatStore, conversations: Sequence[int]) -> list[ChatSummary]:
    return [store.open(each).about for each in conversations]


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"


def _print(text: str, end: str = "\n") -> None:
    """Prints to standard output, without control characters if that is a terminal."""
    print(without_controls(text) if sys.stdout.isatty() else text, end=end)


def _print_json(value: object) -> int:
    _print(json.dumps(value, ensure_ascii=False, indent=1))
    return 0


ACTIONS: dict[str, Callable[[ChatStore, Namespace], int]] = {
    "list": lambda store, given: show_list(store, given.deleted, given.folder, given.limit, given.as_json),
    "show": lambda store, given: show_one(store, given.conversation, given.as_json),
    "search": lambda store, given: show_hits(store, " ".join(given.query), given.as_json),
    "export": lambda store, given: export(store, given.conversations, given.format, given.output),
    "import": lambda store, given: import_files(store, given.files),
    "delete": lambda store, given: delete(store, given.conversations, given.now),
    "restore": lambda store, given: restore(store, given.conversations),
    "traces": lambda store, given: traces(store, given.keep_days, given.keep_megabytes, given.keep_all),
}
"""By the names in `app.cli.chats_options`."""
