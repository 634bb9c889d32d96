"""Public import path of `decode`, which is in `engine.decode.decoding`."""

from engine.decode.decoding import Control, DecodingOptions, decode

__all__ = ["Control", "DecodingOptions", "decode"]
