"""The store of conversations, without Qt and MLX. Other packages import only from this module, not from its submodules.

`ChatStore` keeps conversations, their messages as a tree, and the settings and figures of each answer in one SQLite file. Traces
are separate files. Not here: displaying conversations, and requesting answers from the engine.
"""

from engine.chats.database import ChatsBusy, ChatsDamaged, ChatsNotSaved
from engine.chats.exchange.markdown import to_markdown
from engine.chats.exchange.own import to_json
from engine.chats.exchange.reading import ImportResult, ReadChats, import_chats, may_hold_chats, read_chats
from engine.chats.interrupted import given_ids
from engine.chats.store import RESTORABLE_DAYS, ChatStore, RunningAnswer, count_open_stores
from engine.chats.values import (
    CONTINUABLE,
    EDITED_WORDS,
    STATE_OF_FINISH,
    STATE_WORDS,
    ChatSettings,
    ChatSummary,
    Conversation,
    Figures,
    Hit,
    Making,
    Retention,
    Role,
    State,
    StoredMessage,
    UnsentText,
    figures_of,
)

__all__ = [
    "CONTINUABLE",
    "EDITED_WORDS",
    "RESTORABLE_DAYS",
    "STATE_OF_FINISH",
    "STATE_WORDS",
    "ChatSettings",
    "ChatStore",
    "ChatSummary",
    "ChatsBusy",
    "ChatsDamaged",
    "ChatsNotSaved",
    "Conversation",
    "Figures",
    "Hit",
    "ImportResult",
    "Making",
    "ReadChats",
    "Retention",
    "Role",
    "RunningAnswer",
    "State",
    "StoredMessage",
    "UnsentText",
    "count_open_stores",
    "figures_of",
    "given_ids",
    "import_chats",
    "may_hold_chats",
    "read_chats",
    "to_json",
    "to_markdown",
]
