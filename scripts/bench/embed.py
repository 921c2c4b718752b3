"""Our encoder beside sentence-transformers: start, memory, latency, throughput, same vectors.

Each measurement has a process of its own, the two libraries take turns, and the table shows
medians. Run it after scripts/parity, which makes the environment with both libraries:
.venv-parity/bin/python -m scripts.bench.embed [--rounds 3] [--json]
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts.texts import varied

MODEL = "all-MiniLM-L6-v2"
SHORT = "The user prefers dark roast coffee in the morning."
REPEATS = 100

Encode = Callable[[list[str]], Any]
Both = tuple[Encode, Encode]  # for a query, for documents

# Name of the row, its unit, whether less is better, and the goal for the better ratio.
ROWS = (
    ("import and load", "s", True, 15.0),
    ("resident memory", "MB", True, 1 / 0.45),
    ("short query, p50", "ms", True, 4.0),
    ("short document, p50", "ms", True, None),  # one thread each, so that bulk loads run abreast
    ("512 short texts", "texts/s", False, 1.2),
    ("512 mixed texts", "texts/s", False, None),
)


def load_ours() -> Both:
    from memoryd.adapters.embed.onnx_encoder import OnnxEncoder
    from memoryd.adapters.embed.resolve import resolve
    from memoryd.places import cache_dir

    encoder = OnnxEncoder(resolve(MODEL, cache_dir() / "models"))
    return lambda texts: encoder.encode(texts, query=True), encoder.encode


def load_theirs() -> Both:
    from sentence_transformers import SentenceTransformer

    network = SentenceTransformer(sys.argv[2], device="cpu")
    encode = functools.partial(network.encode, show_progress_bar=False)
    return encode, encode


def measure(load: Callable[[], Both]) -> dict[str, Any]:
    """Every figure of one library, in this process."""
    started = time.perf_counter()
    query, encode = load()
    loaded = time.perf_counter() - started
    short, mixed = varied(512, 1), varied(512, 12)
    figures = {
        "import and load": loaded,
        "short query, p50": _p50(query),
        "short document, p50": _p50(encode),
        "512 short texts": 512 / _seconds(encode, short),
        "512 mixed texts": 512 / _seconds(encode, mixed),
        "resident memory": _resident(),
    }
    return {"figures": figures, "vectors": [vector.tolist() for vector in encode(mixed[:128])]}


def _p50(encode: Encode) -> float:
    encode([SHORT])  # the first call prepares what later ones use
    return statistics.median(_seconds(encode, [SHORT]) for _ in range(REPEATS)) * 1000


def _seconds(encode: Encode, texts: list[str]) -> float:
    started = time.perf_counter()
    encode(texts)
    return time.perf_counter() - started


def _resident() -> float:
    """Megabytes in use now; where the system does not say, the most there ever were."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def in_a_process(library: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "scripts.bench.embed", f"--measure={library}", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(rounds: int) -> list[dict[str, Any]]:
    """A row a figure: the medians of both, how much better ours is, and the goal."""
    from memoryd.adapters.embed.resolve import find_folder, resolve
    from memoryd.places import cache_dir

    models = cache_dir() / "models"
    resolve(MODEL, models, allow_download=True)
    folder = find_folder(MODEL, models, allow_download=True)
    results = [
        (in_a_process("ours", folder), in_a_process("theirs", folder)) for _ in range(rounds)
    ]
    rows = []
    for name, unit, less, goal in ROWS:
        ours, theirs = (statistics.median(r[n]["figures"][name] for r in results) for n in (0, 1))
        ratio = theirs / ours if less else ours / theirs
        rows.append(
            {
                "name": name,
                "unit": unit,
                "ours": ours,
                "theirs": theirs,
                "ratio": ratio,
                "goal": goal,
            }
        )
    cosine = min(_cosine(*(side["vectors"] for side in pair)) for pair in results)
    rows.append(
        {"name": "smallest cosine", "unit": "", "ours": cosine, "theirs": 1.0, "ratio": cosine}
        | {"goal": 0.9999}
    )
    return rows


def _cosine(ours: list[list[float]], theirs: list[list[float]]) -> float:
    pairs = zip(ours, theirs, strict=True)
    return min(sum(a * b for a, b in zip(one, two, strict=True)) for one, two in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description="Our encoder beside sentence-transformers.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = compare(options.rounds)
    missed = [row for row in rows if row["goal"] and row["ratio"] < row["goal"]]
    if options.json:
        print(json.dumps({"rows": rows, "missed": [row["name"] for row in missed]}, indent=2))
        return int(bool(missed))
    print(f"{'':20}{'ours':>12}{'sentence-tr.':>14}{'better by':>11}{'goal':>8}")
    for row in rows:
        goal = f"{row['goal']:.2f}" if row["goal"] else "-"
        digits = 6 if row["name"] == "smallest cosine" else 2
        figures = f"{row['ours']:>12.{digits}f}{row['theirs']:>14.2f}{row['ratio']:>11.{digits}f}"
        print(f"{row['name']:20}{figures}{goal:>8}  {row['unit']}")
    return int(bool(missed))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1].startswith("--measure="):
        loader = load_ours if sys.argv[1].endswith("=ours") else load_theirs
        print(json.dumps(measure(loader)))
        sys.exit()
    sys.exit(main())
