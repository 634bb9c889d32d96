"""A model with a hostile tokenizer, from its files to exports and share card: nothing is run, fetched or left broken."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as tree
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken

from app.cli import entry
from app.cli.entry import main
from engine.rounds.trace import read
from tests.engine import tiny_models

TOKENS = (
    "<script src='http://127.0.0.1:9/x'></script>",
    "<img src=http://127.0.0.1:9/y onerror=alert(1)>",
    "]]></text><foreignObject/><image href='http://127.0.0.1:9/z'/>",
    "</style><style>@import 'http://127.0.0.1:9/s'</style>",
    "\x1b[2J\x1b]0;title\x07",
    "\x9b31m\x00\x08",
    "\u202e\u2066\ufeff\ufffe",
    "=HYPERLINK(1)",
    "@SUM(1)",
    '","\n\r\n"',
    "{{ 7 * 7 }}${7*7}%s",
    "a" * 2000,
    "e" + "\u0301" * 300,
)
RUNNING = {"script", "iframe", "object", "embed", "link", "foreignobject", "image", "img"}


class Elements(HTMLParser):
    """What stands in a page beside text: elements, attributes and style sheets."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.styles: list[str] = []
        self._in_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        self._in_style = tag == "style"

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.styles.append(data)


class Screen(io.StringIO):
    """A terminal, which would do what control characters say."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def reconfigure(self, **how: str) -> None:
        pass


def hostile(folder: Path) -> Path:
    """A tiny model of which every third token is one of `TOKENS`."""
    many = 11 * len(TOKENS)
    made = tiny_models.weights(vocabulary=tiny_models.VOCABULARY + many)
    made["model.embed_tokens.weight"][-many:] *= 1.5
    tiny_models.write_folder(folder, made, vocab_size=tiny_models.VOCABULARY + many)
    tokenizer = tiny_models.backend()
    contents = [token + "\u200b" * times for times in range(many // len(TOKENS)) for token in TOKENS]
    tokenizer.add_tokens([AddedToken(content, normalized=False) for content in contents])
    tokenizer.save((folder / "tokenizer.json").as_posix())
    return folder


def test_a_hostile_tokenizer_harms_neither_exports_nor_the_terminal(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, qapp: object
) -> None:
    monkeypatch.setattr(entry, "log_to_file", lambda: None)
    model = hostile(tmp_path / "model")
    asked = ["chat", f"hi {TOKENS[0]}", "--target", str(model), "--temperature", "4", "--max-tokens", "80", "--seed", "4"]
    assert main([*asked, "--rule", "match"]) == 0  # the text of a seed, however long the drafts were
    (trace,) = (home / "traces").iterdir()
    emitted = [token.text for round_ in read(trace).rounds for token in round_.emitted]
    assert len({text.rstrip("\u200b") for text in emitted} & set(TOKENS)) > 8
    capfd.readouterr()

    page = tmp_path / "report.html"
    assert main(["export", str(trace), "--output", str(page)]) == 0
    found = Elements(page.read_text(encoding="utf-8"))
    assert found.names and not RUNNING & set(found.names)
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    fetching = ("src", "srcset", "href", "style", "action", "data", "background")
    assert not [value for name, value in found.attributes if name in fetching and re.search("127.0.0.1|script:", value or "")]
    assert not [style for style in found.styles if "@import" in style or "127.0.0.1" in style]

    assert main(["export", str(trace), "--format", "csv", "--table", "proposals"]) == 0
    cells = [cell for row in csv.reader(io.StringIO(capfd.readouterr().out)) for cell in row]
    assert cells and not [cell for cell in cells if re.match(r"[=@+]|-\D", cell)]
    assert main(["export", str(trace), "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out)["answers"][0]["text"]

    for kind, name in (("card", "card.svg"), ("svg", "chart.svg")):
        assert main(["export", str(trace), "--format", kind, "--output", str(tmp_path / name)]) == 0
        drawn = tree.fromstring((tmp_path / name).read_text(encoding="utf-8"))
        tags = {element.tag.rpartition("}")[2].lower() for element in drawn.iter()}
        assert "text" in tags and not RUNNING & tags
        assert not [key for element in drawn.iter() for key in element.attrib if key.endswith("href") or key.startswith("on")]
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    assert main(["chats", "show", "1"]) == 0
    assert any("\x1b" in text for text in emitted) and len(screen.getvalue()) > 1000
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", screen.getvalue())
