"""The main window: creates its parts, keeps them in sync with the chat, and opens it.

This folder has the main window, its header, status strip, pages, commands and startup. It may import every folder of `app` except
`app.cli`, and only that one may import it. A command, with its menu and shortcuts, is an entry in `commands.window_commands`.
"""
