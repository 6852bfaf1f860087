/*
 * Sends back what it receives, over TCP and UDP: echo SOCKET NAME ADDRESS:PORT. Prints "ready"
 * when it serves. What cannot be sent at once stays where it was received, so a peer that never
 * reads holds no more than its window here.
 *
 * cc -I crates/dataplane/include -o echo crates/dataplane/examples/echo.c \
 *    -L target/debug -lcofferdam_dataplane
 */
#include <cofferdam_dataplane.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* Bytes of a connection that are handed over before the rest is kept. */
#define MOST_UNSENT 65536
#define SECOND_NS 1000000000ull

/* A segment that waits to be sent back; with no data, the end of its connection. */
struct waiting {
	struct waiting *next;
	uint64_t connection;
	uint32_t kept;
	const uint8_t *data;
	size_t len;
};

/* All that wait, oldest first. */
static struct waiting *first, **last = &first;
static bool is_refused;
static volatile sig_atomic_t is_stopped;

static bool waits(uint64_t connection)
{
	for (const struct waiting *w = first; w; w = w->next)
		if (w->connection == connection)
			return true;
	return false;
}

static void wait_with(uint64_t connection, uint32_t kept, const uint8_t *data, size_t len)
{
	struct waiting *w = malloc(sizeof(*w));

	if (!w)
		abort();
	*w = (struct waiting){ NULL, connection, kept, data, len };
	*last = w;
	last = &w->next;
}

static void take_out(struct waiting **place)
{
	struct waiting *w = *place;

	*place = w->next;
	if (!w->next)
		last = place;
	free(w);
}

static void on_bound(struct cofferdam_session *session, void *user, uint64_t bound,
		     uint32_t refusal)
{
	(void)session, (void)user, (void)bound;
	if (refusal) {
		fprintf(stderr, "the address was refused: reason %u\n", refusal);
		is_refused = true;
	}
}

static void on_received(struct cofferdam_session *session, void *user, uint64_t connection,
			const uint8_t *data, size_t len)
{
	size_t sent = 0;

	(void)user;
	if (!waits(connection) && cofferdam_unsent(session, connection) < MOST_UNSENT)
		sent = cofferdam_send(session, connection, data, len);
	if (sent < len)
		wait_with(connection, cofferdam_keep(session), data + sent, len - sent);
}

static void on_sent(struct cofferdam_session *session, void *user, uint64_t connection,
		    uint32_t bytes, uint32_t window)
{
	struct waiting **place = &first;

	(void)user, (void)bytes, (void)window;
	while (*place) {
		struct waiting *w = *place;
		size_t sent;

		if (w->connection != connection) {
			place = &w->next;
			continue;
		}
		if (!w->len) {
			cofferdam_close(session, connection);
			take_out(place);
			return;
		}
		if (cofferdam_unsent(session, connection) >= MOST_UNSENT)
			return;
		sent = cofferdam_send(session, connection, w->data, w->len);
		w->data += sent;
		w->len -= sent;
		if (w->len)
			return;
		cofferdam_recv_done(session, w->kept);
		take_out(place);
	}
}

static void on_peer_closed(struct cofferdam_session *session, void *user, uint64_t connection)
{
	(void)user;
	if (waits(connection))
		wait_with(connection, 0, NULL, 0);
	else
		cofferdam_close(session, connection);
}

static void on_dead(struct cofferdam_session *session, void *user, uint64_t connection,
		    uint32_t reason)
{
	struct waiting **place = &first;

	(void)user, (void)reason;
	while (*place) {
		if ((*place)->connection == connection) {
			cofferdam_recv_done(session, (*place)->kept);
			take_out(place);
		} else {
			place = &(*place)->next;
		}
	}
}

static void on_datagram(struct cofferdam_session *session, void *user, uint64_t bound,
			const struct cofferdam_address *peer, const uint8_t *data, size_t len)
{
	(void)user;
	/* A datagram that does not fit is lost, as on any network. */
	cofferdam_send_datagram(session, bound, peer, data, len);
}

/* Shows that timers work; a server would close idle connections here. */
static void on_timer(struct cofferdam_session *session, void *user, uint64_t cookie)
{
	unsigned *ticks = user;

	++*ticks;
	cofferdam_timer(session, SECOND_NS / 10, cookie);
}

static void on_signal(int signal)
{
	(void)signal;
	is_stopped = 1;
}

int main(int argc, char **argv)
{
	const struct cofferdam_handlers handlers = {
		.bound = on_bound,
		.received = on_received,
		.sent = on_sent,
		.peer_closed = on_peer_closed,
		.dead = on_dead,
		.datagram = on_datagram,
		.timer = on_timer,
	};
	struct cofferdam_address address;
	struct cofferdam_session *session;
	unsigned ticks = 0;
	int handled = 0;

	if (argc != 4) {
		fprintf(stderr, "usage: echo SOCKET NAME ADDRESS:PORT\n");
		return 2;
	}
	if (!cofferdam_parse_address(argv[3], &address)) {
		fprintf(stderr, "%s\n", cofferdam_error());
		return 2;
	}
	session = cofferdam_attach(argv[1], argv[2], &handlers, &ticks);
	if (!session) {
		fprintf(stderr, "%s\n", cofferdam_error());
		return 1;
	}
	signal(SIGTERM, on_signal);
	cofferdam_listen(session, &address, 128);
	cofferdam_udp_bind(session, &address);
	cofferdam_timer(session, SECOND_NS / 10, 1);
	puts("ready");
	fflush(stdout);
	while (!is_stopped && !is_refused && handled >= 0)
		handled = cofferdam_run(session, SECOND_NS);
	if (handled < 0)
		fprintf(stderr, "%s\n", cofferdam_error());
	printf("%u ticks\n", ticks);
	cofferdam_detach(session);
	return handled < 0 || is_refused;
}
