"""All randomness of decoding: one stream of noise per seed, position and purpose, the same on every device (DESIGN section 3).

`source` draws for decoding, with `kernel` on Apple's GPU; `reference` defines the same noise in numpy, and needs no MLX. This
module re-exports the names of `source` lazily, so that it can be imported without MLX.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.noise.source import DOMAINS, NO_TOKEN, NoiseSource, check_drawn, coin, gumbel, gumbel_argmax

__all__ = ["DOMAINS", "NO_TOKEN", "NoiseSource", "check_drawn", "coin", "gumbel", "gumbel_argmax"]


def __getattr__(name: str) -> Any:
    """Returns a public name of `source`, which imports MLX."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from engine.noise import source

    return getattr(source, name)
