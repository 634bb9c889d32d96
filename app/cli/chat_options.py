"""The options of `draftlight chat`, and the request they produce."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING

from app.cli.shared_options import (
    add_anyway,
    add_filters,
    add_hosts,
    add_kv_bits,
    add_models,
    add_tree,
    gamma,
    hosts_of,
    number,
    with_arguments,
)
from engine.files import recommended_sampling
from engine.types import OVERFLOWS, RANGES, RULES, THINKINGS, DecodingOptions, Message
from engine.values.drafter_kinds import default_drafter
from engine.values.errors import DraftlightError
from engine.values.wording import shortened

if TYPE_CHECKING:
    from engine.chats import ChatSettings

HELP = "stream one answer to the terminal"
DESCRIPTION = (
    "Stream one answer and keep the conversation. On a terminal, accepted tokens are tinted, corrections underlined, bonus "
    "tokens italic and rejected proposals struck through where they were proposed. Elsewhere, or if NO_COLOR is set, the answer "
    "is plain text. A summary line goes to standard error. Ctrl-C stops the answer."
)
_DEFAULTS = DecodingOptions(gamma="auto")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options to the command's parser."""
    parser.add_argument("prompt", metavar="PROMPT", nargs="?", help="the prompt, or - to read it from standard input")
    parser.add_argument(
        "--continue",
        dest="continued",
        metavar="ID",
        nargs="?",
        const="",
        help="continue the newest conversation, or this one (see `draftlight chats list`), under its settings; "
        "without a prompt, continues an answer that was stopped or cut off",
    )
    parser.add_argument("--no-save", dest="save", action="store_false", help="do not keep the conversation, only its trace")
    add_models(parser)
    add_anyway(parser)
    add_hosts(parser)
    parser.add_argument("--system", metavar="TEXT", help="system prompt (default: the model's own, if Ollama has one)")
    parser.add_argument(
        "--thinking",
        choices=THINKINGS,
        help="whether a model that can do so thinks before it answers (default: as its chat template has it)",
    )
    parser.add_argument("--hide-thinking", dest="thoughts", action="store_false", help="leave out what the model thinks first")
    parser.add_argument(
        "--raw",
        action="store_true",
        help="continue the prompt as plain text, without the model's chat template; models without one always do so",
    )
    parser.add_argument(
        "--when-full",
        dest="overflow",
        choices=OVERFLOWS,
        help="if a conversation is too long for the model: stop with a message, or drop its oldest turns (default: stop)",
    )
    parser.add_argument("--rule", choices=RULES, help=f"how proposals are judged (default: {_DEFAULTS.rule})")
    parser.add_argument(
        "--gamma",
        type=gamma,
        help=f"proposals per round, {RANGES['gamma'].short} (default: {_DEFAULTS.gamma})",
    )
    add_tree(parser)
    parser.add_argument(
        "--temperature",
        type=number("temperature"),
        help=f"0 takes the most likely token (default: as the model recommends, else {_DEFAULTS.temperature})",
    )
    add_filters(parser)
    parser.add_argument("--seed", type=number("seed"), help="random seed; the same seed repeats an answer (default: a new one)")
    parser.add_argument(
        "--max-tokens", type=number("max_tokens"), help=f"maximum tokens in the answer (default: {_DEFAULTS.max_tokens})"
    )
    parser.add_argument(
        "--stop", metavar="TEXT", action="append", help="stop sequence: the answer ends before it; can be repeated"
    )
    add_kv_bits(parser)
    parser.add_argument("--no-ghosts", dest="ghosts", action="store_false", help="hide rejected and unjudged proposals")
    parser.add_argument("--json", dest="json_lines", action="store_true", help="print the answer's trace as JSON Lines instead")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command with its options."""
    from app.cli.chat import chat
    from app.cli.saved_answer import SavedAnswer, newest_conversation, request_with
    from engine.chats import ChatStore

    prompt, continued = _prompt_and_conversation(arguments)
    with contextlib.ExitStack() as open_files:
        store: ChatStore | None = None
        if arguments.save:
            try:
                store = open_files.enter_context(ChatStore())
            except DraftlightError as error:
                if continued is not None:
                    raise
                print(f"draftlight: {error} This conversation is not kept.", file=sys.stderr)
        if store is None or continued is None:
            conversation, settings = None, _settings(arguments, None)
        else:
            conversation = store.open(int(continued) if continued else newest_conversation(store))
            if conversation.settings.comparison is not None:
                raise DraftlightError(f"Conversation {conversation.about.id} is a comparison, which only the window can show.")
            settings = _settings(arguments, conversation.settings)
        saving = None if store is None else SavedAnswer(store, settings, conversation, prompt)
        return chat(
            saving.request if saving is not None else request_with(settings, [Message("user", prompt)], kept=arguments.save),
            ghosts=arguments.ghosts,
            thoughts=arguments.thoughts,
            json_lines=arguments.json_lines,
            anyway=arguments.anyway,
            cluster=hosts_of(arguments),
            saving=saving,
        )


def _prompt_and_conversation(arguments: argparse.Namespace) -> tuple[str, str | None]:
    """Returns (prompt, conversation). The prompt is empty to continue the last answer. The conversation is the id to continue,
    empty for the newest, None for a new one. Invalid combinations end the command as a usage error."""
    prompt, continued = arguments.prompt, arguments.continued
    if prompt is None and continued and not _is_number(continued):  # the prompt directly follows --continue
        prompt, continued = continued, ""
    if prompt == "-":
        prompt = sys.stdin.buffer.read().decode("utf-8", errors="replace")
    if prompt is None and continued is None:
        arguments.error("PROMPT is missing")
    if prompt is not None and not prompt.strip():
        arguments.error("the prompt is empty")
    if continued and not _is_number(continued):
        arguments.error(f"--continue takes the number of a conversation, not {continued!r}")
    if continued is not None and not arguments.save:
        arguments.error("--continue keeps the conversation, so --no-save cannot be added")
    if arguments.raw and arguments.system:
        arguments.error("a system prompt needs the chat template, which --raw leaves out")
    return prompt or "", continued


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 100  # Python parses no more than 4,300 digits


def _settings(arguments: argparse.Namespace, before: ChatSettings | None) -> ChatSettings:
    """Returns the settings of the answer: the given options, over those of the continued conversation or the defaults."""
    from engine.chats import ChatSettings

    target = arguments.target or ("builtin" if before is None else before.target)
    if before is None:
        recommended = dict(recommended_sampling.of_target(target))
        system = recommended.pop("system_prompt", "")
        if system and arguments.system is None and not arguments.raw:
            print(f"draftlight: the model's own system prompt, unless --system is given: {shortened(system)}", file=sys.stderr)
        system = "" if arguments.raw else system
        before = ChatSettings(target="", system=system, options=_DEFAULTS.replace(**recommended))
    options = before.options.replace(seed=None)
    return ChatSettings(
        system=before.system if arguments.system is None else arguments.system,
        target=target,
        drafter=arguments.drafter or (before.drafter if before.target == target else default_drafter()),
        options=with_arguments(options, arguments),
        template=before.template and not arguments.raw,
        thinking=arguments.thinking or before.thinking,
        overflow=arguments.overflow or before.overflow,
    )
