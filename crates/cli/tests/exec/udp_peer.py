"""Answers datagrams at two ports next to each other, of both families. Argument: the first port.

The first byte is the command: E returns the rest, O returns it from the other port, W returns
the sender's address, L sends as many bytes as the rest says, B that many datagrams of 1000 bytes.
"""

import select
import socket
import sys

port = int(sys.argv[1])
sockets = []
for family, at in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
    for p in (port, port + 1):
        s = socket.socket(family, socket.SOCK_DGRAM)
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.bind((at, p))
        sockets.append(s)
print("ready", flush=True)
while True:
    for s in select.select(sockets, [], [])[0]:
        data, sender = s.recvfrom(70000)
        how, rest = data[:1], data[1:]
        if how == b"E":
            s.sendto(rest, sender)
        elif how == b"O":
            sockets[sockets.index(s) ^ 1].sendto(rest, sender)
        elif how == b"W":
            s.sendto(repr(sender[:2]).encode(), sender)
        elif how == b"L":
            s.sendto(b"l" * int(rest), sender)
        elif how == b"B":
            for n in range(int(rest)):
                s.sendto(n.to_bytes(4, "big") + bytes(996), sender)
