"""Text files attached to a message: validates them, embeds them in the prompt as fenced blocks, and parses them back. No Qt."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from engine.files.foreign import content_of
from engine.values.errors import DraftlightError
from engine.values.wording import amount

MOST_BYTES = 1_000_000
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_HEAD = re.compile(r"(?:\A|(?<=[\s\S])\n\n)File: ([^\n]+)\n(`{3,})([\w+#-]*)\n")
_MODELS = (".gguf", ".safetensors")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text file. `normalised` is true if its line endings were converted to line feeds."""

    name: str
    text: str
    normalised: bool = field(default=False, compare=False)

    @property
    def lines(self) -> int:
        """The number of lines."""
        return self.text.count("\n") + 1

    @property
    def block(self) -> str:
        """The file as it appears in a prompt: its name, then a fence longer than any inside the text."""
        longest = max((len(run) for run in re.findall("```+", self.text)), default=2)
        fence = "`" * (longest + 1)
        kind = Path(self.name).suffix[1:].lower()
        return f"File: {self.name}\n{fence}{kind if re.fullmatch(r'[a-z0-9+#-]{1,12}', kind) else ''}\n{self.text}\n{fence}"


def is_attachable(path: Path) -> bool:
    """Returns whether a path can be tried as a text attachment: a regular file that is not a model."""
    return path.is_file() and path.suffix.lower() not in _MODELS


def read_attachment(path: Path) -> Attachment:
    """Reads a text file in UTF-8 or UTF-16. Raises DraftlightError, with advice for the user, for any other file and for one that
    is too large."""
    # macOS often stores ü in a file name as two characters, which would cost the model more and rarer tokens.
    name = unicodedata.normalize("NFC", " ".join(path.name.split()))
    try:
        if path.exists() and not path.is_file():  # reading a pipe or a device might never end
            raise DraftlightError(f"{name} is not a regular file, so it cannot be attached.")
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise DraftlightError(
                f"{name} is {size / 1e6:,.1f} MB. Files of up to {MOST_BYTES / 1e6:g} MB can be attached: attach a part of it."
            )
        content = content_of(path)
    except OSError as error:
        raise DraftlightError(f"{name} cannot be read: {error.strerror or error}.") from error
    bom, encoding = next(((mark, each) for mark, each in _BOMS if content.startswith(mark)), (b"", "utf-8"))
    try:
        text = content[len(bom) :].decode(encoding)
    except UnicodeDecodeError:
        text = "\0"
    if _CONTROLS.search(text):
        raise DraftlightError(f"{name} is not a text file. Text and code in UTF-8 or UTF-16 can be attached.")
    normalised = "\r" in text
    text = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    if not text.strip():
        raise DraftlightError(f"{name} is empty.")
    return Attachment(name, text, normalised)


def joined(text: str, attachments: Iterable[Attachment]) -> str:
    """Returns a prompt: the user's text followed by the files."""
    return "\n\n".join(filter(None, (text, *(each.block for each in attachments))))


def taken_apart(prompt: str) -> tuple[str, list[Attachment]]:
    """Splits a prompt made by `joined` into text and files. Text that merely resembles a file stays text, unchanged."""
    tried: set[int] = set()
    for head in _HEAD.finditer(prompt):
        if (found := _files(prompt, head.start(), tried)) is not None:
            return prompt[: head.start()], found
    return prompt, []


def _files(prompt: str, at: int, tried: set[int]) -> list[Attachment] | None:
    """Parses the rest of a prompt, from an offset, as files only. Returns None if anything else is found. `tried` collects
    offsets already known to fail."""
    found = []
    while at < len(prompt):
        head = None if at in tried else _HEAD.match(prompt, at)
        tried.add(at)
        end = -1 if head is None else prompt.find(f"\n{head[2]}", head.end())
        if head is None or end < 0:
            return None
        file, behind = Attachment(head[1], prompt[head.end() : end]), end + 1 + len(head[2])
        if prompt[at:behind].removeprefix("\n\n") != file.block:
            return None
        found.append(file)
        at = behind
    return found


def put_together(prompts: Iterable[str]) -> str:
    """Merges several prompts into one: their texts as paragraphs, then all files."""
    parts = [taken_apart(prompt) for prompt in prompts]
    return joined("\n\n".join(text for text, _ in parts if text.strip()), (each for _, files in parts for each in files))


def in_short(prompt: str) -> str:
    """Returns a short form of a prompt for display, with files given by name and number of lines."""
    text, attachments = taken_apart(prompt)
    words = (f"[{each.name}, {amount(each.lines, 'line')}]" for each in attachments)
    return "\n".join(filter(None, (text, *words)))
