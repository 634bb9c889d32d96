"""Settings survive what happens to files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.session import settings as stored
from app.session.settings import Settings


def test_the_first_start_has_the_defaults(tmp_path: Path) -> None:
    settings, note = stored.load(tmp_path / "settings.json")
    assert note == ""
    assert (settings.rule, settings.gamma, settings.drafter) == ("gumbel", "auto", "auto")
    assert (settings.temperature, settings.top_p) == (0.2, 0.9), "as the card of the built-in model recommends"


def test_settings_come_back_as_they_were_saved(tmp_path: Path) -> None:
    settings = Settings(
        appearance="light", ghosts="rejected", gamma="auto", seed=7, stop=("END", "\n"), geometry=(1, 2, 800, 600)
    )
    stored.save(tmp_path / "deep" / "settings.json", settings)
    assert stored.load(tmp_path / "deep" / "settings.json") == (settings, "")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["settings.json"]


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe\x00", b"[1]", b"", b"null"])
def test_a_damaged_file_is_set_aside_and_the_defaults_are_used(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(content)
    settings, note = stored.load(path)
    assert settings == Settings()
    assert "settings-damaged.json" in note
    assert (tmp_path / "settings-damaged.json").read_bytes() == content


def test_one_bad_value_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"temperature": -1, "gamma": "many", "ghosts": False, "of_a_later_version": 1, "text_scale": "x"}))
    settings, note = stored.load(path)
    assert settings == Settings(ghosts=False)
    assert all(name in note for name in ("temperature", "gamma", "text_scale"))
    assert "of_a_later_version" not in note


def test_what_cannot_be_set_aside_is_not_said_to_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{damaged")

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("os.replace", refuse)
    settings, note = stored.load(path)
    assert settings == Settings()
    assert "could not be read" in note
    assert "kept" not in note


@pytest.mark.parametrize(
    ("written", "meant"), [(True, "all"), (False, "none"), ("all", "all"), ("rejected", "rejected"), ("some", "above")]
)
def test_files_that_knew_ghosts_as_a_switch_are_still_understood(tmp_path: Path, written: object, meant: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"ghosts": written}))
    settings, note = stored.load(path)
    assert settings.ghosts == meant
    assert ("ghosts" in note) == (written == "some")
    stored.save(path, settings)
    assert json.loads(path.read_text())["ghosts"] == meant


def test_a_targets_recommended_sampling_comes_into_force_where_the_user_has_set_nothing_else() -> None:
    settings = Settings(min_p=0.05)
    settings = replace(settings, **settings.recommendations((("temperature", 0.6), ("top_k", 20), ("min_p", 0.1))))
    assert (settings.temperature, settings.top_p, settings.top_k) == (0.6, 1.0, 20), "the built-in model's are not the user's own"
    assert settings.min_p == 0.05, "the user's own"
    settings = replace(settings, temperature=1.0)
    settings = replace(settings, **settings.recommendations(()))
    assert (settings.temperature, settings.top_k, settings.min_p) == (1.0, 0, 0.05)


def test_a_targets_own_system_prompt_and_stop_sequences_come_into_force_likewise(tmp_path: Path) -> None:
    mario = (("temperature", 0.3), ("stop", ("User:",)), ("system_prompt", "You are Mario."))
    settings = replace(Settings(), **Settings().recommendations(mario))
    assert (settings.system_prompt, settings.stop, settings.temperature) == ("You are Mario.", ("User:",), 0.3)
    assert (settings.default("system_prompt"), settings.default("stop")) == ("You are Mario.", ("User:",))
    stored.save(tmp_path / "settings.json", settings)
    assert stored.load(tmp_path / "settings.json") == (settings, "")
    other = replace(settings, **settings.recommendations((("system_prompt", "You are Luigi."),)))
    assert (other.system_prompt, other.stop) == ("You are Luigi.", ())
    assert replace(other, **other.recommendations(())).system_prompt == ""
    own = Settings(system_prompt="Be brief.", stop=("END",))
    own = replace(own, **own.recommendations(mario))
    assert (own.system_prompt, own.stop) == ("Be brief.", ("END",))
    own = replace(own, **own.recommendations(()))
    assert (own.system_prompt, own.stop) == ("Be brief.", ("END",))


@pytest.mark.parametrize(
    "wrong", [[["system_prompt", 3]], [["stop", "User:"]], [["stop", [""]]], [["colour", 1.0]], [["top_k"]], [["top_k", "7"]]]
)
def test_an_impossible_recommendation_in_a_file_is_dropped(wrong: object, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"recommended": wrong, "top_k": 7}))
    settings, note = stored.load(path)
    assert settings == Settings(top_k=7) and "recommended" in note


def test_what_a_target_recommended_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    settings = Settings(temperature=0.6, recommended=(("temperature", 0.6),))
    stored.save(path, settings)
    assert stored.load(path) == (settings, "")


def test_what_two_windows_change_is_kept_of_both(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    start = Settings()
    one = other = stored.table_of(path)
    one = stored.save(path, replace(start, temperature=0.4), one)
    other = stored.save(path, replace(start, top_k=7, charts=("alpha",)), other)
    assert stored.load(path) == (replace(start, temperature=0.4, top_k=7, charts=("alpha",)), "")
    stored.save(path, replace(start, temperature=0.5), one)
    stored.save(path, replace(start, top_k=7, charts=("alpha",), temperature=0.3), other)
    assert stored.load(path)[0].temperature == 0.3, "who changes the same thing last"
    path.write_text("damaged")
    stored.save(path, replace(start, top_k=8), other)
    assert stored.load(path)[0].top_k == 8
