"""Sends a file in pieces by different calls, some of which bypass the library, and some by a child.

Arguments: address, port, file."""

import os
import random
import socket
import sys

with open(sys.argv[3], "rb") as file:
    data = file.read()
source = os.open(sys.argv[3], os.O_RDONLY)
listener = socket.socket()
listener.bind((sys.argv[1], int(sys.argv[2])))
listener.listen()
chance = random.Random(1)


def whole(fd, at, end, call):
    while at < end:
        at += call(fd, at, end)


def by_child(fd, at, end):
    child = os.fork()
    if child == 0:
        whole(fd, at, end, calls[0])
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"a child ended with {status}")
    return end - at


def by_copy(fd, at, end):
    copy = os.dup(fd)
    try:
        return os.write(copy, data[at:end])
    finally:
        os.close(copy)


def by_stdio(fd, at, end):
    with os.fdopen(os.dup(fd), "wb", closefd=True) as out:
        out.write(data[at:end])
    return end - at


calls = [
    lambda fd, at, end: os.write(fd, data[at:end]),
    lambda fd, at, end: os.writev(fd, [data[at : at + 1], data[at + 1 : end]]),
    lambda fd, at, end: os.sendfile(fd, source, at, end - at),
    lambda fd, at, end: connection.send(data[at:end]),
    lambda fd, at, end: connection.sendmsg([data[at:end]]),
    by_copy,
    by_stdio,
    by_child,
]
while True:
    connection, _ = listener.accept()
    # A probe that only checks whether the port is open sends nothing.
    if connection.recv(1) == b"":
        connection.close()
        continue
    at = 0
    while at < len(data):
        end = min(at + chance.randint(1, 20000), len(data))
        weights = [30] * (len(calls) - 1) + [1]
        whole(connection.fileno(), at, end, chance.choices(calls, weights)[0])
        at = end
    connection.shutdown(socket.SHUT_WR)
    try:
        connection.send(b"too late")
        sys.exit("it was sent after the end")
    except BrokenPipeError:
        pass
    connection.close()
    break
