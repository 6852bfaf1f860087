"""Sends a datagram to udp_peer.py until the address that it was sent to answers.

Arguments: address and port."""

import socket
import sys

to = (sys.argv[1], int(sys.argv[2]))
s = socket.socket(socket.AF_INET6 if ":" in to[0] else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.5)
for _ in range(20):
    s.sendto(b"Ehere", to)
    try:
        data, sender = s.recvfrom(100)
    except OSError:
        continue
    if (data, sender[:2]) == (b"here", to):
        sys.exit(0)
    sys.exit(f"{data!r} from {sender}")
sys.exit("no answer")
