"""Peer of epoll_ways.py: bursts, each of which is answered before the next.

Arguments: address, port, connections, bursts of each."""

import hashlib
import random
import socket
import struct
import sys

to, connections, bursts = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3]), int(sys.argv[4])
chance = random.Random(4)
sent = hashlib.sha256()


def expect(connection, what):
    got = b""
    while len(got) < len(what):
        part = connection.recv(len(what) - len(got))
        if not part:
            sys.exit("it ended")
        got += part
    if got != what:
        sys.exit(f"{got!r} instead of {what!r}")


for _ in range(connections):
    connection = socket.create_connection(to)
    connection.settimeout(30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(b"s")
    expect(connection, b"k")
    for _ in range(bursts):
        data = chance.randbytes(chance.choice([1, 10, 100, 1000, 4000]))
        burst = struct.pack("<I", len(data)) + data
        sent.update(burst)
        connection.sendall(burst)
        expect(connection, b"k")
    connection.sendall(struct.pack("<I", 0))
    expect(connection, sent.digest())
    if connection.recv(1):
        sys.exit("more came")
