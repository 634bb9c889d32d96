"""Chat templates: programs that come with a model. They see only the conversation, and their run time is limited.

They run in Jinja's sandbox with the tags and functions that transformers provides. Each has a budget of CPU time, and of
characters and elements that it may produce. Every loop iteration, call, filter and operator draws on the budget; the size of
potentially large results is computed before they are made. A template that loops or grows is therefore stopped wherever it
runs.
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

MAX_SECONDS = 0.5
"""CPU time per prompt, in seconds; templates in use take milliseconds."""
_MAX_PRODUCED, _PRODUCED_PER_CHARACTER = 200_000, 100
"""Characters and elements that a template may produce: a base amount, and an addition per character of the conversation."""
_MAX_TEMPLATE_LENGTH = 100_000
_MAX_WIDTH = 1000
"""Maximum columns and levels of padding or indentation, and maximum bits of an integer."""
_METHODS = frozenset((
    "strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "partition", "rpartition", "startswith", "endswith",
    "upper", "lower", "title", "capitalize", "casefold", "swapcase", "find", "rfind", "index", "rindex", "count", "isdigit",
    "isalpha", "isspace", "isalnum", "isupper", "islower", "isnumeric", "isdecimal", "istitle", "isascii", "isidentifier",
    "isprintable", "removeprefix", "removesuffix", "replace", "join", "format", "format_map", "zfill", "ljust", "rjust",
    "center", "expandtabs", "items", "keys", "values", "get", "copy", "is_integer", "bit_length",
))  # fmt: skip
"""Methods of Python's built-in types that templates may call."""
_PADDING = ("center", "ljust", "rjust", "zfill", "expandtabs", "indent", "truncate", "round")
_STRUCTURAL = frozenset((
    "length", "count", "first", "last", "default", "d", "list", "items", "selectattr", "rejectattr", "select", "reject",
    "map", "reverse", "attr", "min", "max",
))  # fmt: skip
"""Filters that do not convert their input to text."""
_REMOVED_FILTERS = ("batch", "slice", "wordwrap", "urlize", "xmlattr", "pprint", "filesizeformat", "random", "center")
_LARGE_WIDTH = re.compile(r"\d{4,}|\*|:[^{}]*\{")
"""Matches a format width that is large or given as an argument."""


class _Stopped(DraftlightError):
    """Raised when a template exceeds its budget."""


class _Budget:
    """Remaining budget of a template: produced characters and elements, and the CPU time at which it is stopped."""

    def __init__(self, characters: int) -> None:
        self.remaining = _MAX_PRODUCED + _PRODUCED_PER_CHARACTER * characters
        self.deadline = time.thread_time() + MAX_SECONDS

    def charge(self, amount: int) -> None:
        """Deducts `amount`. Raises _Stopped if the budget or the time is exceeded."""
        self.remaining -= amount
        if self.remaining < 0:
            raise _Stopped("The model's chat template was stopped because its text grows without end. Choose another model.")
        if time.thread_time() > self.deadline:
            raise _Stopped("The model's chat template was stopped because it does not come to an end. Choose another model.")


_budget: ContextVar[_Budget | None] = ContextVar("budget", default=None)


def _charge(amount: int) -> None:
    if (budget := _budget.get()) is not None:
        budget.charge(amount)


class ChatTemplate:
    """A chat template of a model: Jinja source that turns messages into a prompt. It is compiled when it is first rendered."""

    def __init__(self, source: str) -> None:
        self.source = source

    def render(self, variables: Mapping[str, Any]) -> str:
        """Returns the text. Raises DraftlightError if the template refuses the variables, fails, or is stopped."""
        token = _budget.set(_Budget(_text_length(variables.get("messages"))))
        try:
            if len(self.source) > _MAX_TEMPLATE_LENGTH:
                raise jinja2.TemplateError(f"it is {len(self.source):,} characters long")
            return self._template.render(**variables)
        except _Stopped:
            raise
        except Exception as error:  # a template is a program and can raise any exception
            reason = str(error)[:_MAX_WIDTH].encode("utf-8", "replace").decode()
            raise DraftlightError(f"The model's chat template does not accept this conversation: {reason}") from error
        finally:
            _budget.reset(token)

    def names(self) -> set[str]:
        """Returns the names of the variables that the template reads; none if it cannot be parsed, which rendering reports."""
        return {node.name for node in self._nodes if isinstance(node, jinja2.nodes.Name)}

    def keys(self) -> set[str]:
        """Returns the attributes that the template reads, and its string constants, because each may name an attribute."""
        attributes = {node.attr for node in self._nodes if isinstance(node, jinja2.nodes.Getattr)}
        return attributes | {
            node.value for node in self._nodes if isinstance(node, jinja2.nodes.Const) and isinstance(node.value, str)
        }

    @functools.cached_property
    def _nodes(self) -> list[jinja2.nodes.Node]:
        if len(self.source) > _MAX_TEMPLATE_LENGTH:
            return []
        try:
            kinds = (jinja2.nodes.Name, jinja2.nodes.Getattr, jinja2.nodes.Const)
            return list(_environment().parse(self.source).find_all(kinds))
        except Exception:  # Jinja's own errors, and Python's for deep nesting
            return []

    @functools.cached_property
    def _template(self) -> jinja2.Template:
        return _environment().from_string(self.source)


