/*
 * Waits for data by each call that has a timeout in nanoseconds, once with time to spare and once
 * without. Arguments: address, port. Built with _FORTIFY_SOURCE, so that ppoll is __ppoll_chk
 * where the compiler does not know whether the count fits into the array.
 */
#define _GNU_SOURCE
#include "serve.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

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
	const struct timespec moment = { .tv_nsec = 1000000 }, long_time = { .tv_sec = 60 };
	const struct timespec none = { .tv_nsec = 1000000000 };
	struct epoll_event event = { .events = EPOLLIN };
	volatile nfds_t one = 1;
	struct pollfd fds[2];
	int fd = serve(argc, argv), set;

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
