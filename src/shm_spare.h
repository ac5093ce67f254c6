/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A spare memory region for shm peers that are gone.
 *
 * An endpoint of provider shm that sends its first message makes the receiver map the sender's
 * region by its name in /dev/shm. Up to libfabric 1.17 the receiver then uses the mapping without a
 * look at whether there is one: a peer that has ended, and whose region went with it, before its
 * message was read takes the receiver with it (a null pointer in smr_progress_connreq). A process
 * that is stopped for a moment, or a get that any client can reach, must not die of that.
 *
 * So this module stands before `shm_open` and `stat` as libfabric calls them: when a peer's region
 * is not there it hands out a spare one, a copy of an own region that nobody has used. Messages to
 * the peer that is gone end there, and the session ends by its time-out like any whose peer is
 * silent. */
#ifndef FABT_SHM_SPARE_H
#define FABT_SHM_SPARE_H

#include "address.h"

/* Take the copy from the region of one's own endpoint `address` ("fi_shm://PID:I:J"), which no peer
 * may know yet. Only the first call of a process does anything, and only where libfabric is old
 * enough to need it. Where no copy can be had things stay as they are. */
void shm_spare_prepare(const struct address *address);

#endif
