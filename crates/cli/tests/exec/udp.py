"""Prints a line for each property of UDP sockets, the same on loopback and on the dataplane.

Arguments: the own addresses and the peer's, IPv4 and IPv6, and the peer's first port."""

import array
import asyncio
import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import sys
import termios
import threading
import time

OWN, OWN6, PEER, PEER6 = sys.argv[1:5]
PORT = int(sys.argv[5])
IP_PKTINFO, IPV6_RECVPKTINFO, IPV6_PKTINFO, SO_MEMINFO = 8, 49, 50, 55
libc = ctypes.CDLL(None, use_errno=True)


def show(what, *values):
    text = " ".join(repr(value) for value in values)
    for name, address in (("OWN", OWN), ("OWN6", OWN6), ("PEER", PEER), ("PEER6", PEER6)):
        # On loopback one address is both: ports distinguish them.
        name = name.replace("OWN", "HOST").replace("PEER", "HOST")
        text = text.replace(f"'{address}'", name)
        text = text.replace(f"'::ffff:{address}'", "MAPPED-" + name)
    print(f"{what}: {text}", flush=True)


def error(call, *args):
    try:
        return call(*args)
    except OSError as e:
        return errno.errorcode[e.errno] if e.errno else type(e).__name__


def make(family=socket.AF_INET, at=None, *options):
    s = socket.socket(family, socket.SOCK_DGRAM)
    for option in options:
        s.setsockopt(*option)
    if at is not None:
        s.bind(at)
    s.settimeout(10)
    return s


def asked(s, data, to):
    s.sendto(data, to)
    return s.recvfrom(70000)


def names():
    for family, own, peer in ((socket.AF_INET, OWN, PEER), (socket.AF_INET6, OWN6, PEER6)):
        s = make(family)
        show("unbound", s.getsockname()[1], error(s.getpeername))
        s.bind((own, 0))
        name = s.getsockname()
        show("bound", name[0], name[1] > 0, error(s.bind, (own, 0)), error(s.getpeername))
        show("in use", error(make, family, (own, name[1])))
        for n in (0, 1, 512, 1400):
            data, sender = asked(s, b"E" + b"d" * n, (peer, PORT))
            show("echo", len(data), sender[:2])
        show("who", asked(s, b"W", (peer, PORT))[0] == repr((own, name[1])).encode())
        s.close()
        # A second time at once.
        s = make(family, (own, name[1]))
        show("again", asked(s, b"Eagain", (peer, PORT))[0])
        s.close()
    s = make(socket.AF_INET, (OWN, 7777))
    show("named", s.getsockname())


def unbound():
    for family, own, peer in ((socket.AF_INET, OWN, PEER), (socket.AF_INET6, OWN6, PEER6)):
        s = make(family)
        epoll = select.epoll()
        epoll.register(s, select.EPOLLIN)
        s.sendto(b"Ehere", (peer, PORT))
        show("reported", [e for _, e in epoll.poll(10)])
        show("first", s.recvfrom(100)[0], s.getsockname()[0], s.getsockname()[1] > 0)
        s = make(family)
        s.connect((peer, PORT))
        show("connected", s.getsockname()[0], s.getpeername()[:2])
        s.send(b"Ethere")
        show("answer", s.recv(100))
    # IPv4 by a socket of IPv6.
    s = make(socket.AF_INET6)
    show("mapped", asked(s, b"Emapped", ("::ffff:" + PEER, PORT))[1][0])


