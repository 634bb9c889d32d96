"""What a conversation is called until the user names it."""

from __future__ import annotations

LONGEST = 60
UNTITLED = "New chat"


def title_of(prompt: str) -> str:
    """The first line of a prompt that says something, cut between two words."""
    line = next((" ".join(line.split()) for line in prompt.splitlines() if line.strip(" \t#>*-`")), "")
    if not line:
        return UNTITLED
    if len(line) <= LONGEST:
        return line
    whole_words = line[: LONGEST + 1].rpartition(" ")[0]
    return (whole_words if len(whole_words) > LONGEST // 2 else line[:LONGEST]).rstrip(" ,.;:") + "…"
