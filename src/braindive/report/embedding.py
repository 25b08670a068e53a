"""Data inside an HTML page: small, and unable to break out of it."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from typing import Any

import numpy as np


def encode_array(array: Any, dtype: str) -> str:
    """Return an array as base64 of its little-endian bytes, in C order.

    Examples
    --------
    >>> from braindive.report.embedding import encode_array
    >>> encode_array([1, 2], "uint16")
    'AQACAA=='
    """
    little = np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<"))
    return base64.b64encode(little.tobytes()).decode("ascii")


def embed_json(content: Any) -> str:
    r"""Return JSON that may stand inside a script element, whatever the texts in it say.

    Examples
    --------
    >>> from braindive.report.embedding import embed_json
    >>> print(embed_json({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    # ASCII only, so U+2028 is escaped; without < no element can end or begin.
    text = json.dumps(plain(content), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def script_hash(source: str) -> str:
    """Return the entry that allows one inline script, and no other, in a content policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def plain(value: Any) -> Any:
    """Return a value as JSON knows it: what is missing or infinite is null, the rest is text."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    text = str(value)
    return None if text in ("NaT", "<NA>") else text
