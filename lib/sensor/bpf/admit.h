/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What every hook does with an access to a watched inode: filter, rate limit, record. */
#ifndef RAMPART_ADMIT_H
#define RAMPART_ADMIT_H

#include "arrivals.h"
#include "buckets.h"
#include "record.h"

/* Whether the target's filter includes this kind of access; accessFilter in access.ts builds the filter. */
static __always_inline int wanted(u32 filter, u32 mask)
{
	if (mask & ANY_OPERATION)
		return filter & mask & ANY_OPERATION;
	if (mask & MAY_ACCESS)
		return filter & MAY_ACCESS;
	if (mask & ANY_RWXA)
		return filter & mask & ANY_RWXA;
	return filter & MAY_OPEN;
}

/* Whether the rate limit admits work->access; otherwise the access is only counted in its bucket. */
static __always_inline int take_token(struct work *work)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u64 now = work->access.time_ns, next;
	struct bucket fresh = {}, *bucket;
	struct bucket_key key = {};

	work->bucket_born_ns = 0;
	work->folded_total = 0;
	if (!settings.nanoseconds_per_access)
		return 1;
	/* A recycled pid and a new program both start with a full bucket: their first access is never hidden. */
	key.process_born = BPF_CORE_READ(task, group_leader, start_time);
	key.exec_id = BPF_CORE_READ(task, self_exec_id);
	key.pid = bpf_get_current_pid_tgid() >> 32;
	key.target_id = work->access.target_id;
	key.mask_and_verdict = work->access.mask | work->access.verdict << 16;
	/* Files that share their directory's target have a rate limit each. */
	if (work->access.name)
		key.mask_and_verdict |= (u32)work->access.inode << 18;
	bucket = bpf_map_lookup_elem(&buckets, &key);
	if (!bucket) {
		fresh.next_ns = now + settings.nanoseconds_per_access;
		fresh.born_ns = now;
		bpf_map_update_elem(&buckets, &key, &fresh, BPF_NOEXIST);
		return 1;
	}
	next = bucket->next_ns;
	if (next > now + settings.burst_ns) {
		__sync_fetch_and_add(&bucket->folded, 1);
		return 0;
	}
	bucket->next_ns = (next > now ? next : now) + settings.nanoseconds_per_access;
	work->bucket_born_ns = bucket->born_ns;
	work->folded_total = bucket->folded;
	return 1;
}

/* A global function, so that the verifier checks it only once: see put_path. */
__noinline int finish(void)
{
	struct work *work = this_work();

	if (!work)
		return 0;
	__sync_fetch_and_add(&state.counters.produced, 1);
	if (work->access.verdict == VERDICT_UNKNOWN)
		__sync_fetch_and_add(&state.counters.verdict_unknown, 1);
	if (take_token(work))
		return send();
	__sync_fetch_and_add(&state.counters.folded, 1);
	return 0;
}

/* Unless the buffer is busy, the access is counted as produced, and then as emitted, folded or lost. */
static __always_inline int emit_named(struct access *access, struct names *names)
{
	struct work *work = this_work();

	if (!work) /* an array of one entry: never */
		return 0;
	/*
	 * Tracing programs can be preempted by others that use the same buffer. Drop and count the second access rather than
	 * mix the two.
	 */
	if (__sync_lock_test_and_set(&work->busy, 1)) {
		__sync_fetch_and_add(&state.counters.busy, 1);
		return 0;
	}
	work->access = *access;
	put_names(work, names);
	finish();
	__sync_lock_test_and_set(&work->busy, 0);
	return 0;
}

static __always_inline int emit(struct access *access)
{
	return emit_named(access, 0);
}

/*
 * Whether this is the kernel's own check during an exec: a program that its user cannot read must not be dumped
 * (fs/exec.c, would_dump). The exec itself is already reported, and no process reads the file here.
 */
static __always_inline int is_dump_check(u32 mask)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	if (mask != MAY_READ || !bpf_core_field_exists(task->in_execve))
		return 0;
	return BPF_CORE_READ_BITFIELD_PROBED(task, in_execve);
}

/* Completes `access` and returns 1 if the target's filter admits its mask. The slow path, after the lookup. */
static __always_inline int admit(struct target *target, struct inode *inode, struct access *access)
{
	if (!wanted(target->filter, access->mask) || is_dump_check(access->mask))
		return 0;
	if (bpf_get_current_pid_tgid() >> 32 == state.agent_pid) {
		__sync_fetch_and_add(&state.counters.own, 1);
		return 0;
	}
	if (target->generation && inode) {
		u32 generation = generation_of(inode);

		if (generation && generation != target->generation) {
			__sync_fetch_and_add(&state.counters.recycled, 1);
			return 0;
		}
	}
	access->target_id = target->id;
	/* All files of a directory share its target, so the record needs a name to identify this file. */
	access->name = target->lent && inode ? alias_of(inode) : 0;
	access->time_ns = bpf_ktime_get_ns();
	return 1;
}

#endif
