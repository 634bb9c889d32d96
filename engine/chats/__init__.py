"""The store of conversations, without Qt and MLX. Other packages import only from this module, not from its submodules.

`ChatStore` keeps conversations, their messages as a tree, and the settings and figures of each answer in one SQLite file. Traces
are separate files. Not here: displaying conversations, and requesting answers from the engine.
"""

from engine.chats.database import ChatsBusy, ChatsDamaged, ChatsNotSaved
from engine.chats.exchange.markdown import to_markdown
from engine.chats.exchange.own import to_json
from engine.chats.exchange.reading import ReadChats, may_hold_chats, read_chats
from engine.chats.importing import TakenIn, take_in
from engine.chats.interrupted import given_ids
from engine.chats.store import KEPT_DAYS, Begun, ChatStore, how_many_open
from engine.chats.values import (
    CONTINUABLE,
    EDITED_WORDS,
    STATE_OF_FINISH,
    STATE_WORDS,
    ChatSettings,
    Conversation,
    Figures,
    Hit,
    Listed,
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
    "KEPT_DAYS",
    "STATE_OF_FINISH",
    "STATE_WORDS",
    "Begun",
    "ChatSettings",
    "ChatStore",
    "ChatsBusy",
    "ChatsDamaged",
    "ChatsNotSaved",
    "Conversation",
    "Figures",
    "Hit",
    "Listed",
    "Making",
    "ReadChats",
    "Retention",
    "Role",
    "State",
    "StoredMessage",
    "TakenIn",
    "UnsentText",
    "figures_of",
    "given_ids",
    "how_many_open",
    "may_hold_chats",
    "read_chats",
    "take_in",
    "to_json",
    "to_markdown",
]
