"""Daemons and store workers that start with their modules imported.

Importing takes most of the processor time of a start, and many tests start a daemon or a store
worker. So two servers, one for each kind, import once and then fork. A forked process is the same
code in a process of its own, but it was not started by `exec`: tests of how a process starts and
ends use real ones (`Daemon`, and any store without the fixture `forked_worker`). Linux only.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from memoryd.adapters.chroma import allocator, early_worker

SUPPORTED = sys.platform == "linux"
WORKER_PROXY = str(Path(__file__).with_name("worker_proxy.py"))
ROOT = str(Path(__file__).parents[1])
WORKER = "FORKED_WORKER"  # variable with the command that a forked daemon starts its worker with
REQUEST_BYTES = 1 << 20


class ForkedProcess:
    """What tests use of `subprocess.Popen`, for a process that a server forked."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self.pid = self._number()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._link], [], [], 0)[0]:
            self.returncode = self._number()
            self._link.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and not select.select([self._link], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("forked", timeout or 0.0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _number(self) -> int:
        digits = b""
        while not digits.endswith(b"\n"):
            got = self._link.recv(1)
            assert got, "the fork server ended"
            digits += got
        return int(digits)


class ForkServer:
    """A running server for one kind of process: `daemon` or `worker`."""

    def __init__(self, kind: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="memoryd-fork-")
        self.path = f"{self._folder.name}/{kind}"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.fork_server", kind, self.path],
            stdin=subprocess.PIPE,  # it ends when this does
            stdout=subprocess.PIPE,
            env=_environment(kind) | {"PYTHONPATH": ROOT},
            cwd=self._folder.name,  # importing chromadb reads ./.env
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def spawn(self, argv: Sequence[str], env: Mapping[str, str], stderr: int) -> ForkedProcess:
        """Fork a process that runs with these arguments and this environment."""
        link = socket.socket(socket.AF_UNIX)
        link.connect(self.path)
        asked = {"argv": list(argv), "env": dict(env), "cwd": os.getcwd()}
        socket.send_fds(link, [json.dumps(asked).encode() + b"\n"], [0, 1, stderr])
        return ForkedProcess(link)

    def close(self) -> None:
        self._process.communicate()
        self._folder.cleanup()


def _environment(kind: str) -> dict[str, str]:
    """The C library reads the variables of its allocator when a process starts, not when it forks,
    and a purge relies on those of the worker."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MEMORYD_", "CHROMA_"))}
    return kept | (allocator.ENVIRONMENT if kind == "worker" else {})


_servers: dict[str, ForkServer] = {}


def server(kind: str) -> ForkServer:
    """The server for this kind of process, started when it is first needed."""
    if kind not in _servers:
        _servers[kind] = ForkServer(kind)
    return _servers[kind]


def close_servers() -> None:
    while _servers:
        _servers.popitem()[1].close()


def worker_command() -> list[str]:
    """A command in place of `early_worker.WORKER`, which forks the worker."""
    return [sys.executable, "-I", "-S", WORKER_PROXY, server("worker").path]


# From here on: inside a server.


def _serve(path: str) -> bool:
    """Fork on request until the input ends. Returns true in a forked process, false at the end."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    ready = selectors.DefaultSelector()
    ready.register(0, selectors.EVENT_READ)
    ready.register(listener, selectors.EVENT_READ)
    children: dict[int, tuple[int, socket.socket]] = {}  # by descriptor of the process
    while True:
        for key, _ in ready.select():
            if key.fd == 0:
                for pid, _link in children.values():
                    os.kill(pid, signal.SIGKILL)
                return False
            if key.fileobj is listener:
                link = listener.accept()[0]
                if (pid := _fork(link)) == 0:
                    for child, (_, other) in children.items():
                        os.close(child)
                        other.close()
                    for mine in (listener, ready, link):
                        mine.close()
                    return True
                child = os.pidfd_open(pid)
                children[child] = pid, link
                ready.register(child, selectors.EVENT_READ)
                ready.register(link, selectors.EVENT_READ, child)
            elif key.fd in children:
                _tell_end(*children.pop(key.fd), ready)
                ready.unregister(key.fd)
                os.close(key.fd)
            elif key.data in children:  # nobody waits for it any more
                ready.unregister(key.fileobj)
                os.kill(children[key.data][0], signal.SIGKILL)


def _fork(link: socket.socket) -> int:
    """Fork as asked over the link; in the child, 0, with everything set up."""
    data, descriptors, _, _ = socket.recv_fds(link, REQUEST_BYTES, 3)
    while not data.endswith(b"\n"):
        data += link.recv(REQUEST_BYTES) or b"\n"  # cut off: the child fails, and says why
    pid = os.fork()
    if pid == 0:
        asked = json.loads(data)
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        os.environ.clear()
        os.environ.update(asked["env"])
        os.chdir(asked["cwd"])
        time.tzset()
        sys.argv = asked["argv"]
    else:
        _tell(link, pid)
    for descriptor in descriptors:
        os.close(descriptor)
    return pid


def _tell_end(pid: int, link: socket.socket, ready: selectors.BaseSelector) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if link in {key.fileobj for key in ready.get_map().values()}:
        ready.unregister(link)
    _tell(link, code)
    link.close()


def _tell(link: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # whoever asked may be gone
        link.sendall(b"%d\n" % number)


def _daemon() -> Callable[[], object]:
    import_module("memoryd.daemon")
    from memoryd.__main__ import main

    def run() -> int:
        early_worker.WORKER[:] = json.loads(os.environ.pop(WORKER))
        return main()

    return run


def _worker() -> Callable[[], object]:
    import_module("chromadb.api.rust")
    from memoryd.adapters.chroma.worker import main

    return main


if __name__ == "__main__":
    main = {"daemon": _daemon, "worker": _worker}[sys.argv[1]]()
    gc.freeze()  # shared with the forked processes
    if _serve(sys.argv[2]):
        sys.exit(main())  # type: ignore[arg-type]
