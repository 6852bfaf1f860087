"""Peer of blocks.py. Arguments: address, port."""

import hashlib
import os
import socket
import sys
import time

c = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=30)
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def receive(count):
    got = b""
    while len(got) < count:
        part = c.recv(count - len(got))
        if not part:
            sys.exit(f"it ended after {got!r}")
        got += part
    return got


c.sendall(b"a")
receive(1)
for n in range(1000):
    c.sendall(b"ping%d" % n)
    receive(len(b"pong%d" % n))
receive(4)
time.sleep(0.1)
c.sendall(b"late")
for n in range(1000):
    receive(4)
    c.sendall(b"more")
receive(4)
time.sleep(0.1)
c.sendall(b"late")
receive(6)
c.sendall(b"1234")
time.sleep(0.02)
c.sendall(b"5678")
receive(4)
data = os.urandom(8 << 20)
c.sendall(data)
if receive(64).decode() != hashlib.sha256(data).hexdigest():
    sys.exit("other bytes")
c.close()