def errors():
    s = make(socket.AF_INET, (OWN, 0))
    show("too long", error(s.sendto, bytes(70000), (PEER, PORT)))
    show("no port", error(s.sendto, b"x", (PEER, 0)))
    show("no address", error(s.send, b"x"), error(os.write, s.fileno(), b"x"))
    s.setblocking(True)
    show("listen", error(s.listen), error(s.accept))
    show("short address", libc.sendto(s.fileno(), b"x", 1, 0, b"\2\0", 2),
         errno.errorcode[ctypes.get_errno()])
    show("out of band", error(s.sendto, b"x", socket.MSG_OOB, (PEER, PORT)))
    six = socket.inet_pton(socket.AF_INET6, PEER6)
    six = struct.pack("=HHI16sI", socket.AF_INET6, 1, 0, six, 0)
    show("other family", libc.sendto(s.fileno(), b"x", 1, 0, six, 28),
         errno.errorcode[ctypes.get_errno()])
    show("shutdown", error(s.shutdown, socket.SHUT_WR))


def receiving():
    s = make(socket.AF_INET, (OWN, 0))
    s.setblocking(False)
    show("nothing", error(s.recv, 10), error(s.recvfrom, 10, socket.MSG_PEEK))
    s.setblocking(True)
    show("nothing now", error(s.recv, 10, socket.MSG_DONTWAIT))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 50000))
    began = time.monotonic()
    show("in time", error(s.recv, 10), time.monotonic() - began >= 0.04)
    show("limit", struct.unpack("ll", s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16)))
    s.settimeout(10)
    size = array.array("i", [7])
    fcntl.ioctl(s, termios.FIONREAD, size)
    show("length of none", size[0])
    for data in (b"Efirst", b"Esecond!", b"E"):
        s.sendto(data, (PEER, PORT))
    for _ in range(3):
        show("ready", select.select([s], [], [], 10)[0] == [s])
        fcntl.ioctl(s, termios.FIONREAD, size)
        show("length", size[0])
        show("peeked", s.recv(3, socket.MSG_PEEK), s.recvfrom(100, socket.MSG_PEEK))
        buffer = bytearray(2)
        length = s.recv_into(buffer, 2, socket.MSG_PEEK | socket.MSG_TRUNC)
        show("real length", length, bytes(buffer))
        data, _, flags, sender = s.recvmsg(4, 0)
        show("cut", data, flags == socket.MSG_TRUNC, sender)
    s.sendto(b"Eabcdefghij", (PEER, PORT))
    parts = [bytearray(3), bytearray(0), bytearray(4), bytearray(9)]
    got, _, flags, _ = s.recvmsg_into(parts)
    show("parts", got, parts, flags)
    for n in (20, 1000):
        s.sendto(b"L%d" % n, (PEER, PORT))
        parts = [bytearray(n // 20) for _ in range(30)]
        show("many parts", s.recvmsg_into(parts)[0], b"".join(parts).count(b"l"))


def connected():
    s = make(socket.AF_INET, (OWN, 0))
    s.sendto(b"Ebefore", (PEER, PORT + 1))
    select.select([s], [], [], 10)
    s.connect((PEER, PORT))
    show("stored", s.recvfrom(100))
    s.send(b"Oother")
    s.send(b"Emine")
    show("from the peer alone", s.recvfrom(100))
    s.setblocking(True)
    os.write(s.fileno(), b"Ewritten")
    show("read", os.read(s.fileno(), 100))
    os.writev(s.fileno(), [b"E", b"", b"in ", b"parts"])
    parts = [bytearray(2), bytearray(100)]
    show("read in parts", os.readv(s.fileno(), parts), parts[0], parts[1][:6])
    s.sendmsg([b"E", b"message"])
    show("message", s.recvmsg(100))
    # A datagram to another peer is sent nevertheless; the answer is not for this socket.
    s.sendto(b"Eelsewhere", (PEER, PORT + 1))
    # After it.
    asked(make(socket.AF_INET, (OWN, 0)), b"E", (PEER, PORT + 1))
    s.send(b"Ehome")
    show("home", s.recvfrom(100))
    s.connect((PEER, PORT + 1))
    show("another peer", s.getpeername(), asked_of(s, b"Eanother"))
    show("left", libc.connect(s.fileno(), bytes(16), 16), error(s.getpeername), error(s.send, b"x"))
    show("free", asked(s, b"Ofree", (PEER, PORT)))
    s.connect((PEER, PORT))
    s.shutdown(socket.SHUT_WR)
    show("shut", error(s.send, b"x"))
    s.shutdown(socket.SHUT_RD)
    show("ended", s.recv(10), error(s.recv, 10, socket.MSG_DONTWAIT))
    s = make()
    s.connect((PEER, PORT))
    libc.connect(s.fileno(), bytes(16), 16)
    show("no name", s.getsockname())


def asked_of(s, data):
    s.send(data)
    return s.recv(100)


def information():
    for family, any_, own, peer, option, size in (
        (socket.AF_INET, "0.0.0.0", OWN, PEER, (socket.IPPROTO_IP, IP_PKTINFO), 12),
        (socket.AF_INET6, "::", OWN6, PEER6, (socket.IPPROTO_IPV6, IPV6_RECVPKTINFO), 20),
    ):
        s = make(family, (any_, 0), (*option, 1))
        show("option", s.getsockopt(*option))
        s.sendto(b"Einfo", (peer, PORT))
        data, control, flags, sender = s.recvmsg(100, 200)
        (level, kind, info), = control
        interface, local = of_info(family, info)
        show("info", data, flags, sender[:2], level, kind, interface > 0, local)
        # From the address that was asked.
        to = struct.pack("=i4s4s", 0, socket.inet_aton(own), bytes(4)) if size == 12 else (
            socket.inet_pton(family, own) + bytes(4))
        kind = IP_PKTINFO if size == 12 else IPV6_PKTINFO
        s.sendmsg([b"W"], [(level, kind, to)], 0, (peer, PORT))
        data, control, flags, _ = s.recvmsg(100, socket.CMSG_LEN(size) - 1)
        show("who", data == repr((own, s.getsockname()[1])).encode(), control != [],
             flags == socket.MSG_CTRUNC)
        s.setsockopt(*option, 0)
        s.sendto(b"Enone", (peer, PORT))
        show("no info", s.recvmsg(100, 200)[:3])
    s = make(socket.AF_INET6, ("::", 0), (socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1))
    s.sendto(b"Emapped", ("::ffff:" + PEER, PORT))
    data, control, _, sender = s.recvmsg(100, 200)
    show("mapped", data, sender[:2], [of_info(socket.AF_INET6, c[2])[1] for c in control])


def of_info(family, info):
    if family == socket.AF_INET:
        interface, _, local = struct.unpack("=i4s4s", info)
        return interface, socket.inet_ntoa(local)
    return struct.unpack("=i", info[16:])[0], socket.inet_ntop(family, info[:16])


def options():
    s = make(socket.AF_INET6, (OWN6, 0))
    t = make(socket.AF_INET, (OWN, 0))
    for s in (s, t):
        for name in ("SO_TYPE", "SO_DOMAIN", "SO_PROTOCOL", "SO_ACCEPTCONN", "SO_ERROR"):
            show(name, s.getsockopt(socket.SOL_SOCKET, getattr(socket, name)))
        for name, value in (
            ("SO_REUSEADDR", 1), ("SO_REUSEPORT", 1), ("SO_BROADCAST", 1), ("SO_RCVBUF", 50000),
            ("SO_SNDBUF", 60000), ("SO_PRIORITY", 3), ("SO_KEEPALIVE", 1), ("SO_DONTROUTE", 0),
        ):
            option = (socket.SOL_SOCKET, getattr(socket, name))
            show(name, error(s.setsockopt, *option, value), s.getsockopt(*option))
    for level, name, value in (
        (socket.IPPROTO_IP, socket.IP_TTL, 9), (socket.IPPROTO_IP, socket.IP_TOS, 16),
        (socket.IPPROTO_IP, 10, 2),
    ):
        show("option", level, name, error(t.setsockopt, level, name, value),
             t.getsockopt(level, name))
    show("unknown", error(t.setsockopt, socket.IPPROTO_IP, 1234, 1),
         error(t.getsockopt, socket.IPPROTO_IP, 1234))


def waiting():
    s = make(socket.AF_INET, (OWN, 0))
    r, w = os.pipe()
    poll = select.poll()
    poll.register(s, select.POLLIN | select.POLLOUT)
    poll.register(r, select.POLLIN)
    show("writable", [e for _, e in poll.poll(0)])
    poll.modify(s, select.POLLIN)
    show("none", poll.poll(0))
    os.write(w, b"x")
    show("pipe", [fd == r for fd, _ in poll.poll(1000)])
    s.sendto(b"Ea", (PEER, PORT))
    os.read(r, 1)
    show("datagram", [(fd == s.fileno(), e) for fd, e in poll.poll(10000)])
    show("select", select.select([s, r], [s], [], 0) == ([s], [s], []))
    s.recv(10)
    epoll = select.epoll()
    epoll.register(s, select.EPOLLIN | select.EPOLLET)
    epoll.register(r, select.EPOLLIN)
    show("edge: none", epoll.poll(0))
    for _ in range(2):
        s.sendto(b"Eb", (PEER, PORT))
        show("edge", [e for _, e in epoll.poll(10)], epoll.poll(0.05))
    os.write(w, b"x")
    show("edge, of two", [fd == r for fd, _ in epoll.poll(0.05)])
    os.read(r, 1)
    s.setblocking(True)
    show("left", s.recv(10), s.recv(10), error(s.recv, 10, socket.MSG_DONTWAIT))
    epoll.modify(s, select.EPOLLIN | select.EPOLLONESHOT)
    s.sendto(b"Ec", (PEER, PORT))
    show("once", [e for _, e in epoll.poll(10)], epoll.poll(0.05))
    epoll.modify(s, select.EPOLLIN | select.EPOLLONESHOT)
    show("once again", [e for _, e in epoll.poll(10)])
    s.recv(10)
    threading.Timer(0.1, lambda: s.sendto(b"Elater", (PEER, PORT))).start()
    show("woken", s.recvfrom(100))


def copies():
    s = make(socket.AF_INET, (OWN, 0))
    copy = s.dup()
    copy.settimeout(10)
    show("copy", asked(copy, b"Ecopy", (PEER, PORT)))
    name = s.getsockname()
    s.close()
    show("name", copy.getsockname() == name)
    show("copy alone", asked(copy, b"Ealone", (PEER, PORT)))
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        show("child", asked(copy, b"Echild", (PEER, PORT)), copy.getsockname() == name)
        show("child's name", asked(copy, b"W", (PEER, PORT))[0] == repr(name).encode())
        sys.stdout.flush()
        os._exit(3)
    show("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    show("parent", asked(copy, b"Eparent", (PEER, PORT)))
    copy.close()
    show("free again", make(socket.AF_INET, name).getsockname() == name)


def sharing():
    reuse = (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one = make(socket.AF_INET, (OWN, 0), reuse)
    one.connect((PEER, PORT))
    two = make(socket.AF_INET, one.getsockname(), reuse)
    one.send(b"Eone")
    two.sendto(b"Etwo", (PEER, PORT + 1))
    show("connected", one.recvfrom(100))
    show("the other", two.recvfrom(100))
    one.close()
    show("left", asked(two, b"Eleft", (PEER, PORT)))


def full():
    s = make(socket.AF_INET, (OWN, 0), (socket.SOL_SOCKET, socket.SO_RCVBUF, 8192))
    s.sendto(b"B100", (PEER, PORT))
    drops, since = 0, time.monotonic()
    # Until some were dropped and no more are.
    while not drops or time.monotonic() < since + 1:
        now = struct.unpack("9I", s.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))[8]
        if now != drops:
            drops, since = now, time.monotonic()
        assert time.monotonic() < since + 20, "nothing is dropped"
        time.sleep(0.02)
    s.setblocking(False)
    got = []
    while not isinstance(data := error(s.recv, 2000), str):
        got.append(int.from_bytes(data[:4], "big"))
    show("full", 0 < len(got) < 50, got == list(range(len(got))), drops + len(got), data)


class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_char_p), ("len", ctypes.c_size_t)]


class Message(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("namelen", ctypes.c_uint), ("parts", ctypes.POINTER(Part)),
        ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
        ("flags", ctypes.c_int), ("_", ctypes.c_int), ("got", ctypes.c_uint), ("__", ctypes.c_int),
    ]


def many():
    s = make(socket.AF_INET, (OWN, 0))
    s.setblocking(True)
    to = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(PORT), socket.inet_aton(PEER))
    texts = [b"Eone", b"Etwo!", b"Ethree"]
    parts = (Part * 3)(*(Part(t, len(t)) for t in texts))
    pointer = ctypes.POINTER(Part)
    place = lambda n: ctypes.byref(parts, n * ctypes.sizeof(Part))
    each = [ctypes.cast(place(n), pointer) for n in range(3)]
    out = (Message * 3)(*(Message(to, 16, each[n], 1) for n in range(3)))
    show("sent", libc.sendmmsg(s.fileno(), out, 3, 0), [m.got for m in out])
    room = [ctypes.create_string_buffer(10) for _ in range(4)]
    parts = (Part * 4)(*(Part(ctypes.cast(r, ctypes.c_char_p), 10) for r in room))
    each = [ctypes.cast(place(n), pointer) for n in range(4)]
    into = (Message * 4)(*(Message(None, 0, each[n], 1) for n in range(4)))
    show("got", libc.recvmmsg(s.fileno(), into, 3, 0, None), [m.got for m in into],
         sorted(r.value for r in room))
    s.sendto(b"Elast", (PEER, PORT))
    show("one", libc.recvmmsg(s.fileno(), into, 4, 0x10000, None), into[0].got)
    show("none", libc.recvmmsg(s.fileno(), into, 4, socket.MSG_DONTWAIT, None),
         errno.errorcode[ctypes.get_errno()])


