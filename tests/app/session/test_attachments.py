"""Files that go with a message: what is read and what is refused, and that a prompt gives back what it was made of."""

from __future__ import annotations

import os
import random
import unicodedata
from pathlib import Path

import pytest

from app.session.attachments import MOST_BYTES, Attachment, in_short, is_attachable, joined, read_attachment, taken_apart
from engine.values.errors import DraftlightError


def write(folder: Path, content: bytes, name: str = "notes.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "text", "normalised"),
    [
        (b"one\ntwo\n", "one\ntwo", False),
        (b"one\r\ntwo\r\n", "one\ntwo", True),
        (b"one\rtwo", "one\ntwo", True),
        ("\ufeffgrüß 👋\tתודה".encode(), "grüß 👋\tתודה", False),
        ("\ufeffone\r\n".encode("utf-16-le"), "one", True),
        ("\ufeffone".encode("utf-16-be"), "one", False),
        (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m", False),
    ],
)
def test_text_is_read_with_line_feeds_only(tmp_path: Path, content: bytes, text: str, normalised: bool) -> None:
    read = read_attachment(write(tmp_path, content))
    assert (read.name, read.text, read.normalised) == ("notes.txt", text, normalised)


def test_a_name_has_the_letters_that_people_type(tmp_path: Path) -> None:
    as_macos_writes_it = unicodedata.normalize("NFD", "Überblick für Zoë.txt")
    assert read_attachment(write(tmp_path, b"one", as_macos_writes_it)).name == "Überblick für Zoë.txt" != as_macos_writes_it


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "notes.txt is not a text file"),
        (b"text with a \0 in it", "is not a text file"),
        ("grüß".encode("latin-1"), "is not a text file. Text and code in UTF-8 or UTF-16 can be attached."),
        (b" \n\n", "notes.txt is empty."),
        (b"x" * (MOST_BYTES + 60_000), "notes.txt is 1.1 MB. Files of up to 1 MB can be attached: attach a part of it."),
    ],
)
def test_what_is_no_text_or_too_large_is_refused_with_words(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(DraftlightError, match=words.replace(".", r"\.")):
        read_attachment(write(tmp_path, content))


def test_a_file_that_is_gone_is_refused_and_models_are_for_others(tmp_path: Path) -> None:
    with pytest.raises(DraftlightError, match=r"gone\.txt cannot be read: No such file"):
        read_attachment(tmp_path / "gone.txt")
    names = {"a.py": True, "a.gguf": False, "a.SAFETENSORS": False, "a.png": True}
    assert {name: is_attachable(write(tmp_path, b"x", name)) for name in names} == names
    assert not is_attachable(tmp_path)
    os.mkfifo(tmp_path / "pipe")  # nobody ever writes into it: reading would not end
    for other in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(DraftlightError, match=rf"{other.name} is not a regular file"):
            read_attachment(other)


def test_a_prompt_gives_back_text_and_files_whatever_they_hold() -> None:
    """Also files that hold fences, or look like a prompt with files themselves."""
    chance = random.Random(7)
    parts = ["a", "\n", "`", "```", "````\n", "File: x.py\n```py\n", "\n\n", " ", "é", "End."]
    for _ in range(500):
        typed = "".join(chance.choices(parts, k=chance.randrange(6))) if chance.random() < 0.8 else ""
        files = []
        for index in range(chance.randrange(1, 4)):
            content = "".join(chance.choices(parts, k=chance.randrange(1, 9)))
            files.append(Attachment(f"f{index}.{chance.choice(('py', 'c++', 'txt', 'no extension!'))}", content))
        prompt = joined(typed, files)
        found_text, found = taken_apart(prompt)
        assert joined(found_text, found) == prompt
        if "File:" not in typed:
            assert (found_text, found) == (typed, files)
    closed = "File: a\n```\nx\n``` and on"
    for plain in ("", "Hello", "File: a.py is broken", "```py\nx\n```", "File: a.py\n```py\nnever closed", closed):
        assert taken_apart(plain) == (plain, [])


@pytest.mark.parametrize("block", ["File: a\n```python\nx\n```", "File: a.py\n````py\nx\n````", "\n\nFile: a.py\n```py\nx\n```"])
def test_what_was_typed_like_a_file_but_otherwise_than_here_stays_text(block: str) -> None:
    file = Attachment("b.py", "y")
    for plain in (block, f"Look:\n\n{block}", f"{file.block}\n\n{block}"):
        assert joined(*taken_apart(plain)) == plain
    assert taken_apart(joined(block, [file])) == (block, [file])


def test_a_prompt_is_shown_with_its_files_in_short() -> None:
    prompt = joined("What does this do?", [Attachment("a.py", "x = 1\ny = 2"), Attachment("b.txt", "one")])
    assert prompt == "What does this do?\n\nFile: a.py\n```py\nx = 1\ny = 2\n```\n\nFile: b.txt\n```txt\none\n```"
    assert in_short(prompt) == "What does this do?\n[a.py, 2 lines]\n[b.txt, 1 line]"
    assert in_short("No file.") == "No file."
