"""Reports to each peer its address, and calls it back. Arguments: address, port, port to call."""

import socket
import sys
import threading

listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
called = []


def serve(connection, peer):
    while line := connection.recv(4096):
        if line == b"call\n":
            called.append(socket.create_connection((peer[0], int(sys.argv[3]))))
        segment = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        connection.sendall(f"{peer[0]} {peer[1]} {segment}\n".encode())


while True:
    threading.Thread(target=serve, args=listener.accept(), daemon=True).start()
