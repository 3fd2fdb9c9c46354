/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Where changes are seen. */
#ifndef RAMPART_CHANGE_HOOKS_H
#define RAMPART_CHANGE_HOOKS_H

#include "change_emit.h"
#include "registers.h"

/* include/linux/fsnotify_backend.h: modify, attributes, closed after writing, moved, created, deleted */
#define CHANGE_EVENTS 0x3ce

#define FIELD(type, pointer, field)                                                                          \
	(bpf_rdonly_cast ? TYPED(type, pointer)->field : BPF_CORE_READ((type *)(pointer), field))

/*
 * A new name is seen as two changes by one thread, of the inode and of the directory: here they meet. One that is made or
 * linked comes before its directory, one that is renamed behind it. Two that do not belong together do no harm: both
 * were changed by this thread.
 */
struct pair_key {
	u64 thread;
	u32 device; /* below an overlay other inodes change in between */
	u32 zero;
};

struct pair {
	u64 inode; /* where it is; 0: none waits */
	u64 number;
	u64 inode_ns;
	u64 directory_ns;
	u32 directory;
	u32 flags; /* of the inode: CHANGE_MADE or CHANGE_NAMED */
};

/* Both changes are within one system call. */
#define PAIR_NS 10000000

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct pair_key);
	__type(value, struct pair);
} pairs SEC(".maps");

/* Devices of watched directories: pipes and their kin have inodes without names too. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u32);
} devices SEC(".maps");

static __always_inline struct directory *directory_of(struct inode *inode, u32 device)
{
	struct target_key key = {};

	key.inode = FIELD(struct inode, inode, i_ino);
	key.device = device;
	return bpf_map_lookup_elem(&directories, &key);
}

/* enum change_call of the system call that is running; a page fault, which is none, is a write to a mapping. */
static __always_inline u32 current_call(void)
{
	s32 number;

	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return CHANGE_CALL_UNKNOWN;
	number = syscall_number((void *)bpf_task_pt_regs((void *)bpf_get_current_task_btf()));
	if (number == -1)
		return CHANGE_CALL_CONTENT;
	number &= ~0x40000000;
	if ((u32)number >= SYSCALLS)
		return CHANGE_CALL_UNKNOWN;
	return is_compat() ? settings.compat_syscalls[number] : settings.native_syscalls[number];
}

/* Whether the call can put an inode under a name; what is not known (io_uring, bind) can. */
static __always_inline int gives_names(u32 call)
{
	return call == CHANGE_CALL_NAMES || call == CHANGE_CALL_UNKNOWN;
}

static __noinline int name_changed(struct inode *inode, struct dentry *dentry, u32 device, u32 directory, u32 call)
{
	struct change_work *work = this_change();

	if (!work)
		return 0;
	__builtin_memset(&work->change, 0, sizeof(work->change));
	work->change.inode = FIELD(struct inode, inode, i_ino);
	work->change.device = device;
	work->change.generation = generation_of(inode);
	work->change.directory = directory;
	work->change.flags = CHANGE_OF_NAME;
	work->change.call = call;
	put_name(work, BPF_CORE_READ(dentry, d_name.name));
	return send_change((u32)BPF_CORE_READ(dentry, d_name.hash_len));
}

static __always_inline struct pair *pair_of_thread(u32 device)
{
	struct pair_key key = {};
	struct pair fresh = {}, *pair;

	key.thread = bpf_get_current_pid_tgid();
	key.device = device;
	pair = bpf_map_lookup_elem(&pairs, &key);
	if (pair)
		return pair;
	bpf_map_update_elem(&pairs, &key, &fresh, BPF_ANY);
	return bpf_map_lookup_elem(&pairs, &key);
}

/* Sends that a directory changed, and which inode was put into it where that is known. */
static __always_inline int send_pair(struct inode *inode, u64 number, u32 flags, u32 device, u32 directory, u32 call)
{
	struct change_work *work = this_change();

	if (!work)
		return 0;
	__builtin_memset(&work->change, 0, sizeof(work->change));
	/* The number of a new inode is given out before the generation: only now both are there. */
	if (inode && BPF_CORE_READ(inode, i_ino) == number) {
		work->change.inode = number;
		work->change.generation = generation_of(inode);
		work->change.flags = flags;
	}
	work->change.device = device;
	work->change.directory = directory;
	work->change.call = call;
	return send_change(0);
}

/* A watched directory itself changed; most of the time because of a name in it. */
static __noinline int directory_changed(struct inode *inode, u32 device, u32 directory, u32 call)
{
	struct pair *pair = gives_names(call) ? pair_of_thread(device) : 0;
	struct inode *child = 0;
	u64 number = 0, now;
	u32 flags = 0;

	if (pair) {
		now = bpf_ktime_get_ns();
		if (pair->inode && pair->inode != (u64)inode && now - pair->inode_ns < PAIR_NS) {
			child = (void *)pair->inode;
			number = pair->number;
			flags = pair->flags;
		}
		/* It may be the one that is renamed. */
		if (pair->directory != directory && pair->directory && now - pair->directory_ns < PAIR_NS)
			send_pair(inode, FIELD(struct inode, inode, i_ino), CHANGE_NAMED, device, pair->directory, call);
		pair->inode = 0;
		pair->directory = directory;
		pair->directory_ns = now;
	}
	return send_pair(child, number, flags, device, directory, call);
}

