"""`draftlight chats`, and how `draftlight chat` keeps its conversation and goes on with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.entry import main
from engine.chats import ChatStore, StoredMessage
from engine.rounds.trace import read
from tests.engine.chats.test_exchange import LM_STUDIO
from tests.engine.fakes import FakeBackend


def kept(home: Path, conversation: int = 1) -> list[StoredMessage]:
    """What shows of a conversation."""
    with ChatStore(home) as store:
        return store.open(conversation).path


def run(*arguments: str) -> None:
    """A command that succeeds."""
    assert main(arguments) == 0


def test_a_chat_is_kept_with_its_settings_figures_and_trace(backend: FakeBackend, home: Path) -> None:
    run("chat", "hi there", "--max-tokens", "4", "--seed", "7", "--drafter", "ngram", "--system", "Be brief.")
    question, answer = kept(home)
    assert (question.text, answer.text, answer.state) == ("hi there", "abcd", "length")
    assert answer.made is not None
    assert (answer.made.settings.options.seed, answer.made.settings.drafter, answer.made.figures.tokens) == (7, "ngram", 4)
    assert answer.trace is not None
    assert read(answer.trace).summary is not None
    with ChatStore(home) as store:
        assert store.open(1).settings.system == "Be brief."
        assert [each.title for each in store.conversations()] == ["hi there"]


def test_a_conversation_goes_on_under_its_settings(backend: FakeBackend, home: Path) -> None:
    run("chat", "hi", "--max-tokens", "4", "--target", "other", "--rule", "block", "--system", "Be brief.")
    run("chat", "unrelated", "--max-tokens", "2")
    run("chat", "--continue", "1", "and then?", "--max-tokens", "3")
    assert [message.text for message in kept(home)] == ["hi", "abcd", "and then?", "abc"]
    answer = kept(home)[-1]
    assert answer.made is not None
    settings = answer.made.settings
    assert (settings.target, settings.options.rule, settings.options.max_tokens) == ("other", "block", 3)
    assert answer.trace is not None
    asked = read(answer.trace).header["prompt"]["messages"]
    assert [message["content"] for message in asked] == ["Be brief.", "hi", "abcd", "and then?"]
    run("chat", "--continue", "the newest one goes on")
    assert [message.text for message in kept(home)][4:] == ["the newest one goes on", "abc"]


def test_a_conversation_goes_back_to_chains_and_to_trees(backend: FakeBackend, home: Path) -> None:
    budgets = []
    for given in ("hi --budget 6", "--continue 1", "--continue 1 --budget chain", "--continue 1", "--continue 1 --budget 9"):
        run("chat", *given.split(), *([] if given.startswith("hi") else ["more"]), "--max-tokens", "2")
        made = kept(home)[-1].made
        assert made is not None
        budgets.append(made.settings.options.budget)
    assert budgets == [6, 6, None, None, 9]


def test_a_cut_answer_is_continued(backend: FakeBackend, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("chat", "hi", "--max-tokens", "4")
    first = kept(home)[-1]
    capsys.readouterr()
    run("chat", "--continue")
    assert capsys.readouterr().out.startswith("abcd")
    second = kept(home)[-1]
    assert second.text.startswith("abcd")
    assert len(second.text) == 8
    assert second.continues == first.id
    assert first.made is not None
    assert second.made is not None
    assert second.made.settings.options.seed == first.made.settings.options.seed
    with ChatStore(home) as store:
        assert [each.id for each in store.open(1).siblings(second.id)] == [first.id, second.id]
        store.finish_answer(second.id, "complete", second.text)
    assert main(["chat", "--continue"]) == 1
    assert "The last answer cannot be continued (complete). Give a prompt" in capsys.readouterr().err


def test_a_full_context_is_refused_or_the_oldest_turns_are_left_out(
    backend: FakeBackend, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fake model reads a thousand letters."""
    run("chat", "a" * 400, "--max-tokens", "4")
    assert main(("chat", "--continue", "b" * 600)) == 1
    refused = capsys.readouterr().err
    assert "but builtin reads at most 1,000." in refused and "--when-full drop" in refused
    run("chat", "--continue", "c" * 600, "--when-full", "drop")
    said = capsys.readouterr().err
    assert "The model no longer sees the oldest 2 turns, because builtin reads at most 1,000 tokens." in said
    last = kept(home)[-1]
    assert last.made is not None and (last.made.dropped, last.made.settings.overflow) == (4, "drop")
    assert last.trace is not None
    assert len(read(last.trace).header["prompt"]["ids"]) == 600 + len("<user><assistant>")
    run("chat", "--continue", "d")
    assert "oldest 2 turns" in capsys.readouterr().err, "the conversation keeps the choice, and what is out stays out"


