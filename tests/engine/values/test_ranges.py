"""Ranges: how numbers are parsed, and that window, command line and engine allow the same values."""

from __future__ import annotations

import dataclasses

import pytest

from engine.types import RANGES, DecodingOptions, option_names
from engine.values.ranges import Range


@pytest.mark.parametrize("text", ["0", "0.8", "1.5", ".5", "5.", "1e-3", " 0.35 ", "0.30000000000000004"])
def test_a_decimal_reads_as_python_reads_it_with_a_point_or_a_comma(text: str) -> None:
    assert Range(0, 5).read(text) == Range(0, 5).read(text.replace(".", ",")) == float(text)


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9,007,199,254,740,991", 2**53 - 1), ("1,000", 1000)])
def test_a_whole_number_reads_with_thousands_apart(text: str, number: int) -> None:
    assert RANGES["seed"].read(text) == number


@pytest.mark.parametrize(
    "text", ["", "-4", "1e3", "1.0", "4 2", "٣", "½", "0x10", "1_000", "10,00", "nan", "inf", str(2**53), "9" * 10_000]
)
def test_what_is_no_whole_number_of_the_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a"):
        RANGES["seed"].read(text)


@pytest.mark.parametrize("text", ["", "-0.1", "5.01", "1.2.3", "1,2,3", "٣", "nan", "inf", "1e999", "e", "0 8"])
def test_what_is_no_number_of_the_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a"):
        RANGES["temperature"].read(text)


@pytest.mark.parametrize("name", [name for name in RANGES if name in option_names()])
def test_all_of_a_range_can_be_decoded_with(name: str) -> None:
    for number in (RANGES[name].lowest, RANGES[name].highest):
        assert getattr(DecodingOptions(**{name: number}), name) == number
    default = next(field.default for field in dataclasses.fields(DecodingOptions) if field.name == name)
    assert default in (None, *RANGES[name].keywords) or RANGES[name].holds(default)
