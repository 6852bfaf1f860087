/* Serves the connection of the first client that sends a byte, which stays unread. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* Returns its descriptor. Arguments: address, port. */
static int serve(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int listener, fd;
	char byte;

	if (argc != 3)
		exit(2);
	address.sin_port = htons((uint16_t)atoi(argv[2]));
	inet_pton(AF_INET, argv[1], &address.sin_addr);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 8))
		fail("listen");
	/* A probe that only checks whether the port is open sends nothing. */
	for (;;) {
		fd = accept(listener, NULL, NULL);
		if (fd < 0)
			fail("accept");
		if (recv(fd, &byte, 1, MSG_PEEK) == 1)
			return fd;
		close(fd);
	}
}
