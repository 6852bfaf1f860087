"""Peer of leads.py. Arguments: address, port."""

import socket
import sys

to = (sys.argv[1], int(sys.argv[2]))


def ask(connection):
    connection.sendall(b"ping")
    got = b""
    while len(got) < 4:
        part = connection.recv(4)
        if not part:
            sys.exit("it ended")
        got += part


for _ in range(4):
    first, second = socket.create_connection(to), socket.create_connection(to)
    first.settimeout(20)
    second.settimeout(20)
    # The server has both before the first one asks often.
    first.sendall(b"ping")
    second.sendall(b"ping")
    for connection in first, second:
        got = b""
        while len(got) < 4:
            got += connection.recv(4)
    for _ in range(999):
        ask(first)
    for _ in range(100):
        ask(second)
    second.close()
    if first.recv(1) != b"":
        sys.exit("more came")
    first.close()
