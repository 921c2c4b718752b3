"""Ten thousand lines that nobody would send on purpose, against a living daemon.

Lines of noise, broken JSON, JSON-RPC of every wrong shape, and calls of every tool with arguments
of every wrong kind. The daemon answers what can be answered, never shows a traceback, never hangs,
and is no bigger afterwards. The seed is printed; FUZZ_SEED=n repeats a run, FUZZ_CASES=n sets its
length.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from memoryd.doors.owner import ARGUMENTS
from memoryd.doors.schemas import TOOLS
from tests.daemons import INITIALIZE, Daemon, Lines

pytestmark = pytest.mark.slow

CASES = int(os.environ.get("FUZZ_CASES", "10000"))
SEED = int(os.environ.get("FUZZ_SEED", random.SystemRandom().randrange(1 << 32)))
BATCH = 25  # cases that share a connection
MOST_GROWTH = 64_000_000  # bytes: ten thousand calls may leave some memories behind
# What must never come over the wire: an exception of ours that nobody expected.
NEVER = (b"Traceback", b'File \\"', b"memoryd failed with", b"site-packages")

known = {tool.name: sorted(tool.input_schema["properties"]) for tool in TOOLS}
known |= {name: sorted(arguments) for name, arguments in ARGUMENTS.items()}

awkward_text = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["", " ", "\0", "\ud800", "a\u202eb", "2030-01-01", "0" * 20, "{}", "null"]),
    st.builds(lambda char, count: char * count, st.sampled_from("aä\n🎉"), st.integers(0, 3000)),
)
awkward_numbers = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([0, -1, 1 << 63, 10**400, 1e308, float("nan"), float("inf"), 1e-320]),
)
operators = st.sampled_from(["$and", "$or", "$not", "$gt", "$in", "$contains", "$exists", "$x"])
scalars = st.none() | st.booleans() | awkward_numbers | awkward_text
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(awkward_text | operators, inner, max_size=4)
    ),
    max_leaves=5,
)
nested = st.integers(1, 400).map(lambda depth: json.loads("[" * depth + "]" * depth))
written_memories = st.fixed_dictionaries(
    {
        "id": st.text("0123456789abcdef", min_size=20, max_size=20),
        "type": st.sampled_from(["fact", "context"]) | values,
        "content": awkward_text,
        "created_at": awkward_numbers,
        "expires_at": st.none() | awkward_numbers,
    },
    optional={"metadata": values, "name": awkward_text, "passages": values, "pinned": values},
)
plausible = {
    "query": st.sampled_from(["tea", "where is it?"]),
    "content": awkward_text,
    "memory_type": st.sampled_from(["fact", "conversation", "context", "event"]),
    "limit": st.integers(-1, 1001),
    "role": st.sampled_from(["user", "assistant", "robot"]),
    "metadata": st.dictionaries(awkward_text | operators, values, max_size=3),
    "order": st.sampled_from(["newest", "expiring", "least_sure"]),
    "clear": st.lists(st.sampled_from(["name", "expires_at"]), max_size=2),
    "name": st.sampled_from(["tea", "dock"]),
    "session_id": st.sampled_from(["s1", "s2"]),
    "memory_id": st.sampled_from(["tea", "dock", "0" * 20]),
    "memories": st.lists(values | written_memories, max_size=3),
    "dry_run": st.just(True),
}


@st.composite
def tool_calls(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from([*known, "dance"]))
    arguments: Any = {
        key: draw(plausible.get(key, values) | values)
        for key in draw(st.lists(st.sampled_from([*known.get(name, []), "junk"]), max_size=6))
    }
    arguments = draw(st.just(arguments) | st.just(arguments) | st.just(arguments) | values)
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


methods = st.sampled_from(
    "initialize ping tools/list tools/call resources/list resources/read prompts/get prompts/list "
    "server/discover logging/setLevel completion/complete notifications/initialized sampling/x "
    "notifications/memoryd/session notifications/memoryd/tools resources/templates/list "
    "resources/subscribe".split()
)
uris = st.builds(
    lambda base, rest: base + rest,
    st.sampled_from(["memory://memory/", "memory://session/", "memory://status", "file:///", ""]),
    awkward_text,
)
requests = st.one_of(
    tool_calls(),
    tool_calls(),
    st.fixed_dictionaries({"method": methods, "params": values | st.just(INITIALIZE)}),
    st.fixed_dictionaries(
        {"method": st.just("resources/read"), "params": st.fixed_dictionaries({"uri": uris})}
    ),
)
rpc = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "1.0", 2, None]),
        "id": values,
        "method": methods | values,
        "params": values | nested,
        "result": values,
        "error": values,
    },
)


def written(value: object) -> bytes:
    return json.dumps(value).encode()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good line with a piece cut out or noise put in."""
    line = written({"jsonrpc": "2.0", "id": 0, **draw(requests)})
    start, end = sorted((draw(st.integers(0, len(line))), draw(st.integers(0, len(line)))))
    return line[:start] + draw(st.binary(max_size=8)) + line[end:]


