/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcofferdam_dataplane: an application on Cofferdam's dataplane.
 *
 * Generated from crates/dataplane/src/c.rs; do not edit. docs/src/dataplane/applications.md has a
 * guide, crates/dataplane/examples/echo.c an example. Names of connections, addresses and kept data
 * are never 0.
 */
/* clang-format off */
#ifndef COFFERDAM_DATAPLANE_H
#define COFFERDAM_DATAPLANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Version of the interface: cofferdam_attach fails if the dataplane has another. */
#define COFFERDAM_DATAPLANE_VERSION 5

#ifdef __cplusplus
extern "C" {
#endif

struct cofferdam_session;

/* An address and a port. */
struct cofferdam_address {
	/* Address in network byte order; IPv4 in the first four bytes. */
	uint8_t ip[16];
	/* Port in the host's byte order. */
	uint16_t port;
	/* 4 or 6. */
	uint16_t version;
};

/* Parses `10.0.0.9:80` or `[fd00::9]:80`. Returns false for any other text. */
bool cofferdam_parse_address(const char *written, struct cofferdam_address *address);

/* Handlers of events. Any may be null. `user` is the argument of `cofferdam_attach`. A handler
 * must not call `cofferdam_run` or `cofferdam_detach`. */
struct cofferdam_handlers {
	/* Answer to `cofferdam_listen` or `cofferdam_udp_bind`: 0 bound, 1 in use, 2 not an address of
	 * the dataplane, 3 not granted to this application by the configuration, 4 table full, 5 not
	 * an address that can be bound. */
	void (*bound)(struct cofferdam_session *session, void *user, uint64_t bound,
		uint32_t refusal);
	/* A peer has opened a connection: true accepts it, false refuses it. Null accepts all. */
	bool (*knock)(struct cofferdam_session *session, void *user, uint64_t bound,
		const struct cofferdam_address *peer);
	/* A connection is open: one that was accepted, with the address at which it arrived, or one
	 * that `cofferdam_dial` opened, with 0. */
	void (*connected)(struct cofferdam_session *session, void *user, uint64_t connection,
		uint64_t bound);
	/* Data, in order, where the device put it. It is valid until the handler returns or, after
	 * `cofferdam_keep`, until `cofferdam_recv_done`. The window is smaller by its length
	 * meanwhile. */
	void (*received)(struct cofferdam_session *session, void *user, uint64_t connection,
		const uint8_t *data, size_t len);
	/* The peer has acknowledged `bytes`, or its window has grown. `window` bytes can be sent at
	 * once; more are queued. */
	void (*sent)(struct cofferdam_session *session, void *user, uint64_t connection,
		uint32_t bytes, uint32_t window);
	/* The peer has ended its side. This side may continue to send. */
	void (*peer_closed)(struct cofferdam_session *session, void *user, uint64_t connection);
	/* A connection has ended: 1 closed by both sides, 2 reset, 3 refused by the peer, 4 timed out,
	 * 5 no route to the peer, 6 ended by this side, 7 no place in the dataplane, 8 this
	 * application may not connect. */
	void (*dead)(struct cofferdam_session *session, void *user, uint64_t connection,
		uint32_t reason);
	/* A datagram. Its data is valid as that of `received`. */
	void (*datagram)(struct cofferdam_session *session, void *user, uint64_t bound,
		const struct cofferdam_address *peer, const uint8_t *data, size_t len);
	/* A timer of `cofferdam_timer` is due. */
	void (*timer)(struct cofferdam_session *session, void *user, uint64_t cookie);
};

/* Reason of the last failure on this thread. Valid until the next one. */
const char *cofferdam_error(void);

/* Attaches to the dataplane that listens on `socket` (usually `/run/cofferdam/dataplane.sock`) as
 * application `name` of its configuration. Null on failure: see `cofferdam_error`. */
struct cofferdam_session *cofferdam_attach(const char *socket, const char *name,
	const struct cofferdam_handlers *handlers, void *user);

/* Detaches from the dataplane. Connections are reset, and buffers that `cofferdam_keep` retained
 * are released. Null is ignored. */
void cofferdam_detach(struct cofferdam_session *session);

/* Handles all pending events. Waits for the first one at most `wait_ns` nanoseconds (0: not at
 * all; `UINT64_MAX`: without limit). Returns the number of events, or -1 if the dataplane has
 * ended or has ended this application: see `cofferdam_error`. Calls before this and in handlers
 * reach the dataplane together. */
int32_t cofferdam_run(struct cofferdam_session *session, uint64_t wait_ns);

/* Accepts connections to `local`, of which `backlog` may be pending. The handler `bound` reports
 * the outcome. Returns the name that `bound` and `knock` pass; 0 if the address is invalid. */
uint64_t cofferdam_listen(struct cofferdam_session *session, const struct cofferdam_address *local,
	uint32_t backlog);

/* Receives datagrams for `local`; otherwise as `cofferdam_listen`. */
uint64_t cofferdam_udp_bind(struct cofferdam_session *session,
	const struct cofferdam_address *local);

/* Releases an address. */
void cofferdam_unbind(struct cofferdam_session *session, uint64_t bound);

/* Opens a connection to `peer`. The handler `connected` or `dead` reports the outcome. Returns its
 * name; 0 if the address is invalid. */
uint64_t cofferdam_dial(struct cofferdam_session *session, const struct cofferdam_address *peer);

/* Copies `len` bytes and sends them. Bytes beyond the peer's window are queued. Returns the number
 * of bytes taken: fewer if all memory is in use (resume when `sent` is called), 0 if the
 * connection has ended. */
size_t cofferdam_send(struct cofferdam_session *session, uint64_t connection, const uint8_t *data,
	size_t len);

/* Returns memory for `len` bytes (at most 16384), to be sent without a copy by
 * `cofferdam_send_reserved`; null if all memory is in use. A second call releases the memory of
 * the first. */
uint8_t *cofferdam_reserve(struct cofferdam_session *session, size_t len);

/* Sends the memory of `cofferdam_reserve`, all of it. Returns false if the connection has ended,
 * or nothing is reserved. */
bool cofferdam_send_reserved(struct cofferdam_session *session, uint64_t connection);

/* Number of bytes of a connection that are queued or unacknowledged. */
size_t cofferdam_unsent(struct cofferdam_session *session, uint64_t connection);

/* Sends one datagram from `bound`. Returns false if all memory is in use, or the address is not
 * bound. */
bool cofferdam_send_datagram(struct cofferdam_session *session, uint64_t bound,
	const struct cofferdam_address *peer, const uint8_t *data, size_t len);

/* Keeps the data of the running handler after it returns. Returns a name for
 * `cofferdam_recv_done`; 0 if no handler with data runs, or the data is kept already. */
uint32_t cofferdam_keep(struct cofferdam_session *session);

/* Releases kept data, which opens the connection's window. An unknown name is ignored. */
void cofferdam_recv_done(struct cofferdam_session *session, uint32_t kept);

/* Ends this side of a connection after the queued data. The peer may continue to send. */
void cofferdam_shutdown(struct cofferdam_session *session, uint64_t connection);

/* Ends a connection after the queued data. The handler `dead` follows. */
void cofferdam_close(struct cofferdam_session *session, uint64_t connection);

/* Ends a connection at once. The handler `dead` follows. */
void cofferdam_abort(struct cofferdam_session *session, uint64_t connection);

/* Calls the handler `timer` with `cookie` (48 bits) after `delay_ns` nanoseconds. */
void cofferdam_timer(struct cofferdam_session *session, uint64_t delay_ns, uint64_t cookie);

#ifdef __cplusplus
}
#endif

#endif
