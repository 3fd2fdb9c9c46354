/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Writes a change to the ring: first the process, then the change, each unless it was reported already. */
#ifndef RAMPART_CHANGE_EMIT_H
#define RAMPART_CHANGE_EMIT_H

#include "changes.h"
#include "record.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 131072);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct target_key);
	__type(value, struct directory);
} directories SEC(".maps");

/*
 * What was reported in this epoch. User space increments state.epoch each time it has read the whole ring; a process, and each
 * of its changes, is reported once per epoch. So a file that is written a million times costs one lookup per write, and user
 * space gets some twenty records a second.
 */
struct process_key {
	u64 born;
	u32 pid;
	u32 exec_id;
};

struct process {
	u64 cwd;
	u64 owner;
	u32 facts;
	u32 epoch;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 2048);
	__type(key, struct process_key);
	__type(value, struct process);
} processes SEC(".maps");

struct told_key {
	u64 inode;
	u32 device;
	u32 generation;
	u32 facts;
	u32 pid;
	u32 directory;
	u32 name_hash;
	u32 mask;
	u32 flags_and_call;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct told_key);
	__type(value, u8);
} told SEC(".maps");

/* The change that is being built; one per CPU, for the same reasons as struct work. */
struct change_work {
	struct told_key key;
	u32 zero[2];
	struct change change;
	u8 name[NAME_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct change_work);
} change_works SEC(".maps");

static __always_inline struct change_work *this_change(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&change_works, &zero);
}

/* Reports the current process. Returns 0 if the ring was full. */
__noinline int send_process(u32 facts)
{
	struct task_struct *task = (void *)bpf_get_current_task(), *parent;
	struct work *work = this_work();
	struct process_record *head;
	struct file *executable;
	u32 end, bytes = 0;

	if (!work)
		return 0;
	head = (void *)work->record;
	end = put_process(work, sizeof(struct process_record));

	parent = BPF_CORE_READ(task, real_parent);
	executable = BPF_CORE_READ(parent, mm, exe_file);
	if (executable) {
		work->root.mnt = BPF_CORE_READ(parent, fs, root.mnt);
		work->root.dentry = BPF_CORE_READ(parent, fs, root.dentry);
		work->path.mnt = BPF_CORE_READ(executable, f_path.mnt);
		work->path.dentry = BPF_CORE_READ(executable, f_path.dentry);
		bytes = put_path(end) & 2047;
	}
	head->type = CHANGE_RECORD_PROCESS;
	head->facts = facts;
	head->parent_bytes = bytes;
	head->zero = 0;
	if (bpf_ringbuf_output(&ring, work->record, (end + bytes) & 8191, 0))
		return 0;
	return 1;
}

/* The number that identifies the current process in its present state, which it reports first if necessary; 0 if that failed. */
__noinline int facts_of_current(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u64 now = bpf_ktime_get_ns();
	struct process fresh = {}, *known;
	struct process_key key = {};

	key.born = BPF_CORE_READ(task, group_leader, start_time);
	key.exec_id = BPF_CORE_READ(task, self_exec_id);
	key.pid = bpf_get_current_pid_tgid() >> 32;
	fresh.cwd = (u64)BPF_CORE_READ(task, fs, pwd.dentry);
	fresh.owner = bpf_get_current_uid_gid();
	fresh.epoch = state.epoch;
	known = bpf_map_lookup_elem(&processes, &key);
	if (known && known->epoch == fresh.epoch && known->cwd == fresh.cwd && known->owner == fresh.owner)
		return known->facts;
	/* Unique together with the pid for half an hour; user space needs it for seconds. 31 bits, never 0. */
	fresh.facts = (now >> 10 & 0x7fffffff) | 1;
	if (!send_process(fresh.facts))
		return 0;
	bpf_map_update_elem(&processes, &key, &fresh, BPF_ANY);
	return fresh.facts;
}

/* Sends the change of this CPU, unless the same change was reported already in this epoch. */
__noinline int send_change(u32 name_hash)
{
	struct change_work *work = this_change();
	struct change *change;
	u32 bytes;
	u8 one = 1;
	int facts;

	if (!work)
		return 0;
	change = &work->change;
	__sync_fetch_and_add(&state.counters.produced, 1);
	facts = facts_of_current();
	if (!facts)
		goto full;
	change->type = CHANGE_RECORD_CHANGE;
	change->facts = facts;
	change->time_ns = bpf_ktime_get_ns();
	change->pid = bpf_get_current_pid_tgid() >> 32;
	work->key.inode = change->inode;
	work->key.device = change->device;
	work->key.generation = change->generation;
	work->key.facts = facts;
	work->key.pid = change->pid;
	work->key.directory = change->directory;
	work->key.name_hash = name_hash;
	work->key.mask = change->mask;
	work->key.flags_and_call = change->flags | change->call << 8;
	if (bpf_map_lookup_elem(&told, &work->key)) {
		__sync_fetch_and_add(&state.counters.folded, 1);
		return 0;
	}
	bytes = change->name_bytes;
	if (bytes > NAME_BYTES - 1)
		bytes = NAME_BYTES - 1;
	if (bpf_ringbuf_output(&ring, change, sizeof(*change) + bytes, 0))
		goto full;
	bpf_map_update_elem(&told, &work->key, &one, BPF_ANY);
	__sync_fetch_and_add(&state.counters.emitted, 1);
	return 0;
full:
	__sync_fetch_and_add(&state.counters.lost_ring_full, 1);
	return 0;
}

/* Appends the name to the change; an empty or unreadable string adds none. */
static __always_inline void put_name(struct change_work *work, const unsigned char *name)
{
	long length = bpf_probe_read_kernel_str(work->name, NAME_BYTES, name);

	work->change.name_bytes = length > 1 ? length - 1 : 0;
}

#endif
