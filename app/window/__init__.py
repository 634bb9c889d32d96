"""The window itself: puts the parts together, brings them to the state of the chat, and opens it.

Lives here: the main window, its header, status strip, pages, commands and start. May import every room but `app.cli`, and no
other room may import it but that one. A command, with its menu and its keys, is an entry in `commands.window_commands`.
"""
