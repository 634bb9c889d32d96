"""The verdict on one token, in words and figures, shared by the verdict card, its screen reader text and comparisons.

No Qt. The reasons by rule, which reports use as well, are in `engine.lens.token_reasons`; the card is
`app.conversation.verdict_card`. Each figure of a token is a `Figure` in `verdict`; the card shows whatever it gets.
"""
