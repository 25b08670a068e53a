"""NiiVue, the viewer in the page, taken from the installed nilearn."""

from __future__ import annotations

from functools import cache
from importlib.metadata import files
from pathlib import Path

from braindive.errors import ParameterError


@cache
def read_viewer() -> str:
    """Return NiiVue as a script that may stand inside an HTML page.

    Examples
    --------
    >>> from braindive.report.viewer import read_viewer
    >>> "</script" in read_viewer()
    False
    """
    # By name: the folder in which nilearn keeps it is nilearn's own affair.
    found = [file for file in files("nilearn") or () if file.name == "niivue.umd.js"]
    if not found:
        raise ParameterError(
            "the report draws the brain with NiiVue, which comes with nilearn 0.14 or newer; "
            "install it with: pip install --upgrade nilearn"
        )
    source = Path(found[0].locate()).read_text(encoding="utf-8")
    return source.replace("</script", "<\\/script").replace("<!--", "<\\!--")
