"""The conversation: transcript, message field, welcome page and the verdict card of a token.

`transcript` is the scroll area. It has one block per prompt and per answer (`blocks`); a block has a flow of text, in the token
view (`text_flow`) or in the reading view (`reading_view`), which is laid out in `chunks`. `line_formats` and `letter_formats` say
how Markdown looks; `hit_testing`, `find` and `token_pointer` are for mouse and keys.

Elsewhere: the turns themselves (`app.session`), the order in which tokens are read (`engine.lens.pieces`), and the contents of
the verdict card (`app.verdict`). A further kind of turn is a class in `blocks` that lays itself out and paints itself.
"""
