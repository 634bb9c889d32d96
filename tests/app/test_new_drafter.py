"""A drafter is one file (`tests/toy_drafter.py`) and one line (in the fixture below): everything else takes it from there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.cli.entry import main
from app.compare.comparison import ColumnSetup
from app.compare.controls import ColumnControls
from app.look.wording import drafter_title, why_rules_coincide
from app.session import settings as stored
from app.session.session import Session
from app.session.settings import Settings
from app.window.header import Header
from engine.lens.pieces import Spot
from engine.lens.token_reasons import decision, limitations
from engine.rounds.metrics import violations
from engine.rounds.trace import read
from engine.runtime.worker import Engine
from engine.types import DecodingOptions, DrafterReady, Event, Message, Request, RunFinished
from engine.values.drafter_kinds import DRAFTERS, DrafterKind, benched
from tests.app.fakes import make_round
from tests.engine.fakes import PATIENCE
from tests.engine.tiny_models import write_gguf

LINE = DrafterKind("echo", "Echo", "Proposes the newest token once more.", "tests.toy_drafter:build", has_distribution=False)


@pytest.fixture(autouse=True)
def line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DRAFTERS, "echo", LINE)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_gguf(tmp_path_factory.mktemp("models") / "target.gguf", llama__context_length=1000))


def test_the_engine_decodes_with_it(home: Path, target: str) -> None:
    engine = Engine()
    seen: list[Event] = []
    try:
        for drafter in ("echo", "none"):
            options = DecodingOptions(rule="gumbel", seed=5, gamma=3, max_tokens=40)
            engine.submit(Request((Message("user", "hello"),), options, target, drafter))
        while sum(isinstance(event, RunFinished) for event in seen) < 2:
            assert engine.wait(PATIENCE), seen[-3:]
            seen += engine.events()
    finally:
        assert engine.close(PATIENCE)
    assert next(event for event in seen if isinstance(event, DrafterReady)) == DrafterReady("echo", has_distribution=False)
    drafted, plain = (event for event in seen if isinstance(event, RunFinished))
    assert drafted.text == plain.text
    trace = read(str(drafted.trace_path))
    assert trace.header["drafter"] == {"name": "echo", "sha256": None, "has_distribution": False}
    assert violations(trace.rounds) == ()
    assert {round.drafter for round in trace.rounds} == {"echo"} and any(round.proposals for round in trace.rounds)


def test_the_selectors_offer_it(qtbot: QtBot) -> None:
    header = Header()
    qtbot.addWidget(header)
    header.show_settings(Settings())
    box = header.drafter
    index = box.findData("echo")
    assert (box.itemText(index), box.itemData(index, Qt.ItemDataRole.ToolTipRole)) == ("Echo", LINE.does)
    assert [box.itemText(place) for place in range(box.count())] == [
        "None",
        "Auto",
        "N-gram",
        "N-gram hashing (ngram-mod)",
        "Trained head (built in)",
        "Small draft model (built in)",
        "Block drafter (built in)",
        "MTP head of the model (not in this model)",
        "Echo",
        "",
        "Models…",
        "Open model folder…",
        "Open GGUF file…",
    ]
    with qtbot.waitSignal(header.changed) as changed:
        box.setCurrentIndex(index)
        box.activated.emit(index)
    assert changed.args == ["drafter", "echo"]
    controls = ColumnControls("A")
    qtbot.addWidget(controls)
    controls.show_setup(ColumnSetup(drafter="echo"), False, (), "builtin")
    assert (controls.drafter.currentText(), controls.setup.drafter) == ("Echo", "echo")
    assert controls.rule.isEnabled()


def test_the_selector_tells_what_each_drafter_is_and_what_a_path_may_lead_to(qtbot: QtBot) -> None:
    header = Header()
    qtbot.addWidget(header)
    header.show_settings(Settings(drafter="/models/small.gguf"))
    box = header.drafter

    def tip(name: str) -> Any:
        return box.itemData(box.findData(name), Qt.ItemDataRole.ToolTipRole)

    assert tip("ngram") == f"{DRAFTERS['ngram'].does} With gamma set to auto, it decides how many tokens to propose."
    assert tip("head").endswith("Works with the built-in target only.")
    assert tip("/models/small.gguf") == "/models/small.gguf"
    assert [row.split(":")[0] for row in tip("\0folder").splitlines()] == [
        "Head",
        "Block drafter",
        "MTP head",
        "EAGLE-3 head",
        "Draft model",
    ]
    assert "same vocabulary" in tip("\0folder") and "trained for" in tip("\0folder")


def test_the_command_line_takes_it(home: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["chat", "--help"])
    assert "builtin-block, mtp, echo, or the path of a head, block drafter, MTP head, EAGLE-3 head or draft model" in " ".join(
        capsys.readouterr().out.split()
    )
    assert main(["chat", "hi", "--target", target, "--drafter", "echo", "--max-tokens", "8"]) == 0
    (path,) = (home / "traces").iterdir()
    assert read(path).header["drafter"]["name"] == "echo"


def test_the_benchmark_measures_it(home: Path, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts, out = tmp_path / "prompts.jsonl", tmp_path / "out.json"
    prompts.write_text(json.dumps({"id": "one", "category": "chat", "turns": ["hello"]}))
    words = ["--rules", "gumbel", "--temperatures", "0", "--gamma", "auto", "--max-tokens", "8", "--no-peers"]
    assert main(["bench", "--target", target, "--prompts", str(prompts), "--drafters", "echo", *words, "--json", str(out)]) == 0
    results = json.loads(out.read_text())
    assert results["drafters"] == [{"name": "echo", "sha256": None, "has_distribution": False}]
    (row,) = [row for row in results["rows"] if row["drafter"] == "echo"]
    assert row["proposed"] > 0 and row["same_text"]
    monkeypatch.setitem(DRAFTERS, "echo", replace(LINE, benched=True))
    assert benched(target) == ("ngram", "echo")


def test_the_settings_keep_it(tmp_path: Path) -> None:
    stored.save(tmp_path / "settings.json", Settings(drafter="echo"))
    assert stored.load(tmp_path / "settings.json") == (Settings(drafter="echo"), "")


@pytest.mark.parametrize("rule", ["match", "gumbel", "rejection"])
def test_the_words_are_those_of_a_drafter_that_copies(rule: Any) -> None:
    def said(drafter: str) -> str:
        round_ = make_round(0, ["a"], "b", ["c"], rule=rule, drafter=drafter)
        words = [decision(round_, Spot(0, False, place), False) for place in range(2)]
        words += limitations(round_, Spot(0, False, 0), False)
        return "\n".join(words).replace(drafter_title(drafter), "DRAFTER")

    assert said("echo") == said("ngram") != said("head")
    assert not Session().has_distribution("echo")
    assert why_rules_coincide(0.8, "echo", False).startswith("Echo proposes without probabilities")
