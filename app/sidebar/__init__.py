"""The list of chats beside the conversation: by date or as a search found them. Not here: showing a chat."""
