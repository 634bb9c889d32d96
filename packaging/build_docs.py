"""Builds the documentation in dist/docs from assets/docs, with pictures and numbers that the program makes: make docs

The pages are Markdown. What stands in << >> is filled in here, files of the repository and results of real answers, so that
nothing shown can differ from what is. Pictures and answers are kept in build/docs until --fresh. `make pictures` makes these
anew, and README's, which alone are part of the repository.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCES = REPOSITORY / "assets" / "docs"
WORK = REPOSITORY / "build" / "docs"
SITE = REPOSITORY / "dist" / "docs"
IN_README = {
    f"mid-answer-{theme}.png": REPOSITORY / "assets" / "screenshots" / f"window-{theme}.png" for theme in ("dark", "light")
}
"""Screenshots for README: name of the picture, and its path in the repository."""
PROMPT = "Why is the sky blue?"
ANSWER = {"seed": 7, "temperature": 0.8, "gamma": 4, "max-tokens": 96, "drafter": "builtin-draft"}
RULES = ("match", "rejection", "gumbel", "block")
CHARTS = {
    "proposals": "What became of the proposals of each round",
    "alpha": "Alpha over the answer, with what each rule is expected to accept",
    "positions": "How often the first, second, third and fourth proposal is accepted",
    "times": "Where the time of a round goes",
}
MODELS = {
    "small": "Speed of the built-in target over the number of machines",
    "large": "Speed of a 70B target over the number of machines",
}
SOURCE_NOTE = (
    "*This is the source of the page: `make docs` fills in what stands in `<<…>>`. Documentation in the Help menu opens it "
    "filled in.*\n\n"
)
"""Note at the top of pages with placeholders, for readers of the repository. It is removed from the site."""
ROOT_PAGES = ("CONTRIBUTING", "ARCHITECTURE", "DESIGN", "CHANGELOG")
CHANNELS = {"deb": "The Debian package", "uv": "uv", "pipx": "pipx", "checkout": "A checkout"}


def draftlight(*words: str) -> str:
    """Runs a command of the program and returns its output. The data folder is separate, but shares the user's models."""
    home = WORK / "home"
    home.mkdir(parents=True, exist_ok=True)
    from engine.files.paths import models_folder

    if not (home / "models").exists():
        (home / "models").symlink_to(models_folder())
    environment = {**os.environ, "DRAFTLIGHT_HOME": str(home), "QT_QPA_PLATFORM": "offscreen"}
    command = [sys.executable, "-m", "app", *words]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def make_pictures(folder: Path) -> None:
    """Makes screenshots of the main states in both themes, and charts of a real answer."""
    draftlight("self-test", "--screenshots", str(folder))
    several_machines(str(folder))
    for theme in ("dark", "light"):
        for chart in CHARTS:
            output = folder / f"{chart}-{theme}.svg"
            draftlight(
                "export", str(WORK / "traces" / "gumbel.jsonl"), "--chart", chart, "--theme", theme, "--output", str(output)
            )


def make_answers(folder: Path) -> None:
    """Makes one trace for each rule, and one without a drafter."""
    folder.mkdir(parents=True, exist_ok=True)
    options = [word for name, value in ANSWER.items() if name != "drafter" for word in (f"--{name}", str(value))]
    for rule, drafter in [*((rule, str(ANSWER["drafter"])) for rule in RULES), ("plain", "none")]:
        kind = ["--rule", rule] if rule in RULES else []
        trace = draftlight("chat", PROMPT, *options, *kind, "--drafter", drafter, "--json", "--no-save")
        (folder / f"{rule}.jsonl").write_text(trace, encoding="utf-8")


def answers() -> dict[str, dict[str, Any]]:
    """Returns each answer as `draftlight export` describes it, by rule."""
    return {
        rule: json.loads(draftlight("export", str(WORK / "traces" / f"{rule}.jsonl"), "--format", "json"))["answers"][0]
        for rule in (*RULES, "plain")
    }


def several_machines(*folder: str) -> str:
    """Returns the table of speed over the number of machines. Writes its charts to a folder, if one is given."""
    command = [sys.executable, str(REPOSITORY / "packaging" / "cluster_model.py"), *folder]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.rstrip()


