/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcofferdam_dataplane: an application on Cofferdam's dataplane.
 *
 * Made from crates/dataplane/src/c.rs; do not edit. docs/src/dataplane/applications.md has a guide,
 * crates/dataplane/examples/echo.c an example. Names of connections, addresses and kept data are
 * never 0.
 */
/* clang-format off */
#ifndef COFFERDAM_DATAPLANE_H
#define COFFERDAM_DATAPLANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of what a dataplane and its applications share: cofferdam_attach fails when the dataplane has
 * another. */
#define COFFERDAM_DATAPLANE_VERSION 5

#ifdef __cplusplus
extern "C" {
#endif

struct cofferdam_session;

/* An address and a port. */
struct cofferdam_address {
	/* The address in network order; IPv4 in the first four bytes. */
	uint8_t ip[16];
	/* The port, in the host's order. */
	uint16_t port;
	/* 4 or 6. */
	uint16_t version;
};

/* Reads `10.0.0.9:80` or `[fd00::9]:80`. False when it is neither. */
bool cofferdam_parse_address(const char *written, struct cofferdam_address *address);

/* What an application does about each event. Any may be null; `user` is what
 * `cofferdam_attach` was given. A handler must not call `cofferdam_run` or `cofferdam_detach`. */
struct cofferdam_handlers {
	/* The answer to `cofferdam_listen` or `cofferdam_udp_bind`: 0 given, 1 in use, 2 not an
	 * address of the dataplane, 3 not given to this application by the configuration, 4 no room,
	 * 5 no address that can be bound. */
	void (*bound)(struct cofferdam_session *session, void *user, uint64_t bound, uint32_t refusal);
	/* A peer opened a connection: true accepts it, false refuses it. Null accepts all. */
	bool (*knock)(struct cofferdam_session *session, void *user, uint64_t bound, const struct cofferdam_address *peer);
	/* A connection is open: one that was accepted, with the address it came to, or one that
	 * `cofferdam_dial` began, with 0. */
	void (*connected)(struct cofferdam_session *session, void *user, uint64_t connection, uint64_t bound);
	/* Data, in order, where the device put it: valid until the handler returns, or, after
	 * `cofferdam_keep`, until `cofferdam_recv_done`. Meanwhile the window is smaller by it. */
	void (*received)(struct cofferdam_session *session, void *user, uint64_t connection, const uint8_t *data, size_t len);
	/* The peer has acknowledged `bytes`, or its window has grown: `window` bytes go out at once
	 * now, more is queued. */
	void (*sent)(struct cofferdam_session *session, void *user, uint64_t connection, uint32_t bytes, uint32_t window);
	/* The peer sends no more; this side may. */
	void (*peer_closed)(struct cofferdam_session *session, void *user, uint64_t connection);
	/* A connection has ended: 1 closed by both, 2 reset by the peer, 3 refused by the peer,
	 * 4 the peer did not answer, 5 no way to the peer, 6 ended by this side, 7 no room,
	 * 8 this application may not connect. */
	void (*dead)(struct cofferdam_session *session, void *user, uint64_t connection, uint32_t reason);
	/* A datagram; its data is as that of `received`. */
	void (*datagram)(struct cofferdam_session *session, void *user, uint64_t bound, const struct cofferdam_address *peer, const uint8_t *data, size_t len);
	/* A timer of `cofferdam_timer` is due. */
	void (*timer)(struct cofferdam_session *session, void *user, uint64_t cookie);
};

/* Why the last call on this thread failed. Valid until the next call that fails. */
const char *cofferdam_error(void);

/* Attaches to the dataplane that listens on `socket` (usually
 * `/run/cofferdam/dataplane.sock`) as application `name` of its configuration. Null when that
 * fails: see `cofferdam_error`. */
struct cofferdam_session *cofferdam_attach(const char *socket, const char *name, const struct cofferdam_handlers *handlers, void *user);

/* Leaves the dataplane: connections are reset, kept data is given back. Null is ignored. */
void cofferdam_detach(struct cofferdam_session *session);

/* Handles all events that are there, and waits for the first one at most `wait_ns` nanoseconds
 * (0: not at all; `UINT64_MAX`: without end). Returns how many, or -1 when the dataplane is gone
 * or has ended this application: `cofferdam_error` says which, and why.
 * Calls made before and by handlers are shown to the dataplane together. */
int32_t cofferdam_run(struct cofferdam_session *session, uint64_t wait_ns);

/* Accepts connections to `local`; `backlog` may wait. The handler `bound` reports whether it
 * worked. Returns the name that it and `knock` give; 0 when the address makes no sense. */
uint64_t cofferdam_listen(struct cofferdam_session *session, const struct cofferdam_address *local, uint32_t backlog);

/* Takes the datagrams for `local`; as `cofferdam_listen`. */
uint64_t cofferdam_udp_bind(struct cofferdam_session *session, const struct cofferdam_address *local);

/* Gives an address back. */
void cofferdam_unbind(struct cofferdam_session *session, uint64_t bound);

/* Opens a connection to `peer`; the handler `connected` or `dead` follows. Returns its name; 0
 * when the address makes no sense. */
uint64_t cofferdam_dial(struct cofferdam_session *session, const struct cofferdam_address *peer);

/* Copies `len` bytes and sends them; what the peer's window does not take yet is queued. Returns
 * the bytes taken: fewer when all memory is in use (resume when `sent` is called), 0 when the
 * connection has ended. */
size_t cofferdam_send(struct cofferdam_session *session, uint64_t connection, const uint8_t *data, size_t len);

/* A place to write `len` bytes (at most 16384) that are to be sent without a copy by
 * `cofferdam_send_reserved`; null when all memory is in use. One at a time: the one before is
 * given back. */
uint8_t *cofferdam_reserve(struct cofferdam_session *session, size_t len);

/* Sends what was written to the place that `cofferdam_reserve` gave, all of it. False when the
 * connection has ended, or nothing was reserved. */
bool cofferdam_send_reserved(struct cofferdam_session *session, uint64_t connection);

/* Bytes of a connection that are queued or not acknowledged. */
size_t cofferdam_unsent(struct cofferdam_session *session, uint64_t connection);

/* Sends one datagram from `bound`. False when memory is in use everywhere, or the address is not
 * bound. */
bool cofferdam_send_datagram(struct cofferdam_session *session, uint64_t bound, const struct cofferdam_address *peer, const uint8_t *data, size_t len);

/* Keeps the data that the handler was given after it returns. Returns a name for
 * `cofferdam_recv_done`; 0 when no handler with data runs, or it is kept already. */
uint32_t cofferdam_keep(struct cofferdam_session *session);

/* Gives kept data back: the connection's window opens by it. A name that names nothing is
 * ignored. */
void cofferdam_recv_done(struct cofferdam_session *session, uint32_t kept);

/* Ends this side of a connection after what is queued; the peer may still send. */
void cofferdam_shutdown(struct cofferdam_session *session, uint64_t connection);

/* Ends a connection after what is queued; the handler `dead` follows. */
void cofferdam_close(struct cofferdam_session *session, uint64_t connection);

/* Ends a connection at once; the handler `dead` follows. */
void cofferdam_abort(struct cofferdam_session *session, uint64_t connection);

/* Calls the handler `timer` with `cookie` (48 bits) after `delay_ns` nanoseconds. */
void cofferdam_timer(struct cofferdam_session *session, uint64_t delay_ns, uint64_t cookie);

#ifdef __cplusplus
}
#endif

#endif
