/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A witness of the traffic between put and get, which knows the protocol's rules and none of the
 * engine's structures beyond a session's public counters. It looks at every post when it is tried
 * for the first time, and fails the test where a rule is broken:
 *
 *   - a write has at most as many segments on each side as one write can take and as are at hand,
 *     and local ones within the transmit limit;
 *   - its bytes are the stream's, in order, a local segment stays within one payload buffer, and
 *     its remote segments go on exactly where the one before ended;
 *   - a payload buffer is split only when the segments used are as many as one write can take, or,
 *     as the write's only piece, when nothing is in flight or unreported;
 *   - a post that was deferred is tried again unchanged;
 *   - each direction's tags count modulo 64, with at most 16 messages uncompleted;
 *   - only the last progress message has nleftover 0, only the last vector has no segment. */
#ifndef FABT_TEST_WATCH_H
#define FABT_TEST_WATCH_H

#include "fake_fabric.h"
#include "session.h"

struct watch_segment {
    uint64_t addr, len, key;
};

/* Messages of one direction by their number. */
struct watch_direction {
    const struct session *sender;
    struct watch_message {
        bool seen;     /* posted by the sender */
        bool here;     /* reported to the receiver */
        uint64_t a, b; /* nfilled and nleftover; segments and their bytes */
    } * messages;
    size_t room;
    uint64_t first_unseen;
    uint64_t sent;
    uint64_t disorder; /* messages that were posted before an earlier one */
    uint32_t under_way;
    uint32_t most_under_way;
};

struct watch {
    const struct session *put;
    uint32_t limit;       /* segments that one write can take */
    uint32_t local_limit; /* local ones */

    struct watch_direction vectors, progress;
    uint64_t next_here; /* vectors before this one have been reported to put, in tag order */

    struct watch_segment *segments; /* all that put has been told of, in order */
    size_t segments_count, segments_room;
    size_t taken;  /* put holds segments from `first` to here, at most 12 */
    size_t first;  /* not used up */
    uint64_t used; /* bytes of it */

    uint64_t position; /* of the next write in the stream */
    const void *deferred;
    struct fake_post deferred_post;

    uint64_t writes;
    uint64_t splits;
    uint64_t most_local, most_remote;
};

void watch_open(struct watch *watch);
void watch_close(struct watch *watch);
void watch_put(struct watch *watch, const struct session *put, uint32_t limit,
               uint32_t local_limit);
void watch_get(struct watch *watch, const struct session *get);

/* A posting call, and whether the provider takes it. */
void watch_attempt(struct watch *watch, const struct fake_post *post, bool accepted);

/* A tagged send's completion is reported to its session. */
void watch_sent(struct watch *watch, const struct session *session);

/* A receive's completion is about to be reported to its session. */
void watch_arrived(struct watch *watch, const struct session *session, const struct op *op,
                   size_t len);

/* A session is about to be serviced. */
void watch_service(struct watch *watch, const struct session *session);

/* After a run that went well: sums, ends of stream, gaps. */
void watch_check_end(const struct watch *watch, uint64_t total_bytes);

/* Where payload buffer boundaries lie in the stream: put's buffers of 37, 31, 29, 23 in turn. */
bool watch_boundary(uint64_t position);

#endif
