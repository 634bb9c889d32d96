"""Requests to macOS: running undisturbed in the background, and the program's name in the menu bar.

Uses ctypes rather than PyObjC, which would add two compiled packages to every lock file for these few calls.
"""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import CDLL
from typing import Any

_IDLE_SYSTEM_SLEEP_DISABLED = 1 << 20
_USER_INITIATED = 0x00FFFFFF
"""Values of NSActivityOptions (NSProcessInfo.h). The second includes the first among its bits, and also prevents App Nap."""
_UTF8 = 0x08000100
"""kCFStringEncodingUTF8 (CFString.h)."""
_FRAMEWORKS = "/System/Library/Frameworks"
_log = logging.getLogger(__name__)


class Activity:
    """Keeps macOS from throttling this process while something runs (App Nap); does nothing on other systems.

    May be used on any thread, one at a time. If macOS refuses, nothing changes.

    Args:
        reason: shown by `pmset -g assertions` and Activity Monitor.
        lets_sleep: whether the machine may still fall asleep when idle.
    """

    def __init__(self, reason: str, *, lets_sleep: bool) -> None:
        self._reason = reason
        self._options = _USER_INITIATED & ~(_IDLE_SYSTEM_SLEEP_DISABLED if lets_sleep else 0)
        self._is_running = False
        self._token: int | None = None

    def set_running(self, running: bool) -> None:
        """Begins or ends the activity; does nothing if it is already in that state."""
        if running == self._is_running or not _is_mac():
            return
        self._is_running = running
        try:
            if running:
                self._token = _Runtime().begin(self._options, self._reason)
            elif self._token:
                _Runtime().end(self._token)
        except (OSError, AttributeError):
            _log.warning("macOS may slow down what runs in the background", exc_info=True)


@contextmanager
def activity(reason: str, *, lets_sleep: bool) -> Iterator[None]:
    """Holds an `Activity` while the context is open; several may be held at once."""
    running_activity = Activity(reason, lets_sleep=lets_sleep)
    running_activity.set_running(True)
    try:
        yield
    finally:
        running_activity.set_running(False)


def name_program(name: str) -> None:
    """Sets the name of the application's menu, where macOS would show that of Python.

    Call it before the QApplication exists: Cocoa and Qt read the name once, from CFBundleName of the main bundle.
    """
    if not _is_mac():
        return
    with suppress(OSError, AttributeError):
        core = CDLL(f"{_FRAMEWORKS}/CoreFoundation.framework/CoreFoundation")
        bundle = _call(core.CFBundleGetMainBundle)
        key, value = (
            _call(core.CFStringCreateWithCString, None, ctypes.c_char_p(words.encode()), ctypes.c_uint32(_UTF8))
            for words in ("CFBundleName", name)
        )
        for dictionary in (core.CFBundleGetInfoDictionary, core.CFBundleGetLocalInfoDictionary):
            if found := _call(dictionary, bundle):
                _call(core.CFDictionarySetValue, found, key, value)


def _is_mac() -> bool:
    return sys.platform == "darwin"


def _call(function: Any, *arguments: Any) -> int | None:
    """Calls a C function and returns a pointer, None for a null pointer. Arguments are pointers unless they are ctypes values."""
    values = [each if isinstance(each, ctypes._SimpleCData) else ctypes.c_void_p(each) for each in arguments]
    kind = ctypes.CFUNCTYPE(ctypes.c_void_p, *map(type, values))  # objc_msgSend needs the types of each message
    result: int | None = ctypes.cast(function, kind)(*values)
    return result


class _Runtime:
    """Begins and ends activities of NSProcessInfo, by messages that are sent through Objective-C's C interface."""

    def __init__(self) -> None:
        CDLL(f"{_FRAMEWORKS}/Foundation.framework/Foundation")
        self._objc = CDLL("/usr/lib/libobjc.A.dylib")

    def begin(self, options: int, reason: str) -> int | None:
        """Begins an activity and returns its token, None if macOS gives none."""
        pool = _call(self._objc.objc_autoreleasePoolPush)
        words = self._send(self._class("NSString"), "stringWithUTF8String:", ctypes.c_char_p(reason.encode()))
        token = self._send(self._process(), "beginActivityWithOptions:reason:", ctypes.c_uint64(options), words)
        self._send(token, "retain")  # it must outlive the pool
        _call(self._objc.objc_autoreleasePoolPop, pool)
        return token

    def end(self, token: int) -> None:
        """Ends the activity of a token."""
        self._send(self._process(), "endActivity:", token)
        self._send(token, "release")

    def _process(self) -> int | None:
        return self._send(self._class("NSProcessInfo"), "processInfo")

    def _class(self, name: str) -> int | None:
        return _call(self._objc.objc_getClass, ctypes.c_char_p(name.encode()))

    def _send(self, receiver: int | None, message: str, *arguments: Any) -> int | None:
        selector = _call(self._objc.sel_registerName, ctypes.c_char_p(message.encode()))
        return _call(self._objc.objc_msgSend, receiver, selector, *arguments)
