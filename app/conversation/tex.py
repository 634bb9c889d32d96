"""Converts mathematics in TeX to Unicode text. What Unicode lacks stays in TeX."""

from __future__ import annotations

import re

MATH_ENDS = {"$$": "$$", "\\[": "\\]"}
"""The opening marks of a block of mathematics and the marks that close it."""
_SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "vartheta": "ϑ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π",
    "rho": "ρ", "sigma": "σ", "tau": "τ", "upsilon": "υ", "phi": "φ", "varphi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω",
    "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ",
    "Omega": "Ω", "cdot": "·", "times": "×", "div": "÷", "pm": "±", "mp": "∓", "ast": "∗", "star": "⋆", "circ": "∘",
    "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥", "neq": "≠", "ne": "≠", "ll": "≪", "gg": "≫", "approx": "≈", "equiv": "≡",
    "sim": "∼", "simeq": "≃", "cong": "≅", "propto": "∝", "infty": "∞", "partial": "∂", "nabla": "∇", "sum": "∑", "prod": "∏",
    "int": "∫", "iint": "∬", "oint": "∮", "in": "∈", "notin": "∉", "ni": "∋", "subset": "⊂", "subseteq": "⊆", "supset": "⊃",
    "supseteq": "⊇", "cup": "∪", "cap": "∩", "setminus": "∖", "emptyset": "∅", "varnothing": "∅", "forall": "∀", "exists": "∃",
    "neg": "¬", "lnot": "¬", "land": "∧", "wedge": "∧", "lor": "∨", "vee": "∨", "oplus": "⊕", "otimes": "⊗", "perp": "⊥",
    "mid": "|", "parallel": "∥", "angle": "∠", "to": "→", "rightarrow": "→", "leftarrow": "←", "leftrightarrow": "↔",
    "Rightarrow": "⇒", "Leftarrow": "⇐", "Leftrightarrow": "⇔", "implies": "⟹", "iff": "⟺", "mapsto": "↦", "uparrow": "↑",
    "downarrow": "↓", "dots": "…", "ldots": "…", "cdots": "⋯", "vdots": "⋮", "hbar": "ℏ", "ell": "ℓ", "Re": "ℜ", "Im": "ℑ",
    "aleph": "ℵ", "prime": "′", "degree": "°", "langle": "⟨", "rangle": "⟩", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈",
    "rceil": "⌉", "vert": "|", "Vert": "‖", "lVert": "‖", "rVert": "‖", "lvert": "|", "rvert": "|", "backslash": "\\",
    "quad": "  ", "qquad": "    ", "therefore": "∴", "because": "∵", "blacksquare": "■", "square": "□", "checkmark": "✓",
}  # fmt: skip
_FUNCTIONS = frozenset(
    (
        "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "log", "ln", "lg",
        "exp", "max", "min", "sup", "inf", "lim", "limsup", "liminf", "argmax", "argmin", "det", "dim", "ker", "deg", "gcd",
        "hom", "Pr", "arg", "mod",
    )
)  # fmt: skip
_SPACING = {",": " ", ";": " ", ":": " ", "!": "", " ": " ", "{": "{", "}": "}", "%": "%", "$": "$", "#": "#", "&": "&", "_": "_",
            "|": "‖", "\\": "\n"}  # fmt: skip
