"""Reads data that epoll reports in every way, some within the library and some bypassing it.

Arguments: address, port."""

import array
import fcntl
import hashlib
import os
import random
import select
import socket
import struct
import sys
import termios
import threading

listener = socket.socket()
listener.bind((sys.argv[1], int(sys.argv[2])))
listener.listen()
chance = random.Random(3)


def by_recv(c):
    return c.recv(1 << 16)


def by_bytes(c):
    return b"".join(c.recv(1) for _ in range(min(waiting(c), 20)))


def by_read(c):
    return os.read(c.fileno(), 1 << 16)


def by_parts(c):
    parts = [bytearray(1), bytearray(7), bytearray(1 << 16)]
    count = os.readv(c.fileno(), parts)
    return b"".join(parts)[:count]


def by_message(c):
    data, _, flags, _ = c.recvmsg(1 << 16, 100)
    return data


def by_peek(c):
    seen = c.recv(100, socket.MSG_PEEK)
    data = c.recv(1 << 16)
    if data[: len(seen)] != seen:
        sys.exit("a look saw something else")
    return data


def by_copy(c):
    copy = os.dup(c.fileno())
    try:
        return os.read(copy, 1 << 16)
    finally:
        os.close(copy)


def by_thread(c):
    got = []

    def read():
        try:
            got.append(c.recv(1 << 16))
        except BlockingIOError as e:
            got.append(e)

    other = threading.Thread(target=read)
    other.start()
    other.join()
    if isinstance(got[0], BlockingIOError):
        raise got[0]
    return got[0]


def by_child(c):
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(theirs, c.recv(4096))
        os._exit(0)
    os.close(theirs)
    data = os.read(ours, 1 << 16)
    os.waitpid(child, 0)
    os.close(ours)
    return data


def by_select(c):
    if select.select([c], [], [], 20)[0] != [c]:
        sys.exit("select does not see it")
    return c.recv(1 << 16)


def by_poll(c):
    poll = select.poll()
    poll.register(c, select.POLLIN)
    if not poll.poll(20_000):
        sys.exit("poll does not see it")
    return c.recv(1 << 16)


def not_at_all(_):
    return b""


def waiting(c):
    count = array.array("i", [0])
    fcntl.ioctl(c, termios.FIONREAD, count)
    return max(count[0], 1)


ways = [by_recv, by_read, by_parts, by_message, by_bytes, by_peek, by_copy, by_thread, by_select]
ways += [by_poll, by_child, not_at_all]
seen = hashlib.sha256()
reported = 0
# Each connection separately: the library does not report one with unread data again.
for number, way in enumerate(ways * 2):
    edge = number >= len(ways)
    while True:
        connection, _ = listener.accept()
        # A probe that only checks whether the port is open sends nothing.
        if connection.recv(1) == b"s":
            break
        connection.close()
    connection.setblocking(False)
    epoll = select.epoll()
    epoll.register(connection, select.EPOLLIN | (select.EPOLLET if edge else 0))
    connection.sendall(b"k")
    data, size = b"", None
    while True:
        events = epoll.poll(20)
        if not events or events[0][0] != connection.fileno():
            sys.exit(f"{way.__name__}: not reported")
        reported += 1
        # Sometimes the plain way, so that the next data is reported again.
        chosen = way if chance.random() < 0.5 else by_recv
        if edge and chosen is not_at_all:
            chosen = by_recv
        while True:
            try:
                part = chosen(connection)
            except BlockingIOError:
                break
            data += part
            # With edges everything has to be read.
            if not edge or not part:
                break
            chosen = by_recv
        if size is None and len(data) >= 4:
            size = struct.unpack("<I", data[:4])[0]
        if size == 0:
            break
        if size is not None and len(data) == 4 + size:
            seen.update(data)
            data, size = b"", None
            connection.sendall(b"k")
        elif size is not None and len(data) > 4 + size:
            sys.exit(f"{way.__name__}: {len(data)} bytes instead of {4 + size}")
    epoll.close()
    connection.setblocking(True)
    connection.sendall(seen.digest())
    connection.close()
print("reported", reported, flush=True)
