"""Checks the reports of a socket on the dataplane, and the effects of its options.

Arguments: peer, own address, a file that exists once the peer is silent."""

import errno
import os
import select
import socket
import struct
import sys
import time

peer, own, silent = sys.argv[1:4]
TCP, SOL = socket.IPPROTO_TCP, socket.SOL_SOCKET
ESTABLISHED, SYN_SENT, CLOSED, LISTEN = 1, 2, 7, 10
# Size of struct tcp_info in Linux 6.18, bytes.
WHOLE = 280


def check(what, got, expected):
    if got != expected:
        sys.exit(f"{what}: {got!r} instead of {expected!r}")


def at_least(what, got, least):
    if got < least:
        sys.exit(f"{what}: {got!r}, less than {least!r}")


def info(s):
    raw = s.getsockopt(TCP, socket.TCP_INFO, 400)
    check("length", len(raw), WHOLE)
    words = struct.unpack_from("24I", raw, 8)
    return {
        "state": raw[0],
        "retransmits": raw[2],
        "backoff": raw[4],
        "rto": words[0],
        "snd_mss": words[2],
        "unacked": words[4],
        "rtt": words[15],
        "rttvar": words[16],
        "snd_ssthresh": words[17],
        "snd_cwnd": words[18],
        "total_retrans": words[23],
        "bytes_acked": struct.unpack_from("Q", raw, 8 + 96 + 16)[0],
        "bytes_received": struct.unpack_from("Q", raw, 8 + 96 + 24)[0],
    }


def ask(s, what):
    s.sendall(what)
    got = b""
    while not got.endswith(b"\n"):
        part = s.recv(4096)
        if not part:
            sys.exit("it ended")
        got += part
    return got, got.split()


def connect(**options):
    s = socket.socket()
    for name, value in options.items():
        level = SOL if name.startswith("SO_") else TCP
        s.setsockopt(level, getattr(socket, name), value)
    s.connect((peer, 8000))
    return s


# Addresses and the report of a connection.
s = connect()
answer, (host, port, _) = ask(s, b"who\n")
check("as the peer sees it", s.getsockname(), (host.decode(), int(port)))
check("own address", host.decode(), own)
got = info(s)
check("state", got["state"], ESTABLISHED)
check("acknowledged", got["bytes_acked"], len(b"who\n"))
check("received", got["bytes_received"], len(answer))
check("under way", got["unacked"], 0)
check("sent again", got["total_retrans"], 0)
check("no loss", got["snd_ssthresh"], 0x7FFFFFFF)
for name in "rtt", "rttvar", "snd_cwnd", "snd_mss":
    at_least(name, got[name], 1)
at_least("timeout in microseconds", got["rto"], 200_000)
check("segments", s.getsockopt(TCP, socket.TCP_MAXSEG), got["snd_mss"])
check("a part", len(s.getsockopt(TCP, socket.TCP_INFO, 104)), 104)
check("its part", s.getsockopt(TCP, socket.TCP_INFO, 1), bytes([ESTABLISHED]))
for name, value in {
    "SO_ERROR": 0,
    "SO_TYPE": socket.SOCK_STREAM,
    "SO_PROTOCOL": TCP,
    "SO_DOMAIN": socket.AF_INET,
    "SO_ACCEPTCONN": 0,
    "SO_KEEPALIVE": 0,
}.items():
    check(name, s.getsockopt(SOL, getattr(socket, name)), value)
for name, value in {
    "TCP_NODELAY": 0,
    "TCP_KEEPIDLE": 7200,
    "TCP_KEEPINTVL": 75,
    "TCP_KEEPCNT": 9,
    "TCP_USER_TIMEOUT": 0,
}.items():
    check(name, s.getsockopt(TCP, getattr(socket, name)), value)
check("algorithm", s.getsockopt(TCP, socket.TCP_CONGESTION, 16), b"cubic".ljust(16, b"\0"))
s.setsockopt(TCP, socket.TCP_CONGESTION, b"cubic")
for name, value, error in [
    ("TCP_KEEPIDLE", 0, errno.EINVAL),
    ("TCP_KEEPCNT", 128, errno.EINVAL),
    ("TCP_USER_TIMEOUT", -1, errno.EINVAL),
    ("TCP_MAXSEG", 1, errno.EINVAL),
    ("TCP_CONGESTION", b"bbr", errno.ENOENT),
]:
    try:
        s.setsockopt(TCP, getattr(socket, name), value)
        sys.exit(f"{name}: taken")
    except OSError as e:
        check(name, e.errno, error)
