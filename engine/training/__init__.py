"""Training of drafters: draft heads for any target (`run`, `draftlight train-drafter`; see README.md), and the older distilling
of the draft model that is cut from the built-in target (`cut`, `teacher`, `selfplay`, each a command of its own).

Nothing here runs while the app decodes. What a training writes is loaded by `engine.models.draft_head` and `engine.models.loading`.
"""
