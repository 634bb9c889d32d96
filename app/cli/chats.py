"""`draftlight chats`: what is kept of conversations, for the terminal and for other programs."""

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
from engine.chats import ChatsBusy, ChatsNotSaved, ChatStore, Listed, Retention, to_json, to_markdown
from engine.errors import DraftlightError
from engine.files.whole_file import write_whole
from engine.lens.pieces import without_controls
from engine.wording import amount

_MEGABYTE = 1_000_000
_MANY = 50
"""So many traces take a few seconds to import, which is then said."""


@contextlib.contextmanager
def opened() -> Iterator[ChatStore]:
    """The user's chats, with the traces of before taken in; whatever is to be known of that goes to standard error."""
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    with ChatStore() as store:
        if len(waiting := store.traces_to_import()) > _MANY:
            print(
                f"draftlight: taking {amount(len(waiting), 'trace')} into the chats, once; this may take a minute",
                file=sys.stderr,
            )
        store.import_traces()
        for note in store.notes:
            print(f"draftlight: {note}", file=sys.stderr)
        yield store
        with contextlib.suppress(ChatsBusy, ChatsNotSaved):  # another time, then
            store.tidy()


def show_list(store: ChatStore, deleted: bool, folder: str | None, limit: int, as_json: bool) -> int:
    """One line for each conversation: its number, when it last changed, its title, whether it is pinned, its folder."""
    found = store.conversations(deleted=deleted, folder=folder, limit=limit)
    if as_json:
        return _print_json([asdict(each) for each in found])
    for each in found:
        marks = "".join([" (pinned)" if each.pinned else "", f" [{each.folder}]" if each.folder else ""])
        _print(f"{each.id:>5}  {_time(each.updated)}  {each.title}{marks}")
    if not found:
        print("There are no conversations.", file=sys.stderr)
    return 0


def show_one(store: ChatStore, conversation: int, as_json: bool) -> int:
    """A conversation: what shows of it, or all of it as JSON."""
    whole = store.open(conversation)
    _print(to_json([whole]) if as_json else to_markdown([whole]), end="")
    return 0


def show_found(store: ChatStore, words: str, as_json: bool) -> int:
    """The conversations in which the words occur, each with a line of text; 1 where there is none, as grep does."""
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
    """Conversations, or all of them, into a file or to standard output. Raises DraftlightError where there are none."""
    chosen = conversations or [each.id for each in store.conversations()]
    if not chosen:
        raise DraftlightError("There are no conversations to export.")
    whole = [store.open(each) for each in chosen]
    endings = {".md": "markdown", ".markdown": "markdown"}
    form = form or endings.get(output.suffix.lower() if output else "", "json")
    content = to_markdown(whole) if form == "markdown" else to_json(whole)
    if output is None:
        sys.stdout.buffer.write(content.encode("utf-8", errors="backslashreplace"))
        return 0
    write_whole(output, content)
    print(output)
    return 0


def take_in(store: ChatStore, files: Sequence[Path]) -> int:
    """The conversations of files from elsewhere; a file that is none is named, and the others are taken in."""
    status = 0
    for path in files:
        try:
            taken_in = chats.take_in(store, path)
        except DraftlightError as error:
            print(f"draftlight: {error}", file=sys.stderr)
            status = 1
            continue
        print(f"{path}: {taken_in.words}")
    return status


def delete(store: ChatStore, conversations: Sequence[int], now: bool) -> int:
    """Deletes conversations, all of those named or none."""
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
    """Brings deleted conversations back, all of those named or none."""
    with store.together():
        for each in conversations:
            store.restore(each)
    for about in _about(store, conversations):
        _print(f"restored {about.id}  {about.title}")
    return 0


def traces(store: ChatStore, days: float | None, megabytes: float | None, keep_all: bool) -> int:
    """What the traces take, and for how long they are kept."""
    wished = keep_all or days is not None or megabytes is not None
    if wished:
        store.retention = Retention(days, None if megabytes is None else round(megabytes * _MEGABYTE))
    store.tidy(wished=wished)  # before the size is told
    print(f"{store.traces.bytes() / _MEGABYTE:,.1f} MB in {store.traces.folder}, kept {store.retention.words}")
    return 0


def _about(store: ChatStore, conversations: Sequence[int]) -> list[Listed]:
    return [store.open(each).about for each in conversations]


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"


def _print(text: str, end: str = "\n") -> None:
    """To standard output; what a text contains must not command the terminal."""
    print(without_controls(text) if sys.stdout.isatty() else text, end=end)


def _print_json(value: object) -> int:
    _print(json.dumps(value, ensure_ascii=False, indent=1))
    return 0


ACTIONS: dict[str, Callable[[ChatStore, Namespace], int]] = {
    "list": lambda store, given: show_list(store, given.deleted, given.folder, given.limit, given.as_json),
    "show": lambda store, given: show_one(store, given.conversation, given.as_json),
    "search": lambda store, given: show_found(store, " ".join(given.query), given.as_json),
    "export": lambda store, given: export(store, given.conversations, given.format, given.output),
    "import": lambda store, given: take_in(store, given.files),
    "delete": lambda store, given: delete(store, given.conversations, given.now),
    "restore": lambda store, given: restore(store, given.conversations),
    "traces": lambda store, given: traces(store, given.keep_days, given.keep_megabytes, given.keep_all),
}
"""By the names in `app.cli.chats_options`."""
