"""The chat's state without views: settings, turns and answers, the cursor, and the link to the engine thread.

`session`, `settings`, `answer_pieces`, `token_walk` and `plain_baseline` use no signals; `chat`, `engine_link`, `cursor` and
`shown_answer` do. A setting is a field of `settings.Settings` with its check. Each engine event is a case in `Session.apply`.
"""
