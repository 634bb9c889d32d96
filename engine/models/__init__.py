"""Models: files and folders read, tokenizers, and which models can draft for which.

Lives here: everything between a name or path and a `LoadedModel`. Does not live here: what a model's cache and layers allow
(`engine.target`), and where files come from (`engine.files`). A further kind of model file is a reader beside `gguf`, reached
from `loading`; refuse what cannot be right.
"""

from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.models.pairing import PairReport, check_pair

__all__ = ["LoadedModel", "PairReport", "check_pair", "load"]
