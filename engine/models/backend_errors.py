"""What the `tokenizers` library raises for descriptions that it cannot use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from engine.errors import DraftlightError


@contextlib.contextmanager
def explained(what: str, remedy: str) -> Iterator[None]:
    """Turns what goes wrong inside into a DraftlightError: `what` cannot be done, the reason, and what to do.

    The library raises bare Exception, and where its own code breaks, something that is none: it derives from BaseException.
    """
    try:
        yield
    except DraftlightError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise DraftlightError(f"{what}: {(str(error).splitlines() or [type(error).__name__])[0]}. {remedy}") from error
