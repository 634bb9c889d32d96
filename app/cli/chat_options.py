"""The options of `draftlight chat`, and the request they make."""

from __future__ import annotations

import argparse
import sys

from app.cli.shared_options import add_anyway, add_kv_bits, add_models, gamma, request_of
from engine.drafter_kinds import default_drafter
from engine.files import recommended_sampling
from engine.types import MAX_GAMMA, RULES, THINKINGS, DecodingOptions, Message, Request

HELP = "stream one answer to the terminal"
DESCRIPTION = (
    "Stream one answer. On a terminal, accepted tokens are tinted, corrections underlined, bonus tokens italic and rejected "
    "proposals struck through where they were proposed. Elsewhere, or if NO_COLOR is set, the answer is plain text. A summary "
    "line goes to standard error. Ctrl-C stops the answer."
)
_DEFAULTS = DecodingOptions()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options, but for the command that they belong to."""
    parser.add_argument("prompt", metavar="PROMPT", help="the prompt, or - to read it from standard input")
    add_models(parser)
    add_anyway(parser)
    parser.add_argument("--system", metavar="TEXT", help="system prompt")
    parser.add_argument(
        "--thinking",
        choices=THINKINGS,
        default="auto",
        help="whether a model that can do so thinks before it answers (default: as its chat template has it)",
    )
    parser.add_argument("--hide-thinking", dest="thoughts", action="store_false", help="leave out what the model thinks first")
    parser.add_argument(
        "--raw",
        action="store_true",
        help="go on with the prompt as it stands, without the model's chat template; so do models that have none",
    )
    parser.add_argument("--rule", choices=RULES, default=_DEFAULTS.rule, help="how proposals are judged (default: %(default)s)")
    parser.add_argument(
        "--gamma",
        type=gamma,
        default="auto",
        help=f"proposals per round, 1 to {MAX_GAMMA} or auto (default: %(default)s)",
    )
    parser.add_argument(
        "--temperature",
        type=float,
        help=f"0 takes the most likely token (default: as the model recommends, else {_DEFAULTS.temperature})",
    )
    parser.add_argument(
        "--top-p",
        type=float,
        help="nucleus sampling; 1 turns it off (default: as the model recommends, else off)",
    )
    parser.add_argument(
        "--top-k",
        type=int,
        help="keep only the k most likely tokens; 0 turns it off (default: as the model recommends, else off)",
    )
    parser.add_argument(
        "--min-p",
        type=float,
        help="drop tokens below this share of the most likely one; 0 turns it off (default: as the model recommends, else off)",
    )
    parser.add_argument(
        "--repetition-penalty",
        type=float,
        help="above 1 makes recent tokens less likely; 1 turns it off (default: as the model recommends, else off)",
    )
    parser.add_argument("--seed", type=int, help="random seed; the same seed repeats an answer (default: a new one)")
    parser.add_argument(
        "--max-tokens", type=int, default=_DEFAULTS.max_tokens, help="maximum tokens in the answer (default: %(default)s)"
    )
    parser.add_argument(
        "--stop", metavar="TEXT", action="append", default=[], help="stop sequence: the answer ends before it; can be repeated"
    )
    add_kv_bits(parser)
    parser.add_argument("--no-ghosts", dest="ghosts", action="store_false", help="hide rejected and unjudged proposals")
    parser.add_argument("--json", dest="json_lines", action="store_true", help="print the answer's trace as JSON Lines instead")


def run(arguments: argparse.Namespace) -> int:
    """The command, with the arguments of `add_arguments`."""
    from app.cli.chat import chat

    prompt = arguments.prompt
    if prompt == "-":
        prompt = sys.stdin.buffer.read().decode("utf-8", errors="replace")
    if not prompt.strip():
        arguments.error("the prompt is empty")
    if arguments.raw and arguments.system:
        arguments.error("a system prompt needs the chat template, which --raw leaves out")
    target = arguments.target or "builtin"
    for name, value in recommended_sampling.of_target(target):
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    options = request_of(DecodingOptions, arguments)
    system = (Message("system", arguments.system),) if arguments.system else ()
    request = Request(
        messages=(*system, Message("user", prompt)),
        options=options,
        target=target,
        drafter=arguments.drafter or default_drafter(target),
        template=not arguments.raw,
        thinking=arguments.thinking,
    )
    return chat(
        request,
        ghosts=arguments.ghosts,
        thoughts=arguments.thoughts,
        json_lines=arguments.json_lines,
        anyway=arguments.anyway,
    )
