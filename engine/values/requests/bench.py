"""What a benchmark is asked for and what it yields, as plain values. Nothing here imports MLX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from engine.values.answers import FILTERS, DecodingOptions, Finish, Gamma, ModelInfo, Rule
from engine.values.drafter_kinds import NGRAM, NO_DRAFTER

Maker = Literal["draftlight", "mlx-lm"]
QUICK_GAMMAS: tuple[Gamma, ...] = (2, "auto")
QUICK_TOKENS = 32
QUICK_MINUTES = 2.75
"""What is measured where nothing else is asked for, so that there is an answer after less than three minutes."""


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """A conversation's user turns; each is answered with the conversation so far."""

    id: str
    category: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """Measure every drafter under every rule, temperature and gamma on every prompt. ValueError names an impossible field.

    Attributes:
        drafters: "none" may be among them; plain runs are always made.
        seed: every draw follows from it. One prompt's runs at one temperature all have the same seed.
        peers: also run mlx-lm's own loops.
        top_p, top_k, min_p, repetition_penalty: of every answer, as in `DecodingOptions`.
        kv_bits: of the K/V caches of target and draft models, as in `DecodingOptions`.
        minutes: end after so long, loading included; None takes the time that it takes.
        journals: a folder in which every measurement is kept at once, so that the same request goes on after an interruption;
            None keeps nothing. anew: measure again what was measured before an interruption.
    """

    prompts: tuple[BenchPrompt, ...]
    target: str = "builtin"
    drafters: tuple[str, ...] = (NGRAM,)
    rules: tuple[Rule, ...] = ("rejection", "gumbel")
    temperatures: tuple[float, ...] = (0.0, 0.8)
    gammas: tuple[Gamma, ...] = (4,)
    max_tokens: int = 128
    seed: int = 0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    peers: bool = True
    kv_bits: int | None = None
    minutes: float | None = None
    journals: str | None = None
    anew: bool = False

    def __post_init__(self) -> None:
        for name in ("prompts", "drafters", "rules", "temperatures", "gammas"):
            values = getattr(self, name)
            if not values:
                raise ValueError(f"{name} must not be empty")
            if len(set(values)) < len(values):
                raise ValueError(f"{name} must not name anything twice")
        if not all(self.drafters):
            raise ValueError("drafters must not hold an empty name")
        for rule in self.rules:
            DecodingOptions(rule=rule)
        for temperature in self.temperatures:
            DecodingOptions(temperature=temperature)
        for gamma in self.gammas:
            DecodingOptions(gamma=gamma)
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"minutes must be more than 0, not {self.minutes}")
        DecodingOptions(seed=self.seed, max_tokens=self.max_tokens, kv_bits=self.kv_bits, **self.filters)

    @property
    def filters(self) -> dict[str, Any]:
        """The filters by the names of decoding options."""
        return {name: getattr(self, name) for name in FILTERS}


@dataclass(frozen=True, slots=True)
class BenchSetting:
    """What is compared. Rule and gamma are None in plain runs; mlx-lm's speculative loop has the rule match.

    Attributes:
        drafter: the name it was asked for by; "none" decodes plainly.
    """

    maker: Maker
    drafter: str
    rule: Rule | None
    temperature: float
    gamma: Gamma | None

    @property
    def is_baseline(self) -> bool:
        """Whether this is what everything else at its temperature is compared with."""
        return self.maker == "draftlight" and self.drafter == NO_DRAFTER


@dataclass(frozen=True, slots=True)
class PeerToken:
    """A token out of mlx-lm's loop: whether the draft model proposed it, and seconds since the end of reading the prompt."""

    id: int
    from_draft: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One setting on one prompt, all of its turns together.

    Attributes:
        order: 0 for the first run of the benchmark.
        prompt_tokens: tokens that were read, the earlier turns of a conversation again with each turn.
        tokens: emitted ones. seconds: from the end of reading the prompt to the last token.
        seconds_to_first_token: reading the prompt and the first round, drafter included; mean over the turns. None for mlx-lm.
        rounds: forward passes of the target.
        alpha: accepted / (accepted + rejected). tau: tokens / rounds.
        speedup: tokens_per_second / plain_tokens_per_second; 1 for the plain baseline.
        plain_tokens, plain_seconds: of the nearest plain runs before and after this one, added up, their seconds weighted by how
            near each was in time.
        repetition: share of the answer's 4-grams that had occurred in it before.
        same_text: whether the answer equals the plain one, where it has to, but for near-ties: at temperature 0, and under match
            and gumbel. None where nothing promises it.
        finishes: how each turn ended.
        peak_memory: the most bytes that MLX's arrays took during any turn: target, this drafter, caches and intermediate results,
            but not the other drafters that are measured. None where it is not known.
    """

    prompt_id: str
    category: str
    maker: Maker
    drafter: str
    rule: Rule | None
    temperature: float
    gamma: Gamma | None
    order: int
    turns: int
    prompt_tokens: int
    tokens: int
    seconds: float
    tokens_per_second: float | None
    seconds_to_first_token: float | None
    rounds: int
    proposed: int
    accepted: int
    rejected: int
    unjudged: int
    alpha: float | None
    tau: float | None
    speedup: float | None
    plain_tokens: int
    plain_seconds: float
    plain_tokens_per_second: float | None
    repetition: float | None
    same_text: bool | None
    finishes: tuple[Finish, ...]
    peak_memory: int | None = None

    @property
    def setting(self) -> BenchSetting:
        """What was measured, without the prompt it was measured on."""
        return BenchSetting(self.maker, self.drafter, self.rule, self.temperature, self.gamma)


@dataclass(frozen=True, slots=True)
class BenchDrafter:
    """A drafter that takes part; `sha256` is its model's, None if it has none."""

    name: str
    sha256: str | None
    has_distribution: bool


@dataclass(frozen=True, slots=True)
class BenchSetup:
    """What is about to be measured, known once everything is loaded.

    Attributes:
        settings: in the order they are run on every prompt at their temperature, the plain baseline left out.
        notes: what was asked for and is not measured, with the reason, and what is measured in another form than asked for.
        warm_up_tokens: tokens that every setting decoded beforehand, unmeasured.
        own: drafters among the models on this machine that could draft for the target and were not asked for.
    """

    target: ModelInfo
    drafters: tuple[BenchDrafter, ...]
    device: str
    settings: tuple[BenchSetting, ...]
    notes: tuple[str, ...]
    warm_up_tokens: int
    own: tuple[str, ...] = ()
