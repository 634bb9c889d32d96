"""The store of conversations, without Qt and MLX. This is its door: nobody outside imports what is behind it.

`ChatStore` keeps conversations, their messages as a tree, and how each answer was made, in one SQLite file; traces stay files
beside it. Not here: showing any of it, and asking the engine for answers.
"""

from engine.chats.database import ChatsBusy, ChatsDamaged, ChatsNotSaved
from engine.chats.store import KEPT_DAYS, Begun, ChatStore
from engine.chats.values import (
    CONTINUABLE,
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
)

__all__ = [
    "CONTINUABLE",
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
    "Retention",
    "Role",
    "State",
    "StoredMessage",
]
