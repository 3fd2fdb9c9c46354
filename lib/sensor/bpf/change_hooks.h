/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The hooks that see changes. */
#ifndef RAMPART_CHANGE_HOOKS_H
#define RAMPART_CHANGE_HOOKS_H

#include "change_emit.h"
#include "registers.h"

/* include/linux/fsnotify_backend.h: FS_MODIFY, FS_ATTRIB, FS_CLOSE_WRITE, FS_MOVED_FROM, FS_MOVED_TO, FS_CREATE, FS_DELETE */
#define CHANGE_EVENTS 0x3ce

#define FIELD(type, pointer, field)                                                                          \
	(bpf_rdonly_cast ? TYPED(type, pointer)->field : BPF_CORE_READ((type *)(pointer), field))

/*
 * A new name shows as two changes by one thread, of the inode and of the directory; they are paired here. An inode that is
 * created or linked changes before its directory, one that is renamed after it. Pairing two unrelated changes does no harm:
 * this thread made both.
 */
struct pair_key {
	u64 thread;
	u32 device; /* inodes of an overlay's layers change in between */
	u32 zero;
};

struct pair {
	u64 inode; /* its address; 0: no inode waits for its directory */
	u64 number;
	u64 inode_ns;
	u64 directory_ns;
	u32 directory;
	u32 flags; /* of the inode: CHANGE_MADE or CHANGE_NAMED */
};

/* Both changes are made within one system call. */
#define PAIR_NS 10000000

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct pair_key);
	__type(value, struct pair);
} pairs SEC(".maps");

/* Devices of watched directories. Skips the nameless inodes of other devices, such as pipes and sockets. */
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

/* enum change_call of the running system call. Outside of one (number -1), this is a page fault: a write to a mapping. */
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

/* Whether the call can give an inode a name. Unknown calls can: io_uring_enter and bind do. */
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

/* Sends a change of a directory, with the inode that got a name in it if that is known. */
static __always_inline int send_pair(struct inode *inode, u64 number, u32 flags, u32 device, u32 directory, u32 call)
{
	struct change_work *work = this_change();

	if (!work)
		return 0;
	__builtin_memset(&work->change, 0, sizeof(work->change));
	/* A new inode gets its number before its generation; by now it has both. */
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

/* A watched directory itself changed, usually because a name in it did. */
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
		/* This directory may itself be what was renamed. */
		if (pair->directory != directory && pair->directory && now - pair->directory_ns < PAIR_NS)
			send_pair(inode, FIELD(struct inode, inode, i_ino), CHANGE_NAMED, device, pair->directory, call);
		pair->inode = 0;
		pair->directory = directory;
		pair->directory_ns = now;
	}
	return send_pair(child, number, flags, device, directory, call);
}

/* An inode on a device with watched directories changed, in a call that can give it a name. */
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

/* The kernel sets the inode's change time, in the context of the process that changes it. */
static __always_inline int inode_changed(struct inode *inode, u32 call)
{
	unsigned long alias = bpf_core_field_offset(struct dentry, d_u.d_alias);
	struct super_block *sb = FIELD(struct inode, inode, i_sb);
	u32 device = FIELD(struct super_block, sb, s_dev);
	struct directory *directory = directory_of(inode, device);
	/* Not a typed load: the verifier of some kernels allows no arithmetic on pointers from typed loads. */
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
		/* An unhashed dentry is a deleted name: later writes to the file are not changes in this directory. */
		if (directory && FIELD(struct dentry, dentry, d_hash.pprev))
			name_changed(inode, dentry, device, directory->id, call);
		node = BPF_CORE_READ(node, next);
	}
	return 0;
}

/*
 * Whether the new change time may be a copy: from a server, or from the layer below an overlay. The kernel copies it in the
 * context of any process that uses the file, so the current process need not have changed anything.
 */
static __always_inline int copies_times(struct inode *inode, u32 call)
{
	switch (BPF_CORE_READ(inode, i_sb, s_magic)) {
	case OVERLAYFS_SUPER_MAGIC:
		/* Many calls of mere readers copy it too; in a call that changes files, that call made the change. */
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

/* Attached to the tracepoints of the change time, which exist since 6.13 (include/trace/events/timestamp.h). */
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
 * Attached to writeback_mark_inode_dirty on kernels without those tracepoints. Readers dirty an inode too, by its access
 * time, so only system calls count that change files and read no others meanwhile. Any of them may still follow a symbolic
 * link on its way, so a symbolic link that already has a name is ignored.
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
 * inotify_handle_inode_event(mark, mask, inode, directory, name, cookie), since 5.11: runs for each event that any inotify
 * watch requests, in the process that caused it. Its arguments are exactly what the reader of that watch will get.
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
