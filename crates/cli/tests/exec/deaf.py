"""Clients that request a large file and never read it."""

import signal
import socket
import sys

address, count = sys.argv[1], int(sys.argv[2])
connections = [socket.create_connection((address, 8000)) for _ in range(count)]
for connection in connections:
    connection.sendall(b"GET /file HTTP/1.0\r\n\r\n")
signal.pause()
