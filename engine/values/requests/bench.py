"""Request for a benchmark and its results, as plain values. Nothing here imports MLX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from engine.values.answers import FILTERS, Budget, DecodingOptions, Finish, Gamma, ModelInfo, Rule
from engine.values.drafter_kinds import NGRAM, NO_DRAFTER

Maker = Literal["draftlight", "mlx-lm"]
QUICK_GAMMAS: tuple[Gamma, ...] = (2, "auto")
QUICK_TOKENS = 32
QUICK_MINUTES = 2.75
"""Settings of a benchmark for which nothing else is requested, so that it takes less than three minutes."""


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """A conversation's user turns; each is answered with the conversation so far as context."""

    id: str
    category: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """Request to measure every drafter under every rule, temperature and gamma on every prompt. ValueError names an impossible
    field.

    Attributes:
        drafters: may include "none"; plain runs are always made.
        seed: determines every draw. All runs of one prompt at one temperature have the same seed.
        peers: also run mlx-lm's own loops.
        top_p, top_k, min_p, repetition_penalty: options of every answer, as in `DecodingOptions`.
        kv_bits: bits of the K/V caches of target and draft models, as in `DecodingOptions`.
        budget, width: size of the trees that Draftlight's own loop drafts, as in `DecodingOptions`; mlx-lm's drafts chains.
        minutes: time limit, loading included; None sets none.
        journals: folder in which every measurement is saved at once, so that the same request resumes after an interruption; None
            saves nothing. anew: measure again what was measured before an interruption.
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
    budget: Budget = "auto"
    width: int = DecodingOptions().width

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
        DecodingOptions(seed=self.seed, max_tokens=self.max_tokens, kv_bits=self.kv_bits, **self.filters, **self.trees)

    @property
    def filters(self) -> dict[str, Any]:
        """The filters by the names of decoding options."""
        return {name: getattr(self, name) for name in FILTERS}

    @property
    def trees(self) -> dict[str, Any]:
        """The size of trees by the names of decoding options."""
        return {"budget": self.budget, "width": self.width}


@dataclass(frozen=True, slots=True)
class BenchSetting:
    """A measured configuration. Rule and gamma are None in plain runs; mlx-lm's speculative loop has the rule match.

    Attributes:
        drafter: the requested name; "none" decodes plainly.
    """

    maker: Maker
    drafter: str
    rule: Rule | None
    temperature: float
    gamma: Gamma | None

    @property
    def is_baseline(self) -> bool:
        """Whether this is the plain run that everything else at its temperature is compared with."""
        return self.maker == "draftlight" and self.drafter == NO_DRAFTER


@dataclass(frozen=True, slots=True)
class PeerToken:
    """A token of mlx-lm's loop: whether the draft model proposed it, and seconds since the end of reading the prompt."""

    id: int
    from_draft: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class BenchRow:
    """Results of one setting on one prompt, all of its turns together.

    Attributes:
        order: 0 for the first run of the benchmark.
        prompt_tokens: tokens that were read; the earlier turns of a conversation count again in each turn.
        tokens: emitted tokens. seconds: from the end of reading the prompt to the last token.
        seconds_to_first_token: reading the prompt and the first round, drafter included; mean over the turns. None for mlx-lm.
        rounds: forward passes of the target.
        alpha: accepted / (accepted + rejected). tau: tokens / rounds.
        speedup: tokens_per_second / plain_tokens_per_second; 1 for the plain baseline.
        plain_tokens, plain_seconds: sums over the nearest plain runs before and after this one, their seconds weighted by how
            near each was in time.
        repetition: share of the answer's 4-grams that occurred earlier in it.
        same_text: whether the answer equals the plain one, apart from near-ties, if it has to: at temperature 0, and under match
            and gumbel. None if equality is not promised.
        finishes: how each turn ended.
        peak_memory: peak bytes of MLX's arrays during any turn: target, this drafter, caches and intermediate results, but not
            the other drafters that are measured. None if unknown.
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
        """The measured setting, without the prompt."""
        return BenchSetting(self.maker, self.drafter, self.rule, self.temperature, self.gamma)


@dataclass(frozen=True, slots=True)
class BenchDrafter:
    """A drafter of a benchmark; `sha256` is that of its model, None if it has none."""

    name: str
    sha256: str | None
    has_distribution: bool


@dataclass(frozen=True, slots=True)
class BenchSetup:
    """Plan of a benchmark, known once everything is loaded.

    Attributes:
        settings: in the order in which they run on every prompt at their temperature, without the plain baseline.
        notes: requested settings that are not measured, with the reason, or that are measured in another form.
        warm_up_tokens: tokens that every setting decodes beforehand, unmeasured.
        own: drafters on this machine that could draft for the target and were not requested.
    """

    target: ModelInfo
    drafters: tuple[BenchDrafter, ...]
    device: str
    settings: tuple[BenchSetting, ...]
    notes: tuple[str, ...]
    warm_up_tokens: int
    own: tuple[str, ...] = ()
