"""The library of others that the page uses: one file, unchanged, with its licences."""

from __future__ import annotations

import hashlib
import json

from memoryd.doors.page.assets import STATIC

VENDOR = STATIC / "vendor"


def test_the_library_is_the_published_one() -> None:
    """Its hash is that of the file in the package that vendor.json names."""
    named = json.loads((VENDOR / "vendor.json").read_text())
    for entry in named["files"]:
        found = hashlib.sha256((VENDOR / entry["file"]).read_bytes()).hexdigest()
        assert found == entry["sha256"], entry["file"]
        for licence in entry["licences"]:
            text = (VENDOR / licence["file"]).read_text()
            assert licence["contains"] in text
    kept = {entry["file"] for entry in named["files"]}
    kept |= {licence["file"] for entry in named["files"] for licence in entry["licences"]}
    assert {path.name for path in VENDOR.iterdir()} == kept | {"vendor.json"}
