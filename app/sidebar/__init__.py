"""The list of chats beside the conversation: by date, or the matches of a search. Showing a chat is not done here."""
