"""Digests of policies, so that a report states which policies were compared."""

from __future__ import annotations

import hashlib
from pathlib import Path


def policy_digest(text: str) -> tuple[str, str]:
    """SHA-256 of the policy that a text names, and what was hashed: the file in the text if there is one, or the text.

    Of ``file.py:name`` and ``PPO:model.zip`` it is the file's; modules that a Python file imports are not included.
    """
    for part in (text, text.rpartition(":")[0], text.partition(":")[2]):
        if part and Path(part).is_file():
            return hashlib.sha256(Path(part).read_bytes()).hexdigest(), part
    return hashlib.sha256(text.encode()).hexdigest(), "the text"
