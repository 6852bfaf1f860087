"""One thread waits for its connections by poll, epoll, select or in a read, and then leaves.
Another thread is still served. Arguments: address, port."""

import select
import socket
import sys
import threading

listener = socket.socket()
listener.bind((sys.argv[1], int(sys.argv[2])))
listener.listen()


def accept():
    while True:
        connection, _ = listener.accept()
        # A probe that only checks whether the port is open sends nothing.
        if connection.recv(1, socket.MSG_PEEK):
            return connection
        connection.close()


def echo(connection):
    while part := connection.recv(100):
        connection.sendall(part)
    connection.close()


def by_read(_connection):
    return lambda: None


def by_poll(connection):
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return lambda: poll.poll()


def by_epoll(connection):
    epoll = select.epoll()
    epoll.register(connection, select.EPOLLIN)
    return lambda: epoll.poll()


def by_select(connection):
    return lambda: select.select([connection], [], [])


for how in by_poll, by_epoll, by_select, by_read:
    first, second = accept(), accept()
    wait = how(first)
    other = threading.Thread(target=echo, args=[second])
    other.start()
    for _ in range(1000):
        wait()
        first.sendall(first.recv(100))
    # Only the other thread waits in the library now, in recv.
    print("leaves", flush=True)
    other.join()
    print("served", flush=True)
    first.close()