def table_of_rules() -> str:
    """Returns a table with the statistics of the four answers."""
    rows = ["| rule | tokens | rounds | accepted | rejected | unjudged | alpha | draft yield | tau |", "|---" * 9 + "|"]
    for rule, answer in answers().items():
        if rule in RULES:
            figures = answer["summary"]
            counts = [figures[name] for name in ("emitted", "rounds", "accepted", "rejected", "unjudged")]
            shares = [f"{figures[name]:.2f}" for name in ("alpha", "draft_yield", "tau")]
            rows.append(f"| {rule} | {' | '.join(map(str, counts))} | {' | '.join(shares)} |")
    return "\n".join(rows)


def which_texts_agree() -> str:
    """Returns a paragraph on which answers have the same text. Exits if match, gumbel and the plain run differ."""
    texts = {rule: answer["text"] for rule, answer in answers().items()}
    if not texts["match"] == texts["gumbel"] == texts["plain"]:
        raise SystemExit("Match, gumbel and a plain run gave different texts for one seed.")
    others = [rule for rule in ("rejection", "block") if texts[rule] != texts["plain"]]
    names_ = f"> {' '.join(texts['plain'].split())} …"
    differ = f" Under {' and '.join(others)} it is another text, which is as likely." if others else ""
    return f"Match, gumbel and a run without any drafter gave the same text, token for token:\n\n{names_}\n\n{differ.strip()}"


def themed(name: str, alternative: str, ending: str) -> str:
    """Returns the Markdown of a picture that exists in both themes."""
    lines = [
        f":::{{image}} pictures/{name}-{theme}.{ending}\n:alt: {alternative}\n:class: only-{theme}\n:::"
        for theme in ("light", "dark")
    ]
    return "\n".join(lines)


def trace_lines() -> str:
    """Returns a trace's header with shortened lists, and a round with one proposal."""
    lines = (WORK / "traces" / "rejection.jsonl").read_text(encoding="utf-8").splitlines()
    header = json.loads(lines[0])
    rounds = [line for line in map(json.loads, lines) if line["kind"] == "round" and line["proposals"]]
    round_ = next((one for one in rounds if one["proposals"][0]["status"] == "rejected"), rounds[0])
    round_["proposals"] = round_["proposals"][:1]
    shown = (json.dumps(shortened(value), indent=1, ensure_ascii=False) for value in (header, round_))
    return "\n\n".join(f"```json\n{text}\n```" for text in shown)


def shortened(value: Any) -> Any:
    """Returns a JSON value with lists cut to two entries, and texts to 60 characters."""
    if isinstance(value, dict):
        return {name: shortened(part) for name, part in value.items()}
    if isinstance(value, list):
        return [shortened(part) for part in value[:2]] + (["…"] if len(value) > 2 else [])
    return f"{value[:60]}…" if isinstance(value, str) and len(value) > 60 else value


