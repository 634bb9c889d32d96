"""Chat templates: programs that come with a model. They see the conversation and nothing else, and end in time.

They run in Jinja's sandbox with the tags and functions that transformers gives them. Each has a budget of CPU time and of
characters and elements that it may make, which every round of a loop, call, filter and operator draws on; what could make much at
once is measured first. So a template that loops or grows is stopped wherever it runs.
"""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any

import jinja2
import jinja2.exceptions
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox
import jinja2.utils
from jinja2.visitor import NodeTransformer

from engine.values.errors import DraftlightError

MOST_SECONDS = 0.5
"""CPU time of one prompt; those of models in use take milliseconds."""
_MOST_MADE, _MADE_PER_CHARACTER = 200_000, 100
"""Characters and elements that may be made, and how many more for each character of the conversation."""
_LONGEST_TEMPLATE = 100_000
_WIDEST = 1000
"""Columns and levels that text may be padded or indented to, and bits of a whole number."""
_METHODS = frozenset(
    {
        *(
            "strip",
            "lstrip",
            "rstrip",
            "split",
            "rsplit",
            "splitlines",
            "partition",
            "rpartition",
            "startswith",
            "endswith",
            "upper",
        ),
        *(
            "lower",
            "title",
            "capitalize",
            "casefold",
            "swapcase",
            "find",
            "rfind",
            "index",
            "rindex",
            "count",
            "isdigit",
            "isalpha",
        ),
        *(
            "isspace",
            "isalnum",
            "isupper",
            "islower",
            "isnumeric",
            "isdecimal",
            "istitle",
            "isascii",
            "isidentifier",
            "isprintable",
        ),
        *("removeprefix", "removesuffix", "replace", "join", "format", "format_map", "zfill", "ljust", "rjust", "center"),
        *("expandtabs", "items", "keys", "values", "get", "copy", "is_integer", "bit_length"),
    }
)
"""Methods of Python's own types that templates may call."""
_PADDING = ("center", "ljust", "rjust", "zfill", "expandtabs", "indent", "truncate", "round")
_STRUCTURAL = frozenset(
    {
        *(
            "length",
            "count",
            "first",
            "last",
            "default",
            "d",
            "list",
            "items",
            "selectattr",
            "rejectattr",
            "select",
            "reject",
            "map",
        ),
        *("reverse", "attr", "min", "max"),
    }
)
"""Filters that make no text of what they are given."""
_LEFT_OUT = ("batch", "slice", "wordwrap", "urlize", "xmlattr", "pprint", "filesizeformat", "random", "center")
_WIDE = re.compile(r"\d{4,}|\*|:[^{}]*\{")
"""A width in a format that is large or given elsewhere."""


class _Stopped(DraftlightError):
    """A template went beyond its budget."""


class _Budget:
    """What is left to a template."""

    def __init__(self, characters: int) -> None:
        self.left = _MOST_MADE + _MADE_PER_CHARACTER * characters
        self.until = time.thread_time() + MOST_SECONDS

    def take(self, amount: int) -> None:
        """Raises _Stopped where that is too much, or too late."""
        self.left -= amount
        if self.left < 0:
            raise _Stopped("The model's chat template was stopped because its text grows without end. Choose another model.")
        if time.thread_time() > self.until:
            raise _Stopped("The model's chat template was stopped because it does not come to an end. Choose another model.")


_budget: ContextVar[_Budget | None] = ContextVar("budget", default=None)


def _take(amount: int) -> None:
    if (budget := _budget.get()) is not None:
        budget.take(amount)


class ChatTemplate:
    """A template, compiled when it is first rendered."""

    def __init__(self, source: str) -> None:
        self.source = source

    def render(self, variables: Mapping[str, Any]) -> str:
        """The text. Raises DraftlightError where the template refuses, fails, or is stopped."""
        token = _budget.set(_Budget(_measured(variables.get("messages"))))
        try:
            if len(self.source) > _LONGEST_TEMPLATE:
                raise jinja2.TemplateError(f"it is {len(self.source):,} characters long")
            return self._template.render(**variables)
        except _Stopped:
            raise
        except Exception as error:  # a template is a program, and raises whatever Python raises
            reason = str(error)[:_WIDEST].encode("utf-8", "replace").decode()
            raise DraftlightError(f"The model's chat template does not accept this conversation: {reason}") from error
        finally:
            _budget.reset(token)

    def names(self) -> set[str]:
        """The variables that it asks for; none of a template that cannot be read, which is said where it is used."""
        return {node.name for node in self._nodes if isinstance(node, jinja2.nodes.Name)}

    def keys(self) -> set[str]:
        """The attributes that it asks objects for, and every text in it that may be the name of one."""
        attributes = {node.attr for node in self._nodes if isinstance(node, jinja2.nodes.Getattr)}
        return attributes | {
            node.value for node in self._nodes if isinstance(node, jinja2.nodes.Const) and isinstance(node.value, str)
        }

    @functools.cached_property
    def _nodes(self) -> list[jinja2.nodes.Node]:
        if len(self.source) > _LONGEST_TEMPLATE:
            return []
        try:
            kinds = (jinja2.nodes.Name, jinja2.nodes.Getattr, jinja2.nodes.Const)
            return list(_environment().parse(self.source).find_all(kinds))
        except Exception:  # Jinja's own, and Python's for what is nested too deeply
            return []

    @functools.cached_property
    def _template(self) -> jinja2.Template:
        return _environment().from_string(self.source)