class _Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Jinja's sandbox, in which every operation that takes time or produces something draws on the budget."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_GenerationBlocks, _Meter, jinja2.ext.loopcontrols],
            optimized=False,  # no constant folding: it would run outside of a budget
            finalize=_charged_output,
        )
        self.filters["tojson"] = _to_json
        self.filters = {name: _metered_filter(name, each) for name, each in self.filters.items() if name not in _REMOVED_FILTERS}
        self.globals["namespace"] = _Namespace
        self.globals["raise_exception"] = _refuse
        self.globals["strftime_now"] = lambda form: datetime.now().strftime(str(form)[:_MAX_WIDTH])
        del self.globals["lipsum"]

    def _parse(self, source: str, name: str | None, filename: str | None) -> jinja2.nodes.Template:
        tree: jinja2.nodes.Template = _Metering(self).visit(super()._parse(source, name, filename))
        tree.set_environment(self)
        return tree

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Returns the operator's value. Raises an error if it would be too large."""
        if operator == "%" and isinstance(left, str):
            _check_format(left, right, left.count("%"))
        elif operator == "**" and not (isinstance(left, float) or isinstance(right, float)):
            _require_narrow(_bits(left) * abs(right if isinstance(right, int) else 0))
        elif operator == "*":
            texts, numbers = (left, right), [operand for operand in (left, right) if isinstance(operand, int)]
            count = max(numbers, default=0)
            _charge(max((len(operand) * count for operand in texts if isinstance(operand, (str, list, tuple))), default=0))
            _require_narrow(_bits(left) + _bits(right))
        elif operator == "+" and isinstance(left, (str, list, tuple)) and isinstance(right, (str, list, tuple)):
            _charge(len(left) + len(right))
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Returns the result of a call. Of Python's built-in types only the methods in `_METHODS` may be called."""
        method = getattr(called, "__wrapped__", called)
        owner, name = getattr(method, "__self__", None), getattr(method, "__name__", "")
        if isinstance(owner, _Meter):
            return called(*args)
        if isinstance(owner, (str, bytes, int, float, list, tuple, dict, set, frozenset)):
            if name not in _METHODS:
                raise jinja2.exceptions.SecurityError(f"{name} is not available to chat templates")
            _check_method(owner, name, args)
        _charge(1)
        result = super().call(context, called, *args, **kwargs)
        _charge(_length(result))
        return result


@functools.cache
def _environment() -> _Environment:
    return _Environment()


class _Metering(NodeTransformer):
    """Rewrites a template's syntax tree so that loops, macros, concatenations and slices draw on a budget,
    which limits the work and the size of the text."""

    def __init__(self, environment: jinja2.Environment) -> None:
        self._meter = environment.extensions[_Meter.identifier]

    def visit_For(self, node: jinja2.nodes.For) -> jinja2.nodes.For:
        """Makes every iteration of a loop draw the length of its literal text."""
        return self._with_tick(node)

    visit_Macro = visit_CallBlock = visit_For

    def _with_tick(self, node: Any) -> Any:
        written = sum(len(data.data) for data in node.find_all(jinja2.nodes.TemplateData))
        self.generic_visit(node)
        call = self._call(node, "_tick", [jinja2.nodes.Const(1 + written)])
        node.body.insert(0, jinja2.nodes.ExprStmt(call).set_lineno(node.lineno))
        return node

    def visit_Concat(self, node: jinja2.nodes.Concat) -> jinja2.nodes.Node:
        """Makes a concatenation (`~`) draw on the budget."""
        self.generic_visit(node)
        return self._call(node, "_joined", node.nodes)

    def visit_Getitem(self, node: jinja2.nodes.Getitem) -> jinja2.nodes.Node:
        """Makes a slice, which is a copy, draw on the budget."""
        self.generic_visit(node)
        return self._call(node, "_copied", [node]) if isinstance(node.arg, jinja2.nodes.Slice) else node

    def _call(self, node: jinja2.nodes.Node, name: str, args: list[Any]) -> jinja2.nodes.Node:
        return self._meter.call_method(name, args).set_lineno(node.lineno)


class _Meter(jinja2.ext.Extension):
    """Functions whose calls `_Metering` inserts into templates."""

    def _tick(self, amount: int) -> str:
        _charge(amount)
        return ""

    def _joined(self, *parts: Any) -> str:
        _charge(sum(map(_text_length, parts)))
        return "".join(map(str, parts))

    def _copied(self, part: Any) -> Any:
        _charge(_length(part))
        return part


