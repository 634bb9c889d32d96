"""On a terminal nothing but Draftlight's own colours commands it; files and pipes get what is written."""

from __future__ import annotations

import io
import sys

import pytest

from app.cli import entry
from app.cli.output import guard_terminals
from app.cli.terminal import legend


class Terminal(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


HARM = "name\x1b[2J\x1b]0;title\x07\x9b31m\x1b[8mhidden\x1b[0;5m\u202eabc\rover\n"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_foreign_text_cannot_send_escape_sequences(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, stream, screen)
    guard_terminals()
    guard_terminals()  # once is enough, twice does no harm
    print(HARM, end="", file=getattr(sys, stream))
    print(f"\r\x1b[K{legend()}", end="", file=getattr(sys, stream))
    print("\rdone \r", end="", file=getattr(sys, stream))
    print("half a pair: \ud800", file=getattr(sys, stream))
    shown = screen.getvalue()
    assert shown.startswith("name␛[2J␛]0;title␇‹9B›31m␛[8mhidden␛[0;5m‹202E›abc␍over\n")
    assert f"\r\x1b[K{legend()}\rdone \r" in shown and "half a pair: \\ud800\n" in shown


def test_other_streams_are_not_sanitised(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    guard_terminals()
    print(HARM, end="")
    assert sys.stdout is file and file.getvalue() == HARM


def test_messages_of_commands_go_through_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert entry.main(["export", "/no/\x1b[2Jtrace.jsonl", "--format", "json"]) == 1
    assert "␛[2Jtrace" in screen.getvalue() and "\x1b" not in screen.getvalue()
