"""Waits in every way for a dataplane that ends. Arguments: own address, a peer's."""

import errno
import select
import socket
import sys

own, peer = sys.argv[1], sys.argv[2]
listener = socket.socket()
listener.bind((own, 8001))
listener.listen()
knocks = socket.socket()
knocks.bind((own, 8000))
knocks.listen()
knocks.accept()
connection, _ = listener.accept()
print("connected", flush=True)
try:
    got = connection.recv(1)
    sys.exit(f"received {got!r}")
except ConnectionResetError:
    pass
poll = select.poll()
poll.register(connection, select.POLLIN)
events = poll.poll(10000)
if not events or not events[0][1] & (select.POLLHUP | select.POLLERR):
    sys.exit(f"polled {events}")
try:
    listener.accept()
    sys.exit("accepted")
except OSError as e:
    if e.errno != errno.ENETDOWN:
        sys.exit(f"accept: {e}")
s = socket.socket()
error = s.connect_ex((peer, 8000))
if error != errno.ENETDOWN:
    sys.exit(f"connect: {error}")