def _charged_output(value: Any) -> Any:
    """Returns the value that `{{ value }}` writes, after drawing its length."""
    _charge(_text_length(value))
    return value


def _metered_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the filter wrapped so that it draws on the budget for its text input and for its result."""

    @functools.wraps(function)
    def metered(*args: Any, **kwargs: Any) -> Any:
        """Returns the filter's value."""
        inputs = args[1:] if hasattr(function, "jinja_pass_arg") else args
        others = (*inputs[1:], *kwargs.values())
        if name in _PADDING or name == "tojson":
            _require_narrow(max((argument for argument in others if isinstance(argument, int)), default=0))
        if name == "sum" and any(isinstance(argument, (str, list, tuple)) for argument in others):
            raise jinja2.exceptions.SecurityError("sum is available for numbers only")
        if name == "format":
            _check_format(inputs[0], others, str(inputs[0]).count("%"))
        elif name == "join":
            inputs = (list(inputs[0]), *inputs[1:]) if not isinstance(inputs[0], (str, list, tuple, dict)) else inputs
            args = (*args[: len(args) - len(inputs)], *inputs)
            _charge(_text_length(inputs[0]) + len(inputs[0]) * max(map(_text_length, others), default=0))
        elif name in ("replace", "indent"):
            _charge(
                _length_after_replace(str(inputs[0]), *map(str, inputs[1:3]))
                if name == "replace"
                else _length_after_indent(inputs[0], others)
            )
        elif name not in _STRUCTURAL:
            _charge(_text_length(inputs))
        result = function(*args, **kwargs)
        _charge(1 + _length(result))
        return result

    return metered


def _check_method(owner: Any, name: str, args: tuple[Any, ...]) -> None:
    if name in _PADDING:
        _require_narrow(max((argument for argument in args if isinstance(argument, int)), default=0) / (1 + owner.count("\t")))
    elif name in ("format", "format_map"):
        _check_format(owner, args, owner.count("{"))
    elif name == "replace":
        _charge(_length_after_replace(owner, *map(str, args[:2])))
    elif name == "join":
        items = args[0] if args and isinstance(args[0], (str, list, tuple, dict)) else ()
        _charge(_text_length(items) + len(items) * len(owner))


def _check_format(template: Any, values: Any, fields: int) -> None:
    if _LARGE_WIDTH.search(str(template)):
        raise jinja2.exceptions.SecurityError("a format of a chat template states a width that is too large")
    _charge(len(str(template)) + fields * _text_length(values))


def _length_after_replace(text: str, old: str = "", new: str = "", *_: str) -> int:
    return len(text) + (text.count(old) if old else len(text) + 1) * len(new)


def _length_after_indent(text: Any, arguments: tuple[Any, ...]) -> int:
    return len(str(text)) + (1 + str(text).count("\n")) * max(
        (len(argument) for argument in arguments if isinstance(argument, str)), default=_MAX_WIDTH
    )


def _require_narrow(amount: float) -> None:
    if amount > _MAX_WIDTH:
        raise jinja2.exceptions.SecurityError("a number in a chat template is too large")


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _length(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes, list, tuple, dict)) else 0


def _text_length(value: Any) -> int:
    """Returns the approximate length of the value as text; stops counting where the budget ends."""
    if isinstance(value, str):
        return len(value)
    budget = _budget.get()
    limit = _MAX_PRODUCED if budget is None else max(0, budget.remaining)
    total, pending = 0, [value]
    while pending and total <= limit:
        item = pending.pop()
        if isinstance(item, str):
            total += len(item)
            continue
        total += 6
        if isinstance(item, (list, tuple)):
            pending.extend(item)
        elif isinstance(item, dict):
            pending.extend((*item, *item.values()))
        elif isinstance(item, _Namespace):
            pending.extend(item.values())
        if len(pending) > limit:
            return len(pending)
    return total


class _GenerationBlocks(jinja2.ext.Extension):
    """The tag `{% generation %}`, which in transformers marks the model's own text for training. Here it only renders its
    content.

    The block is a scope, as in transformers: variables set inside are undefined after it.
    """

    tags = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        """Parses one `{% generation %}` block into a call block whose content `_render` returns unchanged."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller: Callable[[], str]) -> str:
        return caller()


class _Namespace(jinja2.utils.Namespace):
    """A template's namespace object. Names with a leading underscore are refused, as in transformers: Jinja treats them as
    internal."""

    def __init__(self, /, *args: Any, **kwargs: Any) -> None:
        names = dict(*args, **kwargs)
        for name in names:
            _require_public(name)
        jinja2.utils.Namespace.__init__(self, names)

    def __setitem__(self, name: str, value: Any) -> None:
        _require_public(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    def values(self) -> list[Any]:
        """Returns the values of its variables."""
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
    """Implements the filter `tojson` as transformers does: unlike Jinja's, it does not escape HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
