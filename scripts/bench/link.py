"""A TCP link to a server that can be cut and mended: a network partition for one daemon."""

from __future__ import annotations

import contextlib
import socket
import threading


class Link:
    """Passes bytes between its own port and another one, until it is cut."""

    def __init__(self, target: int, *, keep_sent: bool = False) -> None:
        """`keep_sent`: keep what the server is sent."""
        self.target, self.port = target, 0  # 0: any free one, which it keeps
        self.sent = bytearray() if keep_sent else None
        self._listener: socket.socket | None = None
        self._open: list[socket.socket] = []
        self.mend()

    def mend(self) -> None:
        """Accept connections from now on."""
        self._listener = listener = socket.create_server(("127.0.0.1", self.port), backlog=50)
        self.port = listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        """End all connections, and refuse new ones."""
        listener, self._listener = self._listener, None
        for sock in [*([listener] if listener else []), *self._open]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        while self._listener is listener:
            try:
                near, _ = listener.accept()
            except OSError:
                return  # cut
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            if self._listener is not listener:  # cut meanwhile
                near.close()
                far.close()
                return
            self._open += [near, far]
            for source, sink, kept in ((near, far, self.sent), (far, near, None)):
                ends = (source, sink, kept)
                threading.Thread(target=_pass_on, args=ends, daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket, kept: bytearray | None) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            if kept is not None:
                kept += data
            sink.sendall(data)
    for sock in (source, sink):
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
