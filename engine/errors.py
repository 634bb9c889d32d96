"""The one exception whose message is meant for the user."""


class DraftlightError(Exception):
    """Something the user can cause or mend. The message says what happened and what to do."""