_DROPPED = frozenset(
    (
        "left", "right", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr", "displaystyle", "textstyle",
        "limits", "nolimits",
    )
)  # fmt: skip
_UPRIGHT = frozenset(
    (
        "text", "textbf", "textit", "mathrm", "mathbf", "mathit", "mathsf", "mathtt", "operatorname", "boldsymbol", "mbox",
        "bm",
    )
)  # fmt: skip
_BARS = {
    "hat": "\u0302",
    "bar": "\u0304",
    "overline": "\u0305",
    "tilde": "\u0303",
    "vec": "\u20d7",
    "dot": "\u0307",
    "ddot": "\u0308",
}
_DOUBLE = dict(zip("CHNPQRZE", "ℂℍℕℙℚℝℤ𝔼", strict=True))
_RAISED = dict(zip("0123456789+-=()niabcdefghjklmoprstuvwxyzT∗′ ", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱᵃᵇᶜᵈᵉᶠᵍʰʲᵏˡᵐᵒᵖʳˢᵗᵘᵛʷˣʸᶻᵀ*′ ", strict=True))
_LOWERED = dict(zip("0123456789+-=()aehijklmnoprstuvxβγρφχ ", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ ", strict=True))
_FRACTIONS = {("1", "2"): "½", ("1", "3"): "⅓", ("2", "3"): "⅔", ("1", "4"): "¼", ("3", "4"): "¾"}
_TOKEN = re.compile(r"\\([A-Za-z]+)\*? ?|\\(.)|(.)", re.DOTALL)
_DEEPEST = 12


def unicode_of(tex: str) -> str:
    """Converts TeX with common symbols, powers, indices, fractions and roots to Unicode; unknown commands stay as they are."""
    return re.sub(r"(?<! ) {2,}+(?=\S)", " ", _Converter(tex).all()).strip(" ") if tex.strip() else tex


class _Converter:
    def __init__(self, tex: str) -> None:
        self.tex = tex
        self.at = 0
        self.depth = 0

    def all(self) -> str:
        """Returns the whole formula in Unicode, including closing braces without an opening one."""
        parts = []
        while self.at < len(self.tex):
            parts.append("}" if self.tex[self.at] == "}" else "")
            self.at += self.tex[self.at] == "}"
            parts.append(self._until_brace())
        return "".join(parts)

    def _until_brace(self) -> str:
        parts: list[str] = []
        while self.at < len(self.tex) and self.tex[self.at] != "}":
            parts.append(self._next())
        return "".join(parts)

    def _argument(self) -> str:
        """Returns a group in braces, or the next token."""
        while self.at < len(self.tex) and self.tex[self.at] == " ":
            self.at += 1
        if self.at >= len(self.tex) or self.tex[self.at] == "}":
            return ""
        return self._next()

    def _group(self) -> str:
        start = self.at
        if self.depth >= _DEEPEST:
            self.at = len(self.tex)
            return self.tex[start:]
        self.at += 1
        self.depth += 1
        inside = self._until_brace()
        self.depth -= 1
        if self.at < len(self.tex):
            self.at += 1
            return inside
        return "{" + inside  # it was never closed

    def _next(self) -> str:
        if self.tex[self.at] == "{":
            return self._group()
        found = _TOKEN.match(self.tex, self.at)
        assert found is not None
        self.at = found.end()
        command, symbol, letter = found.groups()
        if command:
            return self._command(command, found[0])
        if symbol is not None:
            return _SPACING.get(symbol, found[0])
        if letter in "^_":
            if self.depth >= _DEEPEST:
                return letter
            self.depth += 1
            inside = self._argument()
            self.depth -= 1
            return _small(letter, inside, _RAISED if letter == "^" else _LOWERED)
        return {"~": " ", "&": " ", "'": "′"}.get(letter, letter)

    def _command(self, name: str, written: str) -> str:
        if name in _SYMBOLS:
            blank = " " if written.endswith(" ") else ""
            return _SYMBOLS[name] + blank
        if name in _FUNCTIONS:
            return name + (" " if written.endswith(" ") else "")
        if name in _DROPPED:
            if self.tex[self.at : self.at + 1] == ".":
                self.at += 1
            return ""
        if self.depth >= _DEEPEST:
            return written
        self.depth += 1
        result = self._with_arguments(name, written)
        self.depth -= 1
        return result

    def _with_arguments(self, name: str, written: str) -> str:
        if name in ("frac", "dfrac", "tfrac"):
            above, below = self._argument(), self._argument()
            return _FRACTIONS.get((above, below)) or f"{_grouped(above)}/{_grouped(below)}"
        if name == "binom":
            return f"C({self._argument()}, {self._argument()})"
        if name == "sqrt":
            root = "√"
            if self.tex[self.at : self.at + 1] == "[" and (end := self.tex.find("]", self.at)) > 0:
                index, self.at = self.tex[self.at + 1 : end], end + 1
                root = {"3": "∛", "4": "∜"}.get(index) or "".join(_RAISED.get(letter, letter) for letter in index) + "√"
            return root + _grouped(self._argument())
        if name in _UPRIGHT:
            return self._argument()
        if name in ("mathbb", "mathcal"):
            inside = self._argument()
            return _DOUBLE.get(inside, inside) if name == "mathbb" else inside
        if name in _BARS:
            inside = self._argument()
            return inside + _BARS[name] if len(inside) == 1 else f"{name}({inside})"
        if name in ("begin", "end"):
            self._argument()
            return ""
        if name == "boxed":
            return f"[{self._argument()}]"
        while self.tex[self.at : self.at + 1] == "{":
            written += "{" + self._group() + "}"
        return written


def _small(mark: str, inside: str, letters: dict[str, str]) -> str:
    inside = inside.strip()
    if inside and all(letter in letters for letter in inside):
        return "".join(letters[letter] for letter in inside)
    return mark + (inside if len(inside) == 1 else f"({inside})" if inside else "")


def _grouped(text: str) -> str:
    text = text.strip()
    enclosed = text.startswith("(") and text.endswith(")") and text.count("(") == 1
    return text if enclosed or re.fullmatch(r"[\w∂√∞.′⁰-₟²³¹]+", text) else f"({text})"
