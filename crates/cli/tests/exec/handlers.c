/*
 * Waits for data by select and by recv, while a handler of a signal forks every few
 * milliseconds, as PostgreSQL's postmaster does. Arguments: address, port.
 */
#define _GNU_SOURCE
#include "serve.h"
#include <errno.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>

static volatile sig_atomic_t forked;

static void fork_one(int number)
{
	int before = errno, status = 1;
	pid_t pid = fork();

	(void)number;
	if (pid == 0)
		_exit(0);
	if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
		forked++;
	errno = before;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = fork_one, .sa_flags = SA_RESTART };
	const struct itimerval often = { { 0, 3000 }, { 0, 3000 } }, never = { { 0, 0 }, { 0, 0 } };
	int fd = serve(argc, argv), ready;
	struct timeval now = { 0, 0 };
	char byte;
	fd_set set;

	/* Returns the first byte, so that it does not come back. */
	if (recv(fd, &byte, 1, 0) != 1 || send(fd, "x", 1, 0) != 1)
		fail("recv");
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int n = 0; n < 1000 || forked < 300; n++) {
		if (send(fd, "s", 1, 0) != 1)
			fail("send");
		if (n % 2) {
			FD_ZERO(&set);
			FD_SET(fd, &set);
			/* Mostly in the library, not asleep. */
			while ((ready = select(fd + 1, &set, NULL, NULL, n % 4 == 1 ? &now : NULL)) <= 0) {
				if (ready < 0 && errno != EINTR)
					fail("select");
				FD_SET(fd, &set);
			}
		}
		if (recv(fd, &byte, 1, 0) != 1)
			fail("recv");
	}
	setitimer(ITIMER_REAL, &never, NULL);
	puts("served");
	return 0;
}
