"""The chat as values: settings, turns and answers, what is pointed at, and the link to the engine thread.

`session`, `answer_pieces` and `plain_baseline` know nothing of Qt; `chat`, `engine_link` and `cursor` need its signals. No view
lives here.
"""
