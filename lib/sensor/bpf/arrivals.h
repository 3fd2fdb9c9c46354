/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Files that are created in or moved into a watched directory. User space adds each to `targets`, but some milliseconds later.
 * Until then, the file is in `arrivals`, with a copy of its directory's target (`lent`).
 */
#ifndef RAMPART_ARRIVALS_H
#define RAMPART_ARRIVALS_H

#include "read.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct target_key);
	__type(value, struct target);
} targets SEC(".maps");

/* The directories whose files are watched. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct target_key);
	__type(value, struct target);
} directories SEC(".maps");

struct arrival {
	struct target target;
	u64 came_ns;
};

/* LRU: if files arrive faster than user space reads, the oldest entries are evicted. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct target_key);
	__type(value, struct arrival);
} arrivals SEC(".maps");

static __noinline struct target *arrival_of(struct target_key *key)
{
	struct arrival *arrival = bpf_map_lookup_elem(&arrivals, key);

	/* Expired: user space did not add it, or it is deleted and its inode number may belong to another file. */
	if (!arrival || bpf_ktime_get_ns() - arrival->came_ns > ARRIVAL_NS)
		return 0;
	return &arrival->target;
}

/* The hot path of every hook: the second lookup is needed only while files arrive. */
static __always_inline struct target *find_target(struct target_key *key)
{
	struct target *target = bpf_map_lookup_elem(&targets, key);

	if (target || !state.arrived_ns)
		return target;
	return arrival_of(key);
}

/* A file arrived in `directory`. Returns its target from now on; 0 if the directory is not watched. */
static __noinline struct target *arrived(struct inode *directory, struct inode *inode, struct target_key *key)
{
	struct arrival arrival = {};
	struct target_key in = {};
	struct target *lent, *known;

	if (!directory || (BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG)
		return 0;
	in.inode = BPF_CORE_READ(directory, i_ino);
	in.device = BPF_CORE_READ(directory, i_sb, s_dev);
	lent = bpf_map_lookup_elem(&directories, &in);
	if (!lent)
		return 0;
	if (lent->generation) {
		u32 generation = generation_of(directory);

		if (generation && generation != lent->generation)
			return 0;
	}
	arrival.target.filter = lent->filter;
	arrival.target.id = lent->id;
	arrival.target.lent = 1;
	arrival.target.generation = generation_of(inode);
	known = bpf_map_lookup_elem(&targets, key);
	if (known && (!known->generation || known->generation == arrival.target.generation))
		return known;
	if (known) /* of a deleted file with this inode number; user space has not removed it yet */
		bpf_map_delete_elem(&targets, key);
	arrival.came_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&arrivals, key, &arrival, BPF_ANY))
		return 0;
	state.arrived_ns = arrival.came_ns;
	return arrival_of(key);
}

/* The first name in the inode's list: the one whose dentry was added last. */
static __always_inline struct dentry *alias_of(struct inode *inode)
{
	struct hlist_node *node = BPF_CORE_READ(inode, i_dentry.first);

	return node ? (void *)node - bpf_core_field_offset(struct dentry, d_u.d_alias) : 0;
}

#define MOVED_FILES 4

/* The regular files of one rename: the one that moves, the one that it replaces, and those of the layers below an overlay. */
struct moved {
	struct inode *inodes[MOVED_FILES];
};

/* Keyed by thread; an entry exists during a rename. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, struct moved);
} moving SEC(".maps");

/* Notes a file of this rename: when the rename ends, it may be in a watched directory. */
static __noinline int moves(struct inode *inode)
{
	u64 thread = bpf_get_current_pid_tgid();
	struct moved fresh = {}, *moved;

	if (!inode || (BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG)
		return 0;
	moved = bpf_map_lookup_elem(&moving, &thread);
	if (!moved) {
		fresh.inodes[0] = inode;
		bpf_map_update_elem(&moving, &thread, &fresh, BPF_ANY);
		return 0;
	}
	for (u32 i = 0; i < MOVED_FILES; i++) {
		if (moved->inodes[i] == inode)
			return 0;
		if (!moved->inodes[i]) {
			moved->inodes[i] = inode;
			return 0;
		}
	}
	return 0;
}

/* The rename has ended: files that are in a watched directory now have arrived. */
static __noinline int moved_in(int succeeded)
{
	u64 thread = bpf_get_current_pid_tgid();
	struct moved *moved = bpf_map_lookup_elem(&moving, &thread);

	if (!moved)
		return 0;
	for (u32 i = 0; succeeded && i < MOVED_FILES; i++) {
		struct inode *inode = moved->inodes[i];
		struct target_key key = {};
		struct dentry *dentry;

		if (!inode)
			break;
		dentry = alias_of(inode);
		if (!dentry)
			continue;
		key.inode = BPF_CORE_READ(inode, i_ino);
		key.device = BPF_CORE_READ(inode, i_sb, s_dev);
		arrived(BPF_CORE_READ(dentry, d_parent, d_inode), inode, &key);
	}
	bpf_map_delete_elem(&moving, &thread);
	return 0;
}

#endif
