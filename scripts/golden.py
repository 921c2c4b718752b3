"""Writes tests/data/golden_minilm.json: what sentence-transformers makes of the golden texts.

Needs the extra; run it as: python -m scripts.golden FOLDER_OF_THE_MODEL
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from scripts.texts import GOLDEN

TARGET = Path(__file__).parent.parent / "tests" / "data" / "golden_minilm.json"
DIGITS = 7


def main(folder: str) -> None:
    library: Any = importlib.import_module("sentence_transformers")
    network = library.SentenceTransformer(folder, device="cpu")
    # One at a time: no padding, nothing that another implementation could do differently.
    vectors = [network.encode([text], show_progress_bar=False)[0] for text in GOLDEN]
    lines = [
        json.dumps({"text": text, "vector": [round(float(x), DIGITS) for x in vector]})
        for text, vector in zip(GOLDEN, vectors, strict=True)
    ]
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(lines)} vectors of sentence-transformers {library.__version__} in {TARGET}")


if __name__ == "__main__":
    main(sys.argv[1])
