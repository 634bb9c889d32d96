"""Where a GPU's kernel is chosen. There is none yet, so noise is drawn by numpy and MLX operations everywhere."""

from engine.blas import prefer_fast_blas

prefer_fast_blas()
import mlx.core as mx  # noqa: E402


def available() -> bool:
    """Whether draws can run in the kernel."""
    return False


def gumbel_argmax(
    logits: mx.array, inverse_temperature: float, positions: mx.array, stream: mx.array
) -> tuple[mx.array, mx.array]:
    """Ids and margins, as `engine.noise.NoiseSource.argmax_and_margin`."""
    raise NotImplementedError