/* An inode on a device with watched directories changed in a call that gives names. */
static __noinline int maybe_named(struct inode *inode, u32 device, u32 made, u32 call)
{
	struct pair *pair = pair_of_thread(device);
	u64 now = bpf_ktime_get_ns();

	if (!pair)
		return 0;
	pair->inode = (u64)inode;
	pair->number = FIELD(struct inode, inode, i_ino);
	pair->inode_ns = now;
	pair->flags = made ? CHANGE_MADE : CHANGE_NAMED;
	if (made || !pair->directory || now - pair->directory_ns >= PAIR_NS)
		return 0;
	return send_pair(inode, pair->number, CHANGE_NAMED, device, pair->directory, call);
}

/* The kernel sets the inode's change time, in the process that changes it. */
static __always_inline int inode_changed(struct inode *inode, u32 call)
{
	unsigned long alias = bpf_core_field_offset(struct dentry, d_u.d_alias);
	struct super_block *sb = FIELD(struct inode, inode, i_sb);
	u32 device = FIELD(struct super_block, sb, s_dev);
	struct directory *directory = directory_of(inode, device);
	/* Not a typed load: the verifier of some kernels allows no arithmetic on what that gives. */
	struct hlist_node *node = BPF_CORE_READ(inode, i_dentry.first);

	if (directory)
		directory_changed(inode, device, directory->id, call);
	else if (gives_names(call) && bpf_map_lookup_elem(&devices, &device))
		maybe_named(inode, device, !node, call);
	for (int i = 0; i < NAME_ALIASES; i++) {
		struct dentry *dentry, *parent;
		struct inode *above;

		if (!node)
			break;
		dentry = (void *)node - alias;
		parent = FIELD(struct dentry, dentry, d_parent);
		above = FIELD(struct dentry, parent, d_inode);
		directory = parent == dentry || !above ? 0 : directory_of(above, device);
		/* A name that was deleted is nobody's, whatever is still written to the file. */
		if (directory && FIELD(struct dentry, dentry, d_hash.pprev))
			name_changed(inode, dentry, device, directory->id, call);
		node = BPF_CORE_READ(node, next);
	}
	return 0;
}

/*
 * Whether a new change time may be a copy: of what another machine or process answered, or of the layer below, in
 * whoever happens to ask, who need not have changed anything.
 */
static __always_inline int copies_times(struct inode *inode, u32 call)
{
	switch (BPF_CORE_READ(inode, i_sb, s_magic)) {
	case OVERLAYFS_SUPER_MAGIC:
		/* Readers copy it too, by many calls; in those that change files it is what they changed. */
		return call == CHANGE_CALL_UNKNOWN;
	case FUSE_SUPER_MAGIC:
	case NFS_SUPER_MAGIC:
	case V9FS_MAGIC:
	case CIFS_SUPER_MAGIC:
	case SMB2_SUPER_MAGIC:
	case CEPH_SUPER_MAGIC:
	case AFS_SUPER_MAGIC:
	case AFS_FS_MAGIC:
	case GFS2_MAGIC:
	case OCFS2_SUPER_MAGIC:
	case VBOXSF_SUPER_MAGIC:
	case LUSTRE_SUPER_MAGIC:
		return 1;
	}
	return 0;
}

/* Attached to the tracepoints of the change time, since 6.13 (include/trace/events/timestamp.h). */
SEC("raw_tp")
int change_time(struct bpf_raw_tracepoint_args *ctx)
{
	struct inode *inode = (void *)ctx->args[0];
	u32 call = current_call();

	return copies_times(inode, call) ? 0 : inode_changed(inode, call);
}

struct inode___mode {
	unsigned short i_mode;
} __attribute__((preserve_access_index));

#define S_IFLNK 0120000

/*
 * Attached to writeback_mark_inode_dirty where there are none of those. Readers dirty an inode too, by its access time:
 * so only within system calls that are known to change files, and not to read others meanwhile. But each of them may
 * follow a symbolic link on its way: of one that has a name already it says nothing.
 */
SEC("raw_tp")
int inode_dirty(struct bpf_raw_tracepoint_args *ctx)
{
	struct inode *inode = (void *)ctx->args[0];
	u32 call = current_call();

	if (!call || ((BPF_CORE_READ((struct inode___mode *)inode, i_mode) & S_IFMT) == S_IFLNK &&
		      BPF_CORE_READ(inode, i_dentry.first)))
		return 0;
	return inode_changed(inode, call);
}

/*
 * inotify_handle_inode_event(mark, mask, inode, directory, name, cookie), since 5.11: runs for each event that some inotify
 * watch asked for, in the process that made it. What it has is exactly what the reader of that watch will get.
 */
SEC("kprobe/inotify_handle_inode_event")
int inotify_event(void *ctx)
{
	u32 mask = REGISTER(ctx, si, regs[1]);
	struct inode *inode = (void *)REGISTER(ctx, dx, regs[2]);
	struct inode *above = (void *)REGISTER(ctx, cx, regs[3]);
	struct qstr *name = (void *)REGISTER(ctx, r8, regs[4]);
	struct change_work *work = this_change();
	struct inode *watched = above && name ? above : inode;
	struct directory *directory;
	u32 device;

	if (!(mask & CHANGE_EVENTS) || !watched || !work)
		return 0;
	device = BPF_CORE_READ(watched, i_sb, s_dev);
	directory = directory_of(watched, device);
	if (!directory)
		return 0;
	__builtin_memset(&work->change, 0, sizeof(work->change));
	work->change.device = device;
	work->change.directory = directory->id;
	work->change.mask = mask;
	if (watched != above)
		return send_change(0);
	work->change.flags = CHANGE_OF_NAME;
	put_name(work, BPF_CORE_READ(name, name));
	return send_change((u32)BPF_CORE_READ(name, hash_len));
}

#endif