class _Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Jinja's sandbox, in which everything that takes time or makes something draws on the budget."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_GenerationBlocks, _Meter, jinja2.ext.loopcontrols],
            optimized=False,  # nothing is computed before there is a budget
            finalize=_written,
        )
        self.filters["tojson"] = _to_json
        self.filters = {name: _metered(name, each) for name, each in self.filters.items() if name not in _LEFT_OUT}
        self.globals["namespace"] = _Namespace
        self.globals["raise_exception"] = _refuse
        self.globals["strftime_now"] = lambda form: datetime.now().strftime(str(form)[:_WIDEST])
        del self.globals["lipsum"]

    def _parse(self, source: str, name: str | None, filename: str | None) -> jinja2.nodes.Template:
        tree: jinja2.nodes.Template = _Metering(self).visit(super()._parse(source, name, filename))
        tree.set_environment(self)
        return tree

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """The operator's value, where it is not too large."""
        if operator == "%" and isinstance(left, str):
            _check_format(left, right, left.count("%"))
        elif operator == "**" and not (isinstance(left, float) or isinstance(right, float)):
            _require_narrow(_bits(left) * abs(right if isinstance(right, int) else 0))
        elif operator == "*":
            texts, numbers = (left, right), [each for each in (left, right) if isinstance(each, int)]
            many = max(numbers, default=0)
            _take(max((len(each) * many for each in texts if isinstance(each, (str, list, tuple))), default=0))
            _require_narrow(_bits(left) + _bits(right))
        elif operator == "+" and isinstance(left, (str, list, tuple)) and isinstance(right, (str, list, tuple)):
            _take(len(left) + len(right))
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        """The result of a call; methods of Python's own types only as far as they are known to be harmless."""
        method = getattr(called, "__wrapped__", called)
        owner, name = getattr(method, "__self__", None), getattr(method, "__name__", "")
        if isinstance(owner, _Meter):
            return called(*args)
        if isinstance(owner, (str, bytes, int, float, list, tuple, dict, set, frozenset)):
            if name not in _METHODS:
                raise jinja2.exceptions.SecurityError(f"{name} is not available to chat templates")
            _check_method(owner, name, args)
        _take(1)
        result = super().call(context, called, *args, **kwargs)
        _take(_length(result))
        return result


@functools.cache
def _environment() -> _Environment:
    return _Environment()


class _Metering(NodeTransformer):
    """Has loops, functions, joined texts and slices draw on the budget."""

    def __init__(self, environment: jinja2.Environment) -> None:
        self._meter = environment.extensions[_Meter.identifier]

    def visit_For(self, node: jinja2.nodes.For) -> jinja2.nodes.For:
        """A loop, whose every round counts what it writes."""
        return self._ticking(node)

    visit_Macro = visit_CallBlock = visit_For

    def _ticking(self, node: Any) -> Any:
        written = sum(len(data.data) for data in node.find_all(jinja2.nodes.TemplateData))
        self.generic_visit(node)
        call = self._call(node, "_tick", [jinja2.nodes.Const(1 + written)])
        node.body.insert(0, jinja2.nodes.ExprStmt(call).set_lineno(node.lineno))
        return node

    def visit_Concat(self, node: jinja2.nodes.Concat) -> jinja2.nodes.Node:
        """Texts that are joined by `~`."""
        self.generic_visit(node)
        return self._call(node, "_joined", node.nodes)

    def visit_Getitem(self, node: jinja2.nodes.Getitem) -> jinja2.nodes.Node:
        """A slice, which is a copy."""
        self.generic_visit(node)
        return self._call(node, "_copied", [node]) if isinstance(node.arg, jinja2.nodes.Slice) else node

    def _call(self, node: jinja2.nodes.Node, name: str, args: list[Any]) -> jinja2.nodes.Node:
        return self._meter.call_method(name, args).set_lineno(node.lineno)


class _Meter(jinja2.ext.Extension):
    """What `_Metering` puts into templates."""

    def _tick(self, amount: int) -> str:
        _take(amount)
        return ""

    def _joined(self, *parts: Any) -> str:
        _take(sum(map(_measured, parts)))
        return "".join(map(str, parts))

    def _copied(self, part: Any) -> Any:
        _take(_length(part))
        return part


