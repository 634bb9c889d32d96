"""How byte-level vocabularies cut text into words before they merge, by the names in `tokenizer.ggml.pre`.

Names and groups: `llama-vocab.cpp` of https://github.com/ggml-org/llama.cpp; the expressions are those of the models' own
`tokenizer.json`. A further name is an entry in `WORD_SPLITS`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex, pre_tokenizers


@dataclass(frozen=True)
class WordSplit:
    """One way of cutting text.

    Attributes:
        patterns: each cuts what the ones before left whole; none for GPT-2's own.
        digit_by_digit: whether every digit is a word of its own, before anything else.
        whole_words_first: whether words are taken whole where the vocabulary has them, without merging.
        bos_first: whether texts begin with the token of the beginning where the file does not say.
    """

    patterns: tuple[str, ...] = ()
    digit_by_digit: bool = False
    whole_words_first: bool = False
    bos_first: bool = False

    def made(self) -> pre_tokenizers.PreTokenizer:
        """The same for `tokenizers`, which then writes bytes as characters."""
        steps: list[pre_tokenizers.PreTokenizer] = []
        if self.digit_by_digit:
            steps.append(pre_tokenizers.Digits(individual_digits=True))
        steps += [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in self.patterns]
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not self.patterns))
        return pre_tokenizers.Sequence(steps)


_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_REST_WITH_SLASH = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _cased(endings: str) -> str:
    """Words that end where lower case gives way to upper case."""
    return rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{endings}|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{endings}"


_LLAMA3 = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_REST}"
_QWEN35 = (
    rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SEED = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
_BAILING = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
_DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}")

_GPT2 = WordSplit()
_DIGITS = WordSplit(digit_by_digit=True)
_LLAMA3_WORDS = WordSplit((_LLAMA3,))
_LLAMA3_WHOLE = WordSplit((_LLAMA3,), whole_words_first=True, bos_first=True)
_QWEN2_WORDS = WordSplit((_QWEN2,))
_GPT4O_WORDS = WordSplit((f"{_cased(f'{_ENDINGS}?')}|\\p{{N}}{{1,3}}|{_REST_WITH_SLASH}",))

WORD_SPLITS: dict[str, WordSplit] = {
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4"), _GPT2),
    **dict.fromkeys(("gigachat", "a.x-4.0", "mellum", "modern-bert"), _GPT2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"), _DIGITS),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"), _LLAMA3_WHOLE),
    **dict.fromkeys(("dbrx", "smaug-bpe", "glm4", "chatglm-bpe"), _LLAMA3_WORDS),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan"), _QWEN2_WORDS),
    **dict.fromkeys(("solar-open", "grok-2"), _QWEN2_WORDS),
    "qwen35": WordSplit((_QWEN35,)),
    "tekken": WordSplit((rf"{_cased('')}|\p{{N}}|{_REST_WITH_SLASH}",), whole_words_first=True, bos_first=True),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"), _GPT4O_WORDS),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"), WordSplit(_DEEPSEEK3)),
    "deepseek-coder": WordSplit(_DEEPSEEK_CODER),
    **dict.fromkeys(("bailingmoe", "bailingmoe2", "llada-moe"), WordSplit((_BAILING,))),
    "seed-coder": WordSplit((_SEED,)),
}