def test_a_failed_answer_is_stored_up_to_the_failure(backend: FakeBackend, home: Path, caplog: pytest.LogCaptureFixture) -> None:
    backend.fail_at = {2: RuntimeError("device lost")}
    assert main(["chat", "hi"]) == 1
    answer = kept(home)[-1]
    assert answer.state == "failed"
    assert answer.made is not None
    assert "device lost" in answer.made.failure
    assert "abc".startswith(answer.text)
    backend.fail_at = {}
    run("chat", "--continue", "--max-tokens", "3")
    again = kept(home)[-1]
    assert (again.text, again.state, again.parent) == ("abc", "length", answer.parent), "asked for again, beside the failed one"


def test_nothing_is_stored_if_not_requested(backend: FakeBackend, home: Path) -> None:
    run("chat", "hi", "--max-tokens", "2", "--no-save")
    assert not (home / "chats").exists()
    run("chats", "list")
    with ChatStore(home) as store:
        assert store.conversations() == (), "although its trace is there"


def test_an_answer_is_printed_even_if_it_cannot_be_stored(
    backend: FakeBackend, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home.mkdir(exist_ok=True)
    (home / "chats").write_text("a file where a folder should be")
    run("chat", "hi", "--max-tokens", "2")
    printed = capsys.readouterr()
    assert printed.out == "ab\n"
    assert "This conversation is not kept." in printed.err


@pytest.mark.parametrize("number", [7, 10**23, -(10**23)])
def test_an_unknown_conversation_number_is_an_error(
    backend: FakeBackend, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    run("chat", "hi", "--max-tokens", "2")
    for action in ("show", "export", "delete", "restore"):
        assert main(["chats", action, str(number)]) == 1
        assert capsys.readouterr().err.endswith(f"draftlight: There is no conversation {number}.\n")
    run("chats", "list", "--limit", str(number))
    assert "hi" in capsys.readouterr().out


def test_an_unknown_conversation_cannot_be_continued(backend: FakeBackend, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "--continue", "9" * 23, "and then?"]) == 1
    assert capsys.readouterr().err == f"draftlight: There is no conversation {'9' * 23}.\n"
    with pytest.raises(SystemExit):
        main(["chat", "--continue", "9" * 5000, "and then?"])
    assert "takes the number of a conversation" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chat", "hi", "--continue", "x"], "takes the number of a conversation"),
        (["chat", "--continue", "--no-save"], "--no-save cannot be added"),
        (["chats"], "ACTION"),
        (["chats", "show", "x"], "ID"),
        (["chats", "traces", "--keep-days", "-1"], "a number of days, from 0 to a billion; use --keep-all for no limit"),
        (["chats", "traces", "--keep-days", "nan"], "a number of days, from 0"),
        (["chats", "traces", "--keep-megabytes", "1e303"], "a number of megabytes"),
        (
            ["chats", "traces", "--keep-megabytes", "inf"],
            "megabytes, from 0 to a billion; use --keep-all for no limit",
        ),
    ],
)
def test_an_impossible_request_is_one_line_and_status_2(
    backend: FakeBackend, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_conversations_are_listed_shown_searched_deleted_and_restored(
    backend: FakeBackend, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("chats", "list")
    assert "There are no conversations." in capsys.readouterr().err
    run("chat", "Tell me of lighthouses", "--max-tokens", "2")
    run("chat", "Tell me of rain", "--max-tokens", "2")
    capsys.readouterr()
    run("chats", "list")
    first, second = capsys.readouterr().out.splitlines()
    assert (first.split()[0], first[25:], second[25:]) == ("2", "Tell me of rain", "Tell me of lighthouses")
    run("chats", "list", "--json", "--limit", "1")
    assert [each["title"] for each in json.loads(capsys.readouterr().out)] == ["Tell me of rain"]
    run("chats", "show", "1")
    assert "## You\n\nTell me of lighthouses" in capsys.readouterr().out
    run("chats", "search", "lightho")
    assert capsys.readouterr().out.splitlines()[0].split()[0] == "1"
    assert main(["chats", "search", "nothing like it"]) == 1
    assert main(["chats", "show", "9"]) == 1
    assert "There is no conversation 9." in capsys.readouterr().err
    run("chats", "delete", "1")
    run("chats", "list", "--deleted")
    assert "lighthouses" in capsys.readouterr().out
    run("chats", "restore", "1")
    assert main(["chats", "delete", "2", "9"]) == 1
    assert len(json.loads(_json(capsys, "chats", "list", "--json"))) == 2, "all of those named or none"
    run("chats", "delete", "--now", "1", "2")
    assert not list((home / "traces").iterdir())


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    run(*arguments)
    return capsys.readouterr().out


def test_all_conversations_are_exported_and_imported(
    backend: FakeBackend, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("chat", "one", "--max-tokens", "2")
    run("chat", "two", "--max-tokens", "2")
    run("chats", "export", "--output", str(tmp_path / "all.json"))
    run("chats", "export", "1", "--output", str(tmp_path / "one.md"))
    assert (tmp_path / "one.md").read_text().startswith("# one\n")
    (tmp_path / "lm.json").write_text(json.dumps(LM_STUDIO))
    (tmp_path / "bad.json").write_text("{}")
    monkeypatch.setenv("DRAFTLIGHT_HOME", str(tmp_path / "other"))
    capsys.readouterr()
    files = [str(tmp_path / name) for name in ("all.json", "bad.json", "lm.json", "all.json")]
    assert main(["chats", "import", *files]) == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        f"{tmp_path}/all.json: 2 chats imported from Draftlight",
        f"{tmp_path}/lm.json: 1 chat imported from LM Studio",
        f"{tmp_path}/all.json: 0 chats imported from Draftlight (2 were there already)",
    ]
    assert "bad.json cannot be imported" in printed.err
    assert sorted(each["title"] for each in json.loads(_json(capsys, "chats", "list", "--json"))) == ["Colours", "one", "two"]


@pytest.mark.parametrize("deleted", [False, True])
def test_an_empty_export_writes_nothing(
    backend: FakeBackend, tmp_path: Path, capsys: pytest.CaptureFixture[str], deleted: bool
) -> None:
    if deleted:
        run("chat", "hi", "--max-tokens", "2")
        run("chats", "delete", "1")
    capsys.readouterr()
    for where in ([], ["--output", str(tmp_path / "all.md")]):
        assert main(["chats", "export", *where]) == 1
        assert capsys.readouterr() == ("", "draftlight: There are no conversations to export.\n")
    assert not (tmp_path / "all.md").exists()


@pytest.mark.parametrize(("limit", "words"), [("--keep-megabytes", "up to 0 MB"), ("--keep-days", "for 0 days")])
def test_the_retention_of_traces_can_be_set(
    backend: FakeBackend, home: Path, capsys: pytest.CaptureFixture[str], limit: str, words: str
) -> None:
    run("chat", "hi", "--max-tokens", "4")
    run("chat", "hi", "--max-tokens", "4", "--no-save")
    capsys.readouterr()
    run("chats", "traces")
    assert capsys.readouterr().out.endswith("kept forever\n")
    assert [path.suffix for path in (home / "traces").iterdir()] == [".gz", ".gz"]
    run("chats", "traces", limit, "0")
    assert words in capsys.readouterr().out
    assert list((home / "traces").iterdir()) == []
    assert kept(home)[-1].text == "abcd"