async def asynchronous():
    class Asker(asyncio.DatagramProtocol):
        def __init__(self):
            self.got = asyncio.get_running_loop().create_future()

        def connection_made(self, transport):
            transport.sendto(b"Easync")

        def datagram_received(self, data, sender):
            self.got.set_result((data, sender))

    async def ask():
        loop = asyncio.get_running_loop()
        transport, asker = await loop.create_datagram_endpoint(Asker, remote_addr=(PEER, PORT))
        answer = await asyncio.wait_for(asker.got, 10)
        transport.close()
        return answer

    show("asynchronous", set(await asyncio.gather(*(ask() for _ in range(8)))))


def loopback():
    a = make(socket.AF_INET, ("127.0.0.1", 0))
    b = make(socket.AF_INET, ("0.0.0.0", 0))
    b.sendto(b"here", a.getsockname())
    show("loopback", *(a.recvfrom(100)[n] if n == 0 else 0 for n in (0,)))
    a.sendto(b"back", ("127.0.0.1", b.getsockname()[1]))
    show("loopback, both", b.recv(100))
    show("and the peer", asked(b, b"Eboth", (PEER, PORT)))
    b.connect(a.getsockname())
    b.send(b"connected")
    show("connected", a.recv(100), b.getpeername() == a.getsockname())


PARTS = (names, unbound, errors, receiving, connected, information, options, waiting, copies,
         sharing, full, many, loopback)
for part in PARTS:
    print(f"-- {part.__name__}", flush=True)
    part()
print("-- asynchronous", flush=True)
asyncio.run(asynchronous())
print("done", flush=True)
