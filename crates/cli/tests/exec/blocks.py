"""Waits for a connection's data in blocking calls and by select. Arguments: address, port."""

import ctypes
import hashlib
import os
import select
import signal
import socket
import struct
import sys


class Interrupted(Exception):
    pass


def check(what, got, expected):
    if got != expected:
        sys.exit(f"{what}: {got!r} instead of {expected!r}")


def interrupts(*_):
    raise Interrupted


listener = socket.socket()
listener.bind((sys.argv[1], int(sys.argv[2])))
listener.listen()
while True:
    c, _ = listener.accept()
    # A probe that only checks whether the port is open sends nothing.
    if c.recv(1) == b"a":
        break
    c.close()
c.sendall(b"a")
for n in range(1000):
    check("recv", c.recv(100), b"ping%d" % n)
    c.sendall(b"pong%d" % n)

# A timeout of the socket.
c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 20_000))
try:
    sys.exit(f"received {c.recv(1)!r}")
except BlockingIOError:
    pass
c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))

# Python's handlers end calls: Python repeats the call unless the handler raises an exception.
signal.signal(signal.SIGALRM, interrupts)
signal.setitimer(signal.ITIMER_REAL, 0.02)
try:
    sys.exit(f"received {c.recv(1)!r}")
except Interrupted:
    pass

# Handlers that do not end calls: Python notices the signal when the data is there.
alarms = []
for number in range(1, signal.NSIG):
    if signal.getsignal(number) not in (None, signal.SIG_DFL, signal.SIG_IGN):
        signal.siginterrupt(number, False)
signal.signal(signal.SIGALRM, lambda *_: alarms.append(1))
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.02)
c.sendall(b"late")
check("recv past a signal", c.recv(100), b"late")
check("handled", len(alarms), 1)

# Calls of select.
check("nothing yet", select.select([c], [], [], 0.02), ([], [], []))
check("writable", select.select([c], [c], []), ([], [c], []))
ours, theirs = os.pipe()
os.write(theirs, b"x")
check("another's", select.select([c, ours], [], []), ([ours], [], []))
for n in range(1000):
    c.sendall(b"more")
    check("readable", select.select([c], [], [c]), ([c], [], []))
    check("select", c.recv(100), b"more")
sets = (ctypes.c_ulong * 16)()
sets[c.fileno() // 64] = 1 << c.fileno() % 64
time = (ctypes.c_long * 2)(5, 0)
c.sendall(b"late")
ready = ctypes.CDLL(None).select(c.fileno() + 1, sets, None, None, time)
check("ready", (ready, sets[c.fileno() // 64]), (1, 1 << c.fileno() % 64))
check("time left", 0 < time[0] * 1_000_000 + time[1] < 5_000_000, True)
check("select", c.recv(100), b"late")
sets[0], time[0], time[1] = 1, -1, 0
check("no time", ctypes.CDLL(None).select(1, sets, None, None, time), -1)

# Whole, in pieces and at the end.
c.sendall(b"halves")
check("all of it", c.recv(8, socket.MSG_WAITALL), b"12345678")
c.sendall(b"lots")
digest, left, size = hashlib.sha256(), 8 << 20, 1
while left:
    part = c.recv(min(size, left))
    if not part:
        sys.exit(f"{left} bytes are missing")
    digest.update(part)
    left -= len(part)
    size = size * 7 % 99_991 + 1
c.sendall(digest.hexdigest().encode())
check("end", c.recv(1), b"")
print("done", flush=True)
