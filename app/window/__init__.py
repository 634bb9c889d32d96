"""The window itself: puts the parts together and brings them to the state of the chat.

Lives here: the main window, its header, status strip, pages, commands and start. May import every room but `app.cli`.
"""
