"""The process that a daemon starts as its store worker where the worker itself is forked.

It passes its pipes on, and ends as the worker ends; if it is killed, so is the worker.
"""

import json
import os
import resource
import signal
import socket
import sys

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for name in (signal.SIGINT, signal.SIGTERM):
    signal.signal(name, signal.SIG_IGN)
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
asked = {"argv": ["worker"], "env": dict(os.environ), "cwd": os.getcwd()}
socket.send_fds(link, [json.dumps(asked).encode() + b"\n"], [0, 1, 2])
nothing = os.open(os.devnull, os.O_RDWR)
for number in (0, 1):
    os.dup2(nothing, number)
lines = link.makefile()
lines.readline()  # its number
code = int(lines.readline() or -signal.SIGKILL)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
sys.exit(code)
