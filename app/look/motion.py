"""Whether the window may move things: the setting, or else what the desktop says."""

from __future__ import annotations

import sys
from functools import cache
from typing import Literal

from PySide6.QtCore import QDir, QSettings

Motion = Literal["system", "on", "off"]
MOTION_TITLES: dict[Motion, str] = {"system": "Follow the system", "on": "On", "off": "Off"}
MOTIONS: tuple[Motion, ...] = tuple(MOTION_TITLES)
STILL: tuple[tuple[str, str, object], ...] = (
    ("org.freedesktop.appearance", "reduced-motion", 1),
    ("org.gnome.desktop.interface", "enable-animations", False),
    ("org.kde.kdeglobals.KDE", "AnimationDurationFactor", "0"),
)
"""Settings of Linux desktops, as (namespace, key, the value that means no motion)."""
PORTAL_TIMEOUT_MS = 200
"""Longest wait for the desktop's portal, in milliseconds."""


def moves(motion: Motion) -> bool:
    """Returns whether things may move under this setting."""
    return motion == "on" or (motion == "system" and not system_reduces_motion())


@cache
def system_reduces_motion() -> bool:
    """Returns whether the desktop asks for less motion, as of the first call. Qt 6.11 has no hint for it."""
    if sys.platform == "darwin":
        file = QDir.home().filePath("Library/Preferences/com.apple.universalaccess.plist")
        return bool(QSettings(file, QSettings.Format.NativeFormat).value("reduceMotion"))
    return any(_portal_value(namespace, key) == still for namespace, key, still in STILL)


def _portal_value(namespace: str, key: str) -> object:
    """Returns a setting of the desktop from its portal (xdg-desktop-portal); None if there is none."""
    from PySide6.QtDBus import QDBus, QDBusConnection, QDBusMessage, QDBusVariant  # commands import this module, too

    bus = QDBusConnection.sessionBus()
    if not bus.isConnected():
        return None
    path, service = "/org/freedesktop/portal/desktop", "org.freedesktop.portal.Desktop"
    message = QDBusMessage.createMethodCall(service, path, "org.freedesktop.portal.Settings", "ReadOne")
    message.setArguments([namespace, key])
    reply = bus.call(message, QDBus.CallMode.Block, PORTAL_TIMEOUT_MS)
    values = reply.arguments() if reply.type() == QDBusMessage.MessageType.ReplyMessage else []
    value: object = values[0] if values else None
    return value.variant() if isinstance(value, QDBusVariant) else value