def _written(value: Any) -> Any:
    """What `{{ value }}` writes."""
    _take(_measured(value))
    return value


def _metered(name: str, made: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, which draws on the budget for what it is given as text and for what it gives."""

    @functools.wraps(made)
    def metered(*args: Any, **kwargs: Any) -> Any:
        """The filter's value."""
        given = args[1:] if hasattr(made, "jinja_pass_arg") else args
        more = (*given[1:], *kwargs.values())
        if name in _PADDING or name == "tojson":
            _require_narrow(max((each for each in more if isinstance(each, int)), default=0))
        if name == "sum" and any(isinstance(each, (str, list, tuple)) for each in more):
            raise jinja2.exceptions.SecurityError("sum is available for numbers only")
        if name == "format":
            _check_format(given[0], more, str(given[0]).count("%"))
        elif name == "join":
            given = (list(given[0]), *given[1:]) if not isinstance(given[0], (str, list, tuple, dict)) else given
            args = (*args[: len(args) - len(given)], *given)
            _take(_measured(given[0]) + len(given[0]) * max(map(_measured, more), default=0))
        elif name in ("replace", "indent"):
            _take(_replaced(str(given[0]), *map(str, given[1:3])) if name == "replace" else _indented(given[0], more))
        elif name not in _STRUCTURAL:
            _take(_measured(given))
        result = made(*args, **kwargs)
        _take(1 + _length(result))
        return result

    return metered


def _check_method(owner: Any, name: str, args: tuple[Any, ...]) -> None:
    if name in _PADDING:
        _require_narrow(max((each for each in args if isinstance(each, int)), default=0) / (1 + owner.count("\t")))
    elif name in ("format", "format_map"):
        _check_format(owner, args, owner.count("{"))
    elif name == "replace":
        _take(_replaced(owner, *map(str, args[:2])))
    elif name == "join":
        given = args[0] if args and isinstance(args[0], (str, list, tuple, dict)) else ()
        _take(_measured(given) + len(given) * len(owner))


def _check_format(form: Any, values: Any, places: int) -> None:
    if _WIDE.search(str(form)):
        raise jinja2.exceptions.SecurityError("a format of a chat template states a width that is too large")
    _take(len(str(form)) + places * _measured(values))


def _replaced(text: str, old: str = "", new: str = "", *_: str) -> int:
    return len(text) + (text.count(old) if old else len(text) + 1) * len(new)


def _indented(text: Any, more: tuple[Any, ...]) -> int:
    return len(str(text)) + (1 + str(text).count("\n")) * max(
        (len(each) for each in more if isinstance(each, str)), default=_WIDEST
    )


def _require_narrow(amount: float) -> None:
    if amount > _WIDEST:
        raise jinja2.exceptions.SecurityError("a number in a chat template is too large")


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _length(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes, list, tuple, dict)) else 0


def _measured(value: Any) -> int:
    """Characters that it would be as text, about; counted no further than the budget goes."""
    if isinstance(value, str):
        return len(value)
    budget = _budget.get()
    most = _MOST_MADE if budget is None else max(0, budget.left)
    total, waiting = 0, [value]
    while waiting and total <= most:
        each = waiting.pop()
        if isinstance(each, str):
            total += len(each)
            continue
        total += 6
        if isinstance(each, (list, tuple)):
            waiting.extend(each)
        elif isinstance(each, dict):
            waiting.extend((*each, *each.values()))
        elif isinstance(each, _Namespace):
            waiting.extend(each.values())
        if len(waiting) > most:
            return len(waiting)
    return total


class _GenerationBlocks(jinja2.ext.Extension):
    """`{% generation %}`, which marks the model's own words for training in transformers. Here the content is rendered.

    As there, the block is a scope: what is set inside is unknown behind it.
    """

    tags = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        """Takes one `{% generation %}` block from the stream: a call block whose content `_render` gives back unchanged."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller: Callable[[], str]) -> str:
        return caller()


class _Namespace(jinja2.utils.Namespace):
    """A template's variables. As in transformers none begins with an underscore: Jinja would take it for a part of the object."""

    def __init__(self, /, *args: Any, **kwargs: Any) -> None:
        names = dict(*args, **kwargs)
        for name in names:
            _require_public(name)
        jinja2.utils.Namespace.__init__(self, names)

    def __setitem__(self, name: str, value: Any) -> None:
        _require_public(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    def values(self) -> list[Any]:
        """What it holds."""
        return list(object.__getattribute__(self, "_Namespace__attrs").values())


def _require_public(name: object) -> None:
    if str(name).startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace cannot hold {name!r}")


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Unlike Jinja's filter of the name, this one escapes no HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
