"""The documentation's sources: what is filled in, links between its pages, and pictures that are made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.packaging import REPOSITORY, script

docs = script("build_docs.py")
PAGES = sorted(docs.SOURCES.glob("*.md"))
MADE = {"TRACE_LINES", "CHARTS", "RULES", "SAME"}
"""What takes a model to fill in."""


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_everything_in_a_page_can_be_filled_in(page: Path) -> None:
    text = re.sub(rf"<<(?:{'|'.join(MADE)})>>", "", page.read_text(encoding="utf-8"))
    assert "<<" not in docs.fill_placeholders(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_with_places_to_fill_in_says_so_below_its_title_until_it_is_filled_in(page: Path) -> None:
    title, rest = page.read_text(encoding="utf-8").split("\n\n", 1)
    assert rest.startswith(docs.SOURCE_NOTE) == bool(re.search(r"<<\w", rest))
    assert docs.fill_placeholders(f"{title}\n\n{docs.SOURCE_NOTE}Text") == f"{title}\n\nText"


def test_examples_are_the_tested_files() -> None:
    text = docs.fill_placeholders((docs.SOURCES / "extend.md").read_text(encoding="utf-8"))
    for name in ("toy_drafter", "toy_rule", "toy_chart", "toy_export"):
        source = (REPOSITORY / "tests" / f"{name}.py").read_text(encoding="utf-8")
        assert source.rstrip() in text and len(source.splitlines()) < 70
    assert "def careless(" in text and "LINE = DrafterKind(" in text


@pytest.mark.parametrize(
    "below, written, linked",
    [
        (2, "[design](../../DESIGN.md#terms)", "[design](design.md#terms)"),
        (2, "[models](models.md#gguf-files)", "[models](models.md#gguf-files)"),
        (2, "[card](../../assets/drafters/a/CARD.md)", "card (`assets/drafters/a/CARD.md`)"),
        (0, "[how](CONTRIBUTING.md), [here](#there)", "[how](contributing.md), [here](#there)"),
        (0, "[rules](assets/docs/rules.md)", "[rules](rules.md)"),
        (0, "![picture](assets/a.png) [away](https://example.com)", "![picture](assets/a.png) [away](https://example.com)"),
    ],
)
def test_links_lead_to_the_sites_own_pages(below: int, written: str, linked: str) -> None:
    assert docs.rewrite_links(written, below) == linked


def test_every_link_leads_to_a_page_of_the_site() -> None:
    """Sphinx fails at one that does not, which only `make docs` would show."""
    roots = [REPOSITORY / f"{name}.md" for name in docs.ROOT_PAGES]
    site = {page.name for page in PAGES} | {page.name.lower() for page in roots}
    lost = []
    for page in (*PAGES, *roots):
        text = docs.rewrite_links(page.read_text(encoding="utf-8"), 0 if page in roots else 2)
        targets = re.findall(r"(?<!!)\[[^\]]+\]\(([^)\s#]+)", text)
        lost += [(page.name, target) for target in targets if "://" not in target and target not in site]
    assert not lost


def test_every_page_is_in_the_contents() -> None:
    listed = set(re.findall(r"^([a-z_-]+)$", (docs.SOURCES / "index.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert {path.stem for path in PAGES} - {"index"} | {name.lower() for name in docs.ROOT_PAGES} == listed


STATES = {"compare", "finished", "first-start", "loading", "mid-answer", "trees"}


def test_pictures_are_those_of_the_self_test_and_the_charts() -> None:
    """tests/app/window/test_launch.py has the names that the self-test gives."""
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    named = re.findall(r"pictures/([\w-]+)-(?:light|dark)\.png", text)
    assert named and set(named) <= STATES
    assert text.count("-light.png") == text.count("-dark.png")


def test_readmes_pictures_are_those_that_the_script_paints() -> None:
    shown = re.findall(r"(?:src|srcset)=\"([^\"]+)\"", (REPOSITORY / "README.md").read_text(encoding="utf-8"))
    assert sorted(REPOSITORY / path for path in shown) == sorted(docs.IN_README.values())
    assert sorted(docs.IN_README.values()) == sorted((REPOSITORY / "assets" / "screenshots").iterdir())
    assert {name.rpartition("-")[0] for name in docs.IN_README} <= STATES


def test_a_newcomers_log_has_the_time_to_the_first_answer() -> None:
    for channel in docs.CHANNELS:
        assert re.fullmatch(r"\d+ s", docs.seconds_to_answer(channel)) and docs.seconds_to_answer(channel) != "0 s"
