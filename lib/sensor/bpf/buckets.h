/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* State of the rate limit: one bucket per process, target and kind of access. */
#ifndef RAMPART_BUCKETS_H
#define RAMPART_BUCKETS_H

#include "read.h"

struct bucket_key {
	u64 process_born;
	u32 pid;
	u32 exec_id;
	u32 target_id;
	u32 mask_and_verdict;
};

/* Generic cell rate algorithm: one timestamp, next_ns, is the whole state of the limit. */
struct bucket {
	u64 next_ns;
	u64 born_ns;
	u32 folded;
	u32 zero;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct bucket_key);
	__type(value, struct bucket);
} buckets SEC(".maps");

#endif