Case = dict[str, Any] | bytes  # a request, which gets an id and an answer, or noise
noise = st.one_of(st.binary(max_size=100), rpc.map(written), values.map(written), damaged())
cases = st.lists(requests | noise, min_size=BATCH, max_size=BATCH)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = Daemon(
        tmp_path_factory.mktemp("fuzz") / "data",
        MEMORYD_DOORS_MAX_LINE_BYTES="100000",
        MEMORYD_DOORS_MAX_CALLS_PER_SECOND="0",
        MEMORYD_DOORS_TOOLSETS="all",
    ).start()
    yield running
    assert running.stop() == 0, running.log.read_text()


def size(daemon: Daemon) -> tuple[int, int]:
    """Bytes in RAM and open descriptors of the daemon."""
    assert daemon.process is not None
    process = Path("/proc") / str(daemon.process.pid)
    pages = int((process / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(process / "fd"))


def exchange(daemon: Daemon, sent: list[Case]) -> None:
    """Send a batch on a connection of its own; every request of it must be answered."""
    data, wanted = [], {"last"}
    for number, case in enumerate([*sent, {"method": "ping"}]):
        id = f"case-{number}" if number < len(sent) else "last"
        if isinstance(case, bytes):
            data.append(case.replace(b"\n", b" "))
        else:
            data.append(written({"jsonrpc": "2.0", "id": id, **case}))
            wanted.add(id)
    with Lines(daemon.connect()) as lines:
        lines.open()
        sender = threading.Thread(target=lines.sock.sendall, args=(b"\n".join(data) + b"\n",))
        sender.start()
        while wanted:
            try:
                line = lines._file.readline()
            except TimeoutError:
                missing = {id: str(sent[int(id[5:])])[:500] for id in wanted - {"last"}}
                raise AssertionError(f"no answer to {wanted}: {missing}") from None
            assert line, "the daemon closed the connection"
            assert not [word for word in NEVER if word in line], line[:2000]
            answer = json.loads(line)
            assert answer["jsonrpc"] == "2.0"
            if isinstance(answer.get("id"), str):
                wanted.discard(answer["id"])
        sender.join()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_ten_thousand_bad_lines(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    """No crash, no hang, no traceback on the wire, no growth."""
    with capsys.disabled():
        sys.stdout.write(f"\nfuzz: {CASES} cases, FUZZ_SEED={SEED} ")
    sizes = []

    @seed(SEED)
    @settings(
        max_examples=max(CASES // BATCH, 1),
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def fuzz(sent: list[Case]) -> None:
        exchange(daemon, sent)
        sizes.append(size(daemon))

    fuzz()
    assert daemon.process is not None
    assert daemon.process.poll() is None
    assert daemon.status()["health"] == "ready"
    settled = sizes[len(sizes) // 5]  # caches are warm
    assert sizes[-1][0] - settled[0] < MOST_GROWTH
    assert sizes[-1][1] - settled[1] < 10
    assert "Traceback" not in daemon.log.read_text()
    with capsys.disabled():
        grown = (sizes[-1][0] - settled[0]) / 1e6
        sys.stdout.write(f"(grew by {grown:.1f} MB, {sizes[-1][1] - settled[1]} descriptors) ")
