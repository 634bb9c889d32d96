"""Markdown samples for tests: a long answer that uses every construct, hostile texts, and random ones."""

from __future__ import annotations

import random

RICH = """# Speculative decoding *in short*

A **drafter** proposes tokens and the *target* checks them in one pass, so `accepted` tokens cost ***almost nothing***. See
[the paper](https://arxiv.org/abs/2211.17192) or https://arxiv.org/abs/2302.01318. ~~Magic~~ It is arithmetic \\*.

## How it works

1. The drafter writes $\\gamma$ tokens, one after the other, which is cheap because it is small and does little for each.
2. The target reads all of them **at once**:
   - it accepts $x$ with probability $\\min(1, p(x)/q(x))$;
   - or draws from the residual \\((p - q)_+\\).

     ```python
     def accept(coin):
         return coin < 0.5  # by chance
     ```

3. Repeat.

> The text follows the target's distribution **exactly**.
> > Nested: nobody can tell.

```js
let x = "a";
```

| rule | acceptance | exact? |
|:-----|:----------:|-------:|
| match | $\\sum p q$ | yes |
| rejection | `min(p, q)` \\| 1 | **yes** 😀 |

$$
\\alpha = \\frac{a}{b}
$$

- [x] exact
- <b>raw HTML</b> stays text
- ![lanes](https://example.org/lanes.png)

***

    indented code

The end: مرحبا and 👩‍💻, **bold**.
"""

HOSTILE = {
    "unclosed fence": "text\n\n```python\nx = 1\n\n# not a heading\n",
    "long line": "word **bold** `code` " * 500,
    "long line without blanks": "a" * 10_000,
    "nested quotes": "> " * 300 + "deep",
    "nested lists": "\n".join("  " * depth + "- item" for depth in range(60)),
    "brackets": "[" * 3000 + "]" * 3000,
    "stars": "*a **b " * 800,
    "backticks": "".join("`" * count + "x" for count in range(1, 90)),
    "HTML": "<script>alert(1)</script>\n\n<img src=x onerror=alert(1)>\n\n<!-- comment\n\nstill -->",
    "image": "![alt](http://example.org/x.png) ![](http://example.org/y.png) ![a **b**](<z z>)",
    "bad links": "[a](javascript:alert(1)) [b](file:///etc/passwd) [c](data:text/html,x)",
    "control characters": "a\x00b\x07c\x1b[31md\x7fe\u2028f\u2029g\rh\r\ni\x0bj\x0ck\x85l",
    "right to left": "# مرحبا **بالعالم** `كود`\n\n- שלום *עולם*\n\n| א | ב |\n|---|---|\n| ג | ד |\n",
    "ragged table": "| a | b |\n|---|---|\n| 1 |\n| 1 | 2 | 3 | 4 |\n||\n| `x \\| y` | z |\ntext behind",
    "fence in a list": "- item\n\n  ```py\n  x = 1\n  ```\n- ```\n  y\nout\n",
    "mathematics that never ends": "$$ a \\frac{1}{2 \\( \\[ $x \n\n" + "{" * 200 + "$\\frac" * 50 + "$",
    "half pairs": "**bold without end and *this and `that and [link](",
    "surrogates": "😀**😀**`😀` *👩‍💻* \U0001f1e9\U0001f1ea",
    "blank": "\n\n   \n\t\n",
    "entities": "&amp; &lt;b&gt; &#35; &nosuch; \\& \\# \\😀",
    "references": "[a][b] and [b]\n\n[b]: http://example.org\n",
    "crossing": "**a *b** c* __d_ _e__ ~~f ~~~g~~",
}

_ATOMS = (
    "word ", "**", "*", "`", "``", "[a](http://b)", "[", "](", "!", "$", "$$", "\\(", "\\)", "<b>", "😀", "é", "日本", "\\", "_",
    "~~", "&amp;", "|", " | ", "https://a.b/c ", "1", ".", "   ",
)  # fmt: skip
_STARTS = (
    "", "", "", "", "", "# ", "### ", "- ", "* ", "1. ", "2. ", "10) ", "> ", "> - ", "  ", "    ", "      ", "\t", "```",
    "```py", "~~~", "  ```", "    ```", "---", "***", "===", "| a | b |", "|---|---|", "--- | ---", "| 1 |", "$$", "\\[", "\\]",
    "-", "- [ ] ", "+ ", " - ", "   - ", "[x]: http://y", ">", "- ```", "> ```", "1.", "- - a", "* * *", "a | b",
)  # fmt: skip


def random_markdown(chance: random.Random) -> str:
    """Lines that begin like anything and go on with any markup, closed or not."""
    lines = []
    for _ in range(chance.randint(1, 14)):
        inside = "".join(chance.choice(_ATOMS) for _ in range(chance.choice((0, 0, 1, 2, 5))))
        lines.append(chance.choice(_STARTS) + inside)
    return "\n".join(lines)


def at_random_borders(text: str, chance: random.Random, longest: int = 9) -> list[str]:
    """The text in parts of a few letters, as tokens would cut it."""
    parts, at = [], 0
    while at < len(text):
        step = chance.randint(1, longest)
        parts.append(text[at : at + step])
        at += step
    return parts
