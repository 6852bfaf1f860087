/*
 * Waits for data by each call that waits with a time in nanoseconds, once with time to spare and once
 * without. Arguments: address, port. Built with _FORTIFY_SOURCE, so that ppoll is __ppoll_chk where
 * the compiler does not know whether the count fits into the array.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void check(const char *what, long got, long expected)
{
	if (got != expected) {
		fprintf(stderr, "%s: %ld instead of %ld\n", what, got, expected);
		exit(1);
	}
}

static void take(int fd)
{
	char byte;

	check("recv", recv(fd, &byte, 1, 0), 1);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	const struct timespec moment = { .tv_nsec = 1000000 }, long_time = { .tv_sec = 60 };
	const struct timespec none = { .tv_nsec = 1000000000 };
	struct epoll_event event = { .events = EPOLLIN };
	volatile nfds_t one = 1;
	struct pollfd fds[2];
	int listener, fd, set;
	char byte;

	if (argc != 3)
		return 2;
	address.sin_port = htons((uint16_t)atoi(argv[2]));
	inet_pton(AF_INET, argv[1], &address.sin_addr);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 8))
		fail("listen");
	/* Whoever only looks whether somebody listens sends nothing. */
	for (;;) {
		fd = accept(listener, NULL, NULL);
		if (fd < 0)
			fail("accept");
		if (recv(fd, &byte, 1, MSG_PEEK) == 1)
			break;
		close(fd);
	}
	take(fd);
	check("send", send(fd, "x", 1, 0), 1);
	fds[0] = (struct pollfd){ .fd = fd, .events = POLLIN };
	set = epoll_create1(0);
	event.data.fd = fd;
	epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);

	check("nothing yet", ppoll(fds, one, &moment, NULL), 0);
	check("nothing yet", epoll_pwait2(set, &event, 1, &moment, NULL), 0);
	check("no time", epoll_pwait2(set, &event, 1, &none, NULL), -1);
	check("no time", errno, EINVAL);
	for (int n = 0; n < 100; n++) {
		check("send", send(fd, "p", 1, 0), 1);
		check("ppoll", ppoll(fds, one, &long_time, NULL), 1);
		take(fd);
		check("send", send(fd, "e", 1, 0), 1);
		memset(&event, 0, sizeof(event));
		check("epoll_pwait2", epoll_pwait2(set, &event, 1, n % 2 ? &long_time : NULL, NULL), 1);
		check("its data", event.data.fd, fd);
		take(fd);
	}
	puts("served");
	return 0;
}
