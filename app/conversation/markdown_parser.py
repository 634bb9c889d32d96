"""The markdown-it parser, extended by source positions of inline tokens and by mathematics, without HTML. Imported lazily."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType

from app.conversation.tex import MATH_ENDS


def make(references: bool) -> MarkdownIt:
    """Returns a parser. It gives each inline token its (start, end) in the content of its block as `meta["span"]`."""
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 20}).enable(["table", "strikethrough"])
    parser.inline = _Inline()
    parser.inline.ruler.enableOnly([*_RULES])
    parser.inline.ruler2.enableOnly(["balance_pairs", "strikethrough", "emphasis"])
    parser.inline.ruler.before("escape", "math_inline", _math_inline)
    parser.block.ruler.before("fence", "math_block", _math_block, {"alt": ["paragraph", "blockquote", "list"]})
    parser.disable(["text_join", "html_block"])
    if not references:
        parser.disable(["reference"])
    return parser


_RULES = ("text", "newline", "escape", "backticks", "strikethrough", "emphasis", "link", "image", "autolink", "entity")


class _State(StateInline):
    """An inline state that remembers where its pending text began."""

    waiting_from = 0
    nested_end = 0

    def pushPending(self) -> Token:
        """Adds the pending text as a token, with its span in the source."""
        token = super().pushPending()
        token.meta["span"] = (self.waiting_from, self.waiting_from + len(token.content))
        return token


class _Inline(ParserInline):
    """markdown-it's own loop, extended to record where each rule began and ended."""

    def parse(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> list[Token]:
        """Parses inline Markdown with a state that records spans."""
        state = _State(src, md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens

    def tokenize(self, state: StateInline) -> None:
        """Splits inline Markdown into tokens, noting where each begins and ends."""
        assert isinstance(state, _State)
        rules = self.ruler.getRules("")
        end, deepest = state.posMax, state.md.options["maxNesting"]
        while state.pos < end:
            start, first, waits = state.pos, len(state.tokens), bool(state.pending)
            if not waits:
                state.waiting_from = start
            if state.level < deepest and any(rule(state, False) for rule in rules):
                _note(state, start, first)
            else:
                state.append_pending(state.src[state.pos])
                state.pos += 1
        if state.pending:
            state.pushPending()
        state.nested_end = state.pos


def _note(state: _State, start: int, first: int) -> None:
    """Sets the spans of the tokens that a rule has made."""
    made = [token for token in state.tokens[first:] if "span" not in token.meta]
    if not made:
        return
    if made[0].type == "link_open":
        auto = made[0].info == "auto"
        made[0].meta["span"] = (start, start + 1)
        made[-1].meta["span"] = (state.pos - 1 if auto else state.nested_end, state.pos)
        if auto:
            made[1].meta["span"] = (start + 1, state.pos - 1)
    elif len(made) == 1:
        made[0].meta["span"] = (start, state.pos)
    else:  # a row of stars or tildes
        for token in made:
            token.meta["span"] = (start, start + len(token.content))
            start += len(token.content)


_MATHS = (
    re.compile(r"\$\$(?P<body>(?:[^$\\]|\\.)+?)\$\$", re.DOTALL),
    re.compile(r"\$(?P<body>(?![\s$])(?:[^$\\\n]|\\.)*?(?<![\s\\]))\$(?![\d$])", re.DOTALL),
    re.compile(r"\\\((?P<body>.+?)\\\)", re.DOTALL),
    re.compile(r"\\\[(?P<body>.+?)\\\]", re.DOTALL),
)
"""Patterns of inline mathematics. As in Pandoc, no blank follows an opening dollar; no blank precedes a closing one and no digit
follows it, so that prices are not mathematics."""
_LONGEST = 2000
"""Longest inline mathematics, in characters. Beyond it an opening mark is text, so that the search per mark is bounded."""
_MOST_LINES = 50
"""Longest block of mathematics, in lines."""


def _math_inline(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\":
        return False
    end = min(state.posMax, state.pos + _LONGEST)
    for pattern in _MATHS:
        if found := pattern.match(state.src, state.pos, end):
            if not found["body"].strip():
                return False
            if not silent:
                token = state.push("math_inline", "", 0)
                token.content = found["body"]
                token.markup = found[0][: found.start("body") - found.start()]
            state.pos = found.end()
            return True
    return False


def _math_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parses a block of mathematics: consecutive lines that are not blank, from an opening mark to the closing one."""
    if state.is_code_block(start):
        return False
    text = _line(state, start)
    closing = MATH_ENDS.get(text[:2])
    if closing is None:
        return False
    number = start
    while not (text.endswith(closing) and (number > start or len(text) > 4)):
        if closing in (text[2:] if number == start else text):  # text follows: that is for the inline rule
            return False
        number += 1
        if number >= min(end, start + _MOST_LINES) or state.isEmpty(number) or state.sCount[number] < state.blkIndent:
            return False
        text = _line(state, number)
        if text.startswith(("```", "~~~")):
            return False
    if not silent:
        token = state.push("math_block", "", 0)
        token.map = [start, number + 1]
        state.line = number + 1
    return True


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]].strip()
