"""The main window: creates its parts, keeps them in sync with the chat, and opens it.

This folder has the main window, its header, status strip, pages, commands and startup. It may import every folder of `app` except
`app.cli`, and only that one may import it. `window.py` creates the parts and connects them; each part reads the chat itself when
`view_updates.py` says that something has changed. A command, with its menu and shortcuts, is an entry in
`commands.window_commands`.
"""
