"""Sets values in redis and gets them back, with several requests in flight.

Prints the bytes in each direction, and whether their hashes are equal. Arguments: address, port,
MiB."""

import hashlib
import random
import socket
import sys
import threading

address, port, mib = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
MIB = 1 << 20
# The server stores the last 64 of them.
KEYS = 64
connection = socket.create_connection((address, port), timeout=60)
answers = connection.makefile("rb", buffering=MIB)
# The values are random, and all differ.
pattern = random.Random(1).randbytes(2 * MIB)
sent, received = hashlib.sha256(), hashlib.sha256()
count = [0, 0]


def value(number):
    at = number * 7919 % MIB
    return number.to_bytes(8, "little") + pattern[at : at + MIB - 8]


def ask():
    for number in range(mib):
        data, key = value(number), b"k%d" % (number % KEYS)
        sent.update(data)
        count[0] += len(data)
        parts = (len(key), key, len(data), data)
        request = b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % parts
        connection.sendall(request + b"*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n" % (len(key), key))


asking = threading.Thread(target=ask, daemon=True)
asking.start()
for _ in range(mib):
    if (line := answers.readline()) != b"+OK\r\n":
        sys.exit(f"set: {line!r}")
    head = answers.readline()
    data = answers.read(int(head[1:]))
    if answers.read(2) != b"\r\n":
        sys.exit("no end")
    received.update(data)
    count[1] += len(data)
asking.join()
if sent.digest() != received.digest():
    sys.exit("different")
print(f"set {count[0]} got {count[1]} sha256 {received.hexdigest()}")
