"""Templates that loop or grow are stopped, whatever they do it with; how sound ones render is in `test_tokenizer.py`."""

from __future__ import annotations

import threading

import pytest

from engine.models import chat_templates
from engine.models.chat_templates import ChatTemplate
from engine.values.errors import DraftlightError
from tests.fuzz.watched import finding

MESSAGES = [{"role": "user", "content": "Why is the sky blue?"}]
NESTED = "{% set n = namespace(x=['a']) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}"
DOUBLING = "{%% set n = namespace(x='ab') %%}{%% for i in range(99) %%}{%% set n.x = %s %%}{%% endfor %%}{{ n.x|length }}"
HOSTILE = {
    "a loop in a loop": "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "a long range": "{% for i in range(10**9) %}{% endfor %}",
    "a long text": "{{ 'a' * 10**12 }}",
    "a long list": "{{ ([0] * 10**12)|length }}",
    "a power": "{{ 9 ** 99999999 }}",
    "squares": "{% set n = namespace(x=3) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}",
    "doubled by ~": DOUBLING % "n.x ~ n.x",
    "doubled by +": DOUBLING % "n.x + n.x",
    "doubled by join": DOUBLING % "[n.x, n.x]|join",
    "doubled by format": DOUBLING % "'%s%s' % (n.x, n.x)",
    "doubled by format()": DOUBLING % "'{0}{0}'.format(n.x)",
    "doubled by replace": DOUBLING % "n.x|replace('a', 'aa')",
    "a billion laughs": NESTED + "{{ n.x }}",
    "a billion laughs in JSON": NESTED + "{{ n.x|tojson }}",
    "a billion laughs as text": NESTED + "{{ n.x|string|length }}",
    "a function that calls itself": "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "a tree of calls": "{% macro f(n) %}{% if n %}{{ f(n - 1) ~ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "a block that contains itself": "{% block a %}{{ self.a() }}{% endblock %}",
    "padding": "{{ 'a'.ljust(10**10) }}",
    "a width": "{{ '{:10000000000}'.format(1) }}",
    "a width given elsewhere": "{{ '{:>{w}}'.format('a', w=10**10) }}",
    "another width given elsewhere": "{{ '%*d' % (10**10, 1) }}",
    "bytes": "{{ (1).to_bytes(10**10, 'big') }}",
    "much that is written": "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{{ x }}{% endfor %}",
    "copies": "{% set n = namespace(l=[]) %}{% set x = 'a' * 1000000 %}{% for i in range(100000) %}"
    "{% set n.l = n.l + [x[1:]] %}{% endfor %}",
    "copies by a filter": "{{ ([[0] * 100000] * 100000)|map('list')|list|length }}",
    "sums of lists": "{{ ([[0] * 1000] * 10000)|sum(start=[])|length }}",
    "brackets": "{{ " + "[" * 3000 + "]" * 3000 + " }}",
    "blocks in blocks": "{% if 1 %}" * 2000 + "{% endif %}" * 2000,
    "its own length": "{{ a }}" * 30_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_template_that_loops_or_grows_is_stopped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_templates, "MAX_SECONDS", 0.02)
    said: list[str] = []

    def render(source: bytes) -> None:
        try:
            ChatTemplate(source.decode()).render({"messages": MESSAGES})
        except DraftlightError as error:
            said.append(str(error))

    assert finding(render, HOSTILE[name].encode()) is None, "it took long, or much memory"
    assert said and said[0].startswith(("The model's chat template was stopped", "The model's chat template does not accept"))


def test_template_budget_grows_with_the_conversation() -> None:
    twice = "{% for m in messages %}{% set x = m['content'] ~ m['content'] %}{{ x|trim|upper }}{% endfor %}"
    long = [{"role": "user", "content": "word " * 200_000}] * 3
    assert len(ChatTemplate(twice).render({"messages": long})) == 3 * (2 * 1_000_000 - 1)


def test_each_prompt_has_a_budget_of_its_own_on_every_thread() -> None:
    template = ChatTemplate("{% for i in range(9999) %}{% endfor %}{{ messages[0]['content'] }}")
    rendered: list[str] = []

    def render() -> None:
        rendered.extend(template.render({"messages": MESSAGES}) for _ in range(3))

    threads = [threading.Thread(target=render) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rendered == [MESSAGES[0]["content"]] * 9
