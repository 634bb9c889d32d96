"""Conversations as files: `draftlight.chats/1` and Markdown out; that JSON, ChatGPT's and LM Studio's exports in.

One file for each format. Not here: the store, which takes in what is read.
"""
