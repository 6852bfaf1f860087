"""Client that gets an answer and keeps its connection. Arguments: address, port, path."""

import socket
import sys

connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
connection.sendall(f"GET {sys.argv[3]} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
while part := connection.recv(4096):
    print(part.decode(), flush=True)
