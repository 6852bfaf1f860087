"""Client that checks what sockets report about themselves. Arguments: peer, own address."""

import asyncio
import errno
import select
import socket
import sys

peer, own = sys.argv[1], sys.argv[2]


def check(what, got, expected):
    if got != expected:
        sys.exit(f"{what}: {got!r} instead of {expected!r}")


# Blocking.
s = socket.create_connection((peer, 8000), timeout=10)
check("peer", s.getpeername(), (peer, 8000))
check("own address", s.getsockname()[0], own)
check("family", s.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN), socket.AF_INET)
check("error", s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
try:
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"bbr")
    sys.exit("what is not done was promised")
except OSError as e:
    check("refusal", e.errno, errno.ENOENT)
copy = s.dup()
s.close()
copy.sendall(b"GET / HTTP/1.0\r\n\r\n")
copy.shutdown(socket.SHUT_WR)
data = b""
while part := copy.recv(65536):
    data += part
check("answer", data[:12], b"HTTP/1.0 200")

# No server listens there, blocking and not.
for port in (9, 10):
    s = socket.socket()
    try:
        s.connect((peer, port))
        sys.exit("connected to nobody")
    except ConnectionRefusedError:
        pass
    s.close()
    s = socket.socket()
    s.setblocking(False)
    check("in progress", s.connect_ex((peer, port)), errno.EINPROGRESS)
    again = s.connect_ex((peer, port))
    if again not in (errno.EALREADY, errno.ECONNREFUSED):
        sys.exit(f"a second connect: {again}")
    if again == errno.EALREADY:
        poll = select.poll()
        poll.register(s, select.POLLOUT)
        check("one is ready", len(poll.poll(10000)), 1)
        check("refused", s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), errno.ECONNREFUSED)
        check("once", s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)
    s.close()

# The dataplane has no route to itself; the kernel serves loopback.
s = socket.socket()
check("to itself", s.connect_ex((own, 80)), errno.EHOSTUNREACH)
s = socket.socket()
check("loopback", s.connect_ex(("127.0.0.1", 1)), errno.ECONNREFUSED)


async def main():
    async def ask():
        reader, writer = await asyncio.open_connection(peer, 8000)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        got = await reader.read()
        writer.close()
        check("asynchronous answer", got[:12], b"HTTP/1.0 200")

    await asyncio.gather(*(ask() for _ in range(20)))
    try:
        await asyncio.open_connection(peer, 9)
        sys.exit("connected to nobody")
    except ConnectionRefusedError:
        pass


asyncio.run(main())