for name in "SO_SNDBUF", "SO_RCVBUF":
    s.setsockopt(SOL, getattr(socket, name), 10_000)
    check(name, s.getsockopt(SOL, getattr(socket, name)), 20_000)

# Options that are set before connecting stay in force, and the peer gets them.
small = connect(TCP_MAXSEG=500, TCP_KEEPIDLE=11, SO_KEEPALIVE=1, TCP_NODELAY=1, SO_SNDBUF=9000)
_, (_, _, segment) = ask(small, b"who\n")
at_least("the peer's segments", 500, int(segment))
at_least("ours", 500, info(small)["snd_mss"])
check("option", small.getsockopt(TCP, socket.TCP_KEEPIDLE), 11)
check("option", small.getsockopt(SOL, socket.SO_KEEPALIVE), 1)
check("option", small.getsockopt(TCP, socket.TCP_NODELAY), 1)
check("option", small.getsockopt(SOL, socket.SO_SNDBUF), 18_000)

# The connections of a listener inherit its options.
listener = socket.socket()
listener.setsockopt(TCP, socket.TCP_KEEPIDLE, 21)
listener.bind((own, 8001))
listener.listen()
listener.setsockopt(SOL, socket.SO_KEEPALIVE, 1)
listener.setsockopt(SOL, socket.SO_RCVBUF, 12_000)
check("it listens", listener.getsockopt(SOL, socket.SO_ACCEPTCONN), 1)
check("it listens", info(listener)["state"], LISTEN)
ask(s, b"call\n")
accepted, _ = listener.accept()
check("inherited", accepted.getsockopt(TCP, socket.TCP_KEEPIDLE), 21)
check("inherited", accepted.getsockopt(SOL, socket.SO_KEEPALIVE), 1)
check("inherited", accepted.getsockopt(SOL, socket.SO_RCVBUF), 24_000)
check("accepted", info(accepted)["state"], ESTABLISHED)
check("its port", accepted.getsockname(), (own, 8001))

# Silence ends connections with keepalive or a user timeout, and no others.
probed = connect(TCP_KEEPIDLE=1, TCP_KEEPINTVL=1, TCP_KEEPCNT=2, SO_KEEPALIVE=1)
later = connect()
waiting = connect(TCP_USER_TIMEOUT=1000)
for each in probed, later, waiting:
    ask(each, b"who\n")
later.setsockopt(TCP, socket.TCP_KEEPIDLE, 1)
later.setsockopt(TCP, socket.TCP_KEEPINTVL, 1)
later.setsockopt(TCP, socket.TCP_KEEPCNT, 1)
later.setsockopt(SOL, socket.SO_KEEPALIVE, 1)
print("silence", flush=True)
while not os.path.exists(silent):
    time.sleep(0.05)
waiting.sendall(b"x" * 3000)
s.sendall(b"y" * 3000)
for what, each in ("probed", probed), ("later", later), ("waiting", waiting):
    poll = select.poll()
    poll.register(each, select.POLLIN)
    check(what, len(poll.poll(60_000)), 1)
    check(what, each.getsockopt(SOL, socket.SO_ERROR), errno.ETIMEDOUT)
    check(what, info(each)["state"], CLOSED)
got = info(s)
check("still there", got["state"], ESTABLISHED)
check("still there", s.getsockopt(SOL, socket.SO_ERROR), 0)
at_least("under way", got["unacked"], 1)
at_least("sent again", got["total_retrans"], 1)
at_least("timeouts", got["retransmits"], 1)
at_least("doubled", got["backoff"], 1)

# Without an answer: the state during the handshake.
new = socket.socket()
new.setblocking(False)
check("begun", new.connect_ex((peer, 8000)), errno.EINPROGRESS)
check("state", info(new)["state"], SYN_SENT)
print("done", flush=True)
os._exit(0)
