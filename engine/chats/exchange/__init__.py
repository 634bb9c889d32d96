"""Exports conversations as `draftlight.chats/1` (JSON) or Markdown; imports that JSON and exports of ChatGPT and LM Studio.

Each format has a module. `reading` adds imported conversations to the store, which imports nothing from here.
"""
