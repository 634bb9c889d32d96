"""What became of one token and why, in words and figures that the verdict card, its screen reader and a comparison share.

No Qt. Does not live here: the reasons by rule, which the report gives as well (`engine.lens.token_reasons`), and the card itself
(`app.conversation.verdict_card`). A figure of a token is one more `Figure` in `verdict`; the card shows whatever is there.
"""
