"""A small Hugging Face Hub on the loopback: searches, descriptions, files, and faults on the way."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import re
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import huggingface_hub.hf_api
import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_right"


class Hub:
    """Serves repositories as the Hub does, with ranges.

    Attributes:
        files: content by repository and file. about: what a description of a repository says besides.
        sent: bytes of each file that went out. asked: the ranges that were asked for, with the file.
        breaks: for a file, after how many bytes each of its next connections breaks. gated: repositories that want `TOKEN`.
        damaged: files that arrive with another first byte. status: of every answer, if it is not 200.
        held: once so many bytes of a file have gone out, it waits until this is set.
    """

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.about: dict[str, dict[str, Any]] = {}
        self.sent: dict[str, int] = {}
        self.asked: list[tuple[str, str]] = []
        self.breaks: dict[str, list[int]] = {}
        self.gated: set[str] = set()
        self.damaged: set[str] = set()
        self.status = 200
        self.held: tuple[int, threading.Event] | None = None
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                hub.answer(self, body=False)

            def do_GET(self) -> None:
                hub.answer(self, body=True)

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def serve(self, name: str, folder: Path, **about: Any) -> None:
        """Puts the files of a folder on the Hub."""
        self.files[name] = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
        self.about[name] = about

    def answer(self, handler: Any, body: bool) -> None:
        path, _, query = handler.path.partition("?")
        if self.status != 200:
            return self._send(handler, b"", self.status)
        if path == "/api/models":
            words = urllib.parse.parse_qs(query).get("search", [""])[0].lower().split()
            return self._send(
                handler,
                json.dumps(
                    [self._described(name) for name in self.files if all(word in name.lower() for word in words)]
                ).encode(),
            )
        if (found := re.fullmatch(r"/api/models/([\w.-]+/[\w.-]+)", path)) and found[1] in self.files:
            return self._send(handler, json.dumps(self._described(found[1], True)).encode())
        if path == "/api/whoami-v2":
            right = handler.headers.get("Authorization") == f"Bearer {TOKEN}"
            return self._send(handler, b'{"name": "me", "auth": {}}' if right else b"{}", 200 if right else 401)
        found = re.fullmatch(r"/([\w.-]+/[\w.-]+)/resolve/\w+/([\w./-]+)", path)
        content = self.files.get(found[1], {}).get(found[2]) if found else None
        if content is None or found is None:
            return self._send(handler, b"", 404, **{"X-Error-Code": "EntryNotFound" if found else "RepoNotFound"})
        if found[1] in self.gated and handler.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._send(handler, b"", 401, **{"X-Error-Code": "GatedRepo"})
        self._send_file(handler, found[2], content, body)

    def _send_file(self, handler: Any, name: str, content: bytes, body: bool) -> None:
        if name in self.damaged:
            content = bytes([content[0] ^ 1]) + content[1:]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", handler.headers.get("Range", ""))
        self.asked.append((name, wanted[0] if wanted else ""))
        part = content[int(wanted[1]) : int(wanted[2] or len(content)) + 1] if wanted else content
        status = 206 if wanted else 200
        self._send(handler, b"", status, len(part), ETag=f'"{name}"', **{"X-Repo-Commit": COMMIT})
        if not body:
            return
        if self.breaks.get(name):
            part = part[: self.breaks[name].pop(0)]
        with contextlib.suppress(OSError):
            if self.held is not None and len(part) > self.held[0]:
                first, part = part[: self.held[0]], part[self.held[0] :]
                self._write(handler, name, first)
                self.held[1].wait(30)
            self._write(handler, name, part)

    def _write(self, handler: Any, name: str, part: bytes) -> None:
        self.sent[name] = self.sent.get(name, 0) + len(part)
        handler.wfile.write(part)
        handler.wfile.flush()

    def _send(self, handler: Any, content: bytes, status: int = 200, length: int | None = None, **headers: str) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content) if length is None else length))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)

    def _described(self, name: str, files: bool = False) -> dict[str, Any]:
        described = {"id": name, "sha": COMMIT, "tags": ["safetensors"], "gated": "manual" if name in self.gated else False}
        if files:
            described["siblings"] = [_sibling(file, content) for file, content in self.files[name].items()]
        return described | self.about.get(name, {})

    def close(self) -> None:
        if self.held is not None:
            self.held[1].set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _sibling(name: str, content: bytes) -> dict[str, Any]:
    """Large files are described by their SHA-256, small ones lie in git."""
    git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    described = {"rfilename": name, "size": len(content), "blobId": git}
    if name.endswith((".safetensors", ".gguf")):
        described["lfs"] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "pointerSize": 134}
    return described


@contextlib.contextmanager
def hub_on_the_loopback(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A Hub that huggingface_hub takes for the real one, with cache and token in a folder of the test's own."""
    monkeypatch.setattr("tqdm.tqdm.monitor_interval", 0)  # else its progress bars leave a thread
    running = Hub()
    changed: dict[str, Any] = {
        "ENDPOINT": running.address,
        "HF_HUB_CACHE": str(folder / "cache"),
        "HF_HUB_OFFLINE": False,
        "HUGGINGFACE_CO_URL_TEMPLATE": running.address + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_TOKEN_PATH": str(folder / "token"),
        "HF_STORED_TOKENS_PATH": str(folder / "tokens"),
    }
    for name, value in changed.items():
        monkeypatch.setattr(huggingface_hub.constants, name, value)
    monkeypatch.setattr(
        huggingface_hub.hf_api.api, "endpoint", running.address
    )  # of those calls that are not made on one of their own
    monkeypatch.setenv("HF_HUB_CACHE", changed["HF_HUB_CACHE"])
    for variable in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    try:
        yield running
    finally:
        running.close()
