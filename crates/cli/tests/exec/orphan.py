"""A child waits for connections of a listener of its parent, which ends.

Arguments: address, folder."""

import errno
import os
import select
import socket
import sys
import time

own, folder = sys.argv[1], sys.argv[2]
listener = socket.socket()
listener.bind((own, 8000))
listener.listen()
parent = os.getpid()
if os.fork() > 0:
    print("forked", flush=True)
    while True:
        time.sleep(60)

while not os.path.exists(folder + "/wait"):
    time.sleep(0.01)
listener.setblocking(False)
poll = select.epoll()
poll.register(listener, select.EPOLLIN)
print("waiting", flush=True)
served = failed = 0
while served + failed == 0:
    for fd, _ in poll.poll():
        assert fd == listener.fileno()
        try:
            connection, _ = listener.accept()
            connection.sendall(b"hello")
            connection.close()
            served += 1
        except OSError as e:
            # The end of the dataplane leaves an error for the next accept, which is not the answer.
            if e.errno == errno.EINVAL:
                failed += 1
            elif e.errno not in (errno.ENETDOWN, errno.EAGAIN):
                sys.exit(f"accept: {e}")
# The parent has ended: a process closes its files before its children get another parent.
while os.getppid() == parent:
    time.sleep(0.001)
# The listener reports its end once.
events = [poll.poll(0.02) for _ in range(5)]
silent = not any(event & select.EPOLLHUP for all in events for _, event in all)
poll.unregister(listener)
print(f"served {served} failed {failed} silent {silent}", flush=True)
print("done", flush=True)
