"""The chat as values: settings, turns and answers, what is pointed at, and the link to the engine thread.

`session`, `settings`, `answer_pieces`, `token_walk` and `plain_baseline` need no signals; `chat`, `engine_link`, `cursor` and
`shown_answer` do. No view lives here. A setting is a field of `settings.Settings` with its check; an event of the engine is a
case in `Session.apply`.
"""
