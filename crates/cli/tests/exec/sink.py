"""Receives a file's bytes on each connection while it returns them.

Arguments: address, port, file."""

import socket
import sys

with open(sys.argv[3], "rb") as file:
    expected = file.read()
listener = socket.socket()
listener.bind((sys.argv[1], int(sys.argv[2])))
listener.listen()
while True:
    connection, _ = listener.accept()
    got = bytearray()
    while part := connection.recv(1 << 16):
        got += part
        connection.sendall(part)
    connection.close()
    if got:
        print("same" if got == expected else "different", flush=True)
