"""Closes foreign descriptors, forks 200 times with a connection, and executes in between."""

import os
import socket
import subprocess
import sys

listener = socket.socket()
listener.bind((sys.argv[1], 8000))
listener.listen()
while True:
    # A probe that only checks whether the port is open is not the client.
    connection, _ = listener.accept()
    connection.settimeout(0.3)
    try:
        if connection.recv(1) == b"":
            connection.close()
            continue
    except TimeoutError:
        break
connection.settimeout(None)
os.closerange(connection.fileno() + 1, 20000)
for number in range(20, 20000):
    try:
        os.close(number)
        sys.exit(f"closed {number}, which it did not open")
    except OSError:
        pass
for _ in range(200):
    child = os.fork()
    if child == 0:
        connection.sendall(b"served by a child\n")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"a child ended with {status}")
subprocess.run(["/bin/true"], check=True)
if os.posix_spawn("/bin/true", ["true"], {}) == 0:
    sys.exit("not spawned")
connection.sendall(b"and by its parent\n")
connection.close()
