"""Reports on one machine for `engine.cluster.doctor`: `python -m engine.cluster.about TARGET [ADDRESS ...]`, a line of JSON.

The addresses are those at which this machine's ranks would listen.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.cluster.doctor import ABOUT
from engine.files import builtin, ollama
from engine.files.gguf_header import is_gguf, read_header
from engine.files.memory import MemoryNeed, available_memory, need_of_folder, need_of_gguf
from engine.files.model_folder import CONFIG, read_json, weights_of
from engine.machine.mlx_import import require_device
from engine.machine.provenance import versions
from engine.values.errors import DraftlightError


def about(target: str, addresses: Sequence[str]) -> dict[str, Any]:
    """Returns the versions, the free memory in bytes and which `addresses` (ip:port) are `taken`. For the model it adds the
    fingerprint (`found_as`), the `need` in bytes and the `config`, or the `problem` with it."""
    answer: dict[str, Any] = {
        "versions": versions(),
        "memory": available_memory(),
        "taken": [each for each in addresses if not _is_free(each)],
    }
    try:
        need, config, mark = _model(target)
        answer |= {"found_as": mark, "need": need.total, "config": config}
    except DraftlightError as error:
        answer["problem"] = str(error)
    return answer


def _is_free(address: str) -> bool:
    """Returns whether this machine can listen at ip:port."""
    ip, _, port = address.rpartition(":")
    try:
        with socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((ip, int(port)))
    except OSError:
        return False
    return True


def _model(target: str) -> tuple[MemoryNeed, dict[str, Any], str]:
    """Returns a model's memory need, its configuration, and its fingerprint. Downloads nothing and reads no weights."""
    path = builtin.builtin_path() if target == "builtin" else Path(target).expanduser()
    if not path.is_dir():
        path = ollama.weights_of(path)
        if not path.is_file() or not is_gguf(path):
            raise DraftlightError(f"There is no model at {path}.")
    require_device()
    from engine.cluster.sharding import fingerprint_of
    from engine.machine.host import computes_on_host
    from engine.models import gguf_model

    if path.is_dir():
        weights = weights_of(path)
        config = read_json(path / CONFIG)
        need = need_of_folder(path.name, weights.values(), config, computes_on_host())
        return need, config, fingerprint_of(path, tuple(weights)).hex()
    header = read_header(path)
    config = gguf_model.read_config(path, header)
    return need_of_gguf(path.name, header, config, computes_on_host()), config, fingerprint_of(path, (path,)).hex()


def main() -> None:
    """Answers for the target and the addresses in the arguments."""
    sys.stdout.write(f"{ABOUT}{json.dumps(about(sys.argv[1], sys.argv[2:]), default=str)}\n")


if __name__ == "__main__":
    main()
