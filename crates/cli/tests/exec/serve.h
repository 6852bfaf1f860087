/* Serves a client's connection: the first that says a byte, which is left to be read. */
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

/* Its descriptor. Arguments: address, port. */
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
	/* Whoever only looks whether somebody listens sends nothing. */
	for (;;) {
		fd = accept(listener, NULL, NULL);
		if (fd < 0)
			fail("accept");
		if (recv(fd, &byte, 1, MSG_PEEK) == 1)
			return fd;
		close(fd);
	}
}