def part_of(path: str, beginning: str) -> str:
    """Returns a top-level statement of a Python file: from the match of `beginning` to the next line that is not indented."""
    text = (REPOSITORY / path).read_text(encoding="utf-8")
    match = re.search(rf"{beginning}.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    if match is None:
        raise SystemExit(f"{path} has nothing like {beginning}")
    return match.group(0).rstrip()


def steps_of(channel: str) -> str:
    """Returns the stored log of `make bare-machine` for one way of installing."""
    return (SOURCES / "newcomer" / f"{channel}.txt").read_text(encoding="utf-8").rstrip()


def seconds_to_answer(channel: str) -> str:
    """Returns the total time of the steps in a log, up to the first answer."""
    total = 0.0
    for line in steps_of(channel).splitlines():
        if match := re.match(r" *([\d.]+) s  (.*)", line):
            total += float(match.group(1))
            if match.group(2) == "first answer":
                break
    return f"{total:.0f} s"


def fill_placeholders(page: str) -> str:
    """Returns a page with its placeholders, `<<…>>`, filled in."""
    makers: dict[str, Callable[[], str]] = {
        "PROMPT": lambda: PROMPT,
        "SEED": lambda: str(ANSWER["seed"]),
        "TEMPERATURE": lambda: str(ANSWER["temperature"]),
        "GAMMA": lambda: str(ANSWER["gamma"]),
        "TOKENS": lambda: str(ANSWER["max-tokens"]),
        "RULES": table_of_rules,
        "SAME": which_texts_agree,
        "CHARTS": lambda: "\n\n".join(f"{words}:\n\n{themed(chart, words, 'svg')}" for chart, words in CHARTS.items()),
        "MACHINES": several_machines,
        "MACHINES_CHARTS": lambda: "\n\n".join(
            themed(f"cluster-{name}", f"{words}: speed", "svg") for name, words in MODELS.items()
        ),
        "TRACE_LINES": trace_lines,
        "LOGS": lambda: "\n\n".join(f"{title}:\n\n```text\n{steps_of(name)}\n```" for name, title in CHANNELS.items()),
        **{name: (lambda name=name: seconds_to_answer(name)) for name in CHANNELS},
    }

    def fill(found: re.Match[str]) -> str:
        kind, *words = found.group(1).strip().split(" ", 2)
        if kind == "FILE":
            return f"```python\n{(REPOSITORY / words[0]).read_text(encoding='utf-8').rstrip()}\n```"
        if kind == "LINES":
            return f"```python\n{part_of(*words)}\n```"
        return makers[kind]()

    return re.sub(r"<<(\w+(?: [^>]+)?)>>", fill, page.replace(SOURCE_NOTE, ""))


def rewrite_links(page: str, below: int) -> str:
    """Returns a page with its links to pages of the repository changed to pages of the site. A link to another file of the
    repository becomes text with its path.

    Args:
        below: depth of the page's folder in the repository.
    """

    def link(found: re.Match[str]) -> str:
        words, target = found.groups()
        name, _, anchor = target.partition("#")
        path = name.removeprefix("../" * below)
        if "://" in name or (below and path == name):
            return found.group(0)
        if path.removesuffix(".md") in ROOT_PAGES:
            return f"[{words}]({path.lower()}{'#' + anchor if anchor else ''})"
        if path == "README.md":
            return f"[{words}](index.md)"
        if path.startswith("assets/docs/"):
            return f"[{words}]({path.removeprefix('assets/docs/')}{'#' + anchor if anchor else ''})"
        return found.group(0) if not name else f"{words} (`{path}`)" if f"`{path}`" != words else words

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", link, page)


def pages() -> Iterator[tuple[str, str]]:
    """Yields name and text of every page."""
    for path in sorted(SOURCES.glob("*.md")):
        yield path.name, rewrite_links(fill_placeholders(path.read_text(encoding="utf-8")), 2)
    for name in ROOT_PAGES:
        yield f"{name.lower()}.md", rewrite_links((REPOSITORY / f"{name}.md").read_text(encoding="utf-8"), 0)


def main() -> int:
    """Builds the documentation; returns the exit status of Sphinx, which fails at a broken link or picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="make pictures and answers again, even if they exist")
    parser.add_argument("--pictures", action="store_true", help="make all pictures again, including those of README, and stop")
    parser.add_argument("--sphinx", default=str(WORK / "environment" / "bin" / "sphinx-build"), help="path of sphinx-build")
    arguments = parser.parse_args()
    if arguments.fresh or arguments.pictures:
        for name in ("pictures", "traces"):
            shutil.rmtree(WORK / name, ignore_errors=True)
    if not (WORK / "traces" / "plain.jsonl").is_file():
        make_answers(WORK / "traces")
    if not (WORK / "pictures").is_dir():
        unfinished = WORK / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        make_pictures(unfinished)
        unfinished.rename(WORK / "pictures")
    if arguments.pictures:
        for name, destination in IN_README.items():
            shutil.copyfile(WORK / "pictures" / name, destination)
        return 0
    source = WORK / "source"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    for name in ("conf.py", "site.css"):
        shutil.copy(SOURCES / name, source)
    shutil.copy(REPOSITORY / "assets" / "app-icon.svg", source)
    shutil.copytree(WORK / "pictures", source / "pictures")
    for name, text in pages():
        (source / name).write_text(text, encoding="utf-8")
    return subprocess.call([arguments.sphinx, "-W", "--keep-going", "-q", "-b", "html", str(source), str(SITE)])


if __name__ == "__main__":
    sys.path.insert(0, str(REPOSITORY))
    sys.exit(main())
