"""A fake of macOS's Foundation library, as far as `engine.machine.macos` calls it; it records the calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

WORD = ctypes.c_uint64


class Library:
    """Stands for every library of the Mac; its functions are called through C, as there."""

    def __init__(self) -> None:
        self.names: list[str] = [""]
        self.opened: list[str] = []
        self.sent: list[tuple[str, str]] = []
        self.activities: dict[int, tuple[int, str]] = {}
        self.begun: list[tuple[int, str]] = []
        self.retained: dict[int, int] = {}
        self.pools = 0
        self.refuses = False
        self.information: dict[str, str] = {"CFBundleName": "Python"}
        self._keep: list[Any] = []
        self.objc_getClass = self._c(lambda name: self.number(_text(name)), 1)
        self.sel_registerName = self._c(lambda name: self.number(_text(name)), 1)
        self.objc_msgSend = self._c(self._message, 4)
        self.objc_autoreleasePoolPush = self._c(lambda: self._count(1), 0)
        self.objc_autoreleasePoolPop = self._c(lambda pool: self._count(-1), 1)
        self.CFBundleGetMainBundle = self._c(lambda: self.number("bundle"), 0)
        self.CFBundleGetInfoDictionary = self._c(lambda bundle: self.number("information"), 1)
        self.CFBundleGetLocalInfoDictionary = self._c(lambda bundle: 0, 1)
        self.CFStringCreateWithCString = self._c(lambda allocator, text, encoding: self.number(_text(text)), 3)
        self.CFDictionarySetValue = self._c(self._set, 3)

    def __call__(self, path: str) -> Library:
        self.opened.append(path)
        return self

    def number(self, name: str) -> int:
        """The address that stands for a class, a selector or a string."""
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def _c(self, function: Callable[..., int], arguments: int) -> Any:
        callback = ctypes.CFUNCTYPE(WORD, *[WORD] * arguments)(function)
        self._keep.append(callback)
        return callback

    def _count(self, change: int) -> int:
        self.pools += change
        return 1

    def _set(self, dictionary: int, key: int, value: int) -> int:
        assert self.names[dictionary] == "information"
        self.information[self.names[key]] = self.names[value]
        return 0

    def _message(self, receiver: int, selector: int, first: int, second: int) -> int:
        """`first` and `second` are whatever the registers hold where a message has fewer arguments."""
        if not receiver:
            return 0
        match self.names[selector]:
            case "stringWithUTF8String:":
                return self.number(_text(first))
            case "processInfo":
                assert self.names[receiver] == "NSProcessInfo"
                return self.number("process")
            case "beginActivityWithOptions:reason:":
                assert self.names[receiver] == "process"
                if self.refuses:
                    return 0
                token = 2**40 + len(self.begun)  # does not fit 32 bits, as addresses there do not
                self.activities[token] = (first, self.names[second])
                self.begun.append((first, self.names[second]))
                return token
            case "endActivity:":
                del self.activities[first]
                return 0
            case "retain":
                self.retained[receiver] = self.retained.get(receiver, 0) + 1
                return receiver
            case "release":
                self.retained[receiver] -= 1
                return 0
        raise AssertionError(self.names[selector])


def _text(address: int) -> str:
    return ctypes.string_at(address).decode()
