/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* From an access to a record in the ring: everything user space will want to say about the process. */
#ifndef RAMPART_RECORD_H
#define RAMPART_RECORD_H

#include "read.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 * 1024 * 1024);
} ring SEC(".maps");

/*
 * Where one access is worked on: what it is, and the record under construction, which is copied
 * into the ring at the end because its length is known last. One per CPU is enough: a program is
 * never entered twice on one CPU (the kernel skips and counts, see recursionMisses), and programs
 * that could meet here run with preemption off.
 */
struct work {
	u64 busy;
	struct access access;
	struct dentry *from_parent; /* 0: there is no name before */
	struct dentry *to;	    /* 0: there is no name behind */
	u8 from_name[NAME_BYTES];
	u64 bucket_born_ns;
	u32 folded_total;
	u32 cut; /* put_path did not reach a root */
	struct path root;
	struct path path;
	u64 used; /* put_path has written so many bytes */
	u8 record[8192];
};

/* The names that an operation concerns. */
struct names {
	struct dentry *from_parent;
	struct dentry *to;
	u8 from_name[NAME_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct work);
} works SEC(".maps");

static __always_inline struct work *this_work(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&works, &zero);
}

/*
 * Writes the names from work->path up to work->root into the record at `offset`, leaf first, and
 * returns how many bytes. Like d_path, it leaves a mount through its mountpoint.
 *
 * A global function, so that the verifier looks at it once and not once per caller; and every round
 * of the loop must look to it like the one before: limits are constants, and where the walk is stands
 * in the map, of whose values it knows nothing. In registers it would tell apart how each of the 64
 * rounds was come to: 326,000 instructions to verify in place of 20,000 (Linux 6.18), in each program.
 */
__noinline int put_path(u32 offset)
{
	struct vfsmount *root_mount, *vfsmount;
	struct dentry *root_dentry, *dentry;
	struct work *work = this_work();
	u32 used = 0;
	u8 *at;

	if (!work || offset > 6400) /* of 8192, less PATH_BYTES and NAME_BYTES */
		return 0;
	at = work->record + offset;
	root_mount = work->root.mnt;
	root_dentry = work->root.dentry;
	work->used = 0;
	work->cut = 1;
	for (int step = 0; step < PATH_STEPS; step++) {
		struct dentry *mount_root, *parent;
		const unsigned char *name;
		long length;

		used = *(volatile u64 *)&work->used & 2047;
		vfsmount = *(struct vfsmount *volatile *)&work->path.mnt;
		dentry = *(struct dentry *volatile *)&work->path.dentry;
		if (dentry == root_dentry && vfsmount == root_mount) {
			work->cut = 0;
			break;
		}
		mount_root = BPF_CORE_READ(vfsmount, mnt_root);
		if (dentry == mount_root) {
			struct mount *mount = (void *)vfsmount - bpf_core_field_offset(struct mount, mnt);
			struct mount *up = BPF_CORE_READ(mount, mnt_parent);

			if (up == mount) { /* the namespace's root */
				work->cut = 0;
				break;
			}
			work->path.dentry = BPF_CORE_READ(mount, mnt_mountpoint);
			work->path.mnt = (void *)up + bpf_core_field_offset(struct mount, mnt);
			continue;
		}
		parent = BPF_CORE_READ(dentry, d_parent);
		if (!vfsmount && dentry == parent) { /* the root of its file system: see begin_at */
			work->cut = 0;
			break;
		}
		if (used > PATH_BYTES - 1)
			break;
		name = BPF_CORE_READ(dentry, d_name.name);
		length = bpf_probe_read_kernel_str(at + used, NAME_BYTES, name);
		if (length < 0)
			break;
		used = (used + length) & 2047;
		work->used = used;
		if (dentry == parent) { /* not in any tree: memfd and its kin */
			work->cut = 0;
			break;
		}
		work->path.dentry = parent;
	}
	return used;
}

static __always_inline u32 namespace_pid_inum(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	u32 level = BPF_CORE_READ(pid, level);
	struct upid *upid;
	struct pid_namespace *ns = 0;

	/* numbers[] has one entry per level; the kernel allows 32 (kernel/pid_namespace.c, MAX_PID_NS_LEVEL). */
	if (level > 32)
		return 0;
	upid = (void *)pid + bpf_core_field_offset(struct pid, numbers) + level * bpf_core_type_size(struct upid);
	ns = BPF_CORE_READ(upid, ns);
	return BPF_CORE_READ(ns, ns.inum);
}

/*
 * The cgroup that tells containers and units apart: that of version 1 where the number of processes is limited there, since
 * container runtimes and systemd make one there for all that they start. They need not in the other hierarchy.
 */
static __always_inline struct cgroup *cgroup_of(struct task_struct *task)
{
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	struct cgroup *unified = BPF_CORE_READ(set, dfl_cgrp), *cgroup;
	struct cgroup_subsys_state *pids = 0;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, pids_cgrp_id))
		return unified;
	bpf_probe_read_kernel(&pids, sizeof(pids),
			      (void *)set + bpf_core_field_offset(struct css_set, subsys) +
				      bpf_core_enum_value(enum cgroup_subsys_id, pids_cgrp_id) * sizeof(pids));
	cgroup = BPF_CORE_READ(pids, cgroup);
	if (!cgroup || BPF_CORE_READ(cgroup, root) == BPF_CORE_READ(unified, root) || !BPF_CORE_READ(cgroup, level))
		return unified;
	return cgroup;
}

/* Writes the names of the cgroup up to the root into the record at `offset`, as put_path does. */
__noinline int put_cgroup(u32 offset)
{
	struct cgroup *cgroup = cgroup_of((void *)bpf_get_current_task());
	struct kernfs_node *node = BPF_CORE_READ(cgroup, kn);
	struct work *work = this_work();
	u32 used = 0;
	u8 *at;

	if (!work)
		return 0;
	at = work->record + (offset & 4095);
	work->cut = 1;
	for (int step = 0; step < CGROUP_STEPS; step++) {
		struct kernfs_node *parent;
		long length;

		if (bpf_core_field_exists(struct kernfs_node___since_6_15, __parent))
			parent = BPF_CORE_READ((struct kernfs_node___since_6_15 *)node, __parent);
		else
			parent = BPF_CORE_READ(node, parent);
		if (!parent) {
			work->cut = 0;
			return used;
		}
		if (used > PATH_BYTES - 1)
			break;
		length = bpf_probe_read_kernel_str(at + used, NAME_BYTES, BPF_CORE_READ(node, name));
		if (length < 0)
			break;
		used = (used + length) & 2047;
		node = parent;
	}
	return 0;
}

/*
 * Fills in all but the access itself: who the current process is, its texts behind the fixed part. The record
 * is at `base` in work->record. Returns where it ends.
 */
static __always_inline u32 put_process(struct work *work, u32 base)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u64 ids = bpf_get_current_pid_tgid(), owner = bpf_get_current_uid_gid();
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	struct fs_struct *fs = BPF_CORE_READ(task, fs);
	struct record *record = (void *)(work->record + base);
	u32 offset = base + sizeof(struct record), bytes = 0;
	struct file *executable;
	struct inode *inode;
	u8 flags = 0;

	record->tid = (u32)ids;
	record->pid = ids >> 32;
	record->uid = (u32)owner;
	record->gid = owner >> 32;
	record->ppid = BPF_CORE_READ(task, real_parent, tgid);
	record->cgroup_id = bpf_get_current_cgroup_id();
	record->pid_namespace = namespace_pid_inum(task);
	record->mount_namespace = BPF_CORE_READ(task, nsproxy, mnt_ns, ns.inum);
	bpf_get_current_comm(record->comm, sizeof(record->comm));

	/* A kernel thread has neither; what cannot be read stays zero and ends the walk at once. */
	work->root.mnt = BPF_CORE_READ(fs, root.mnt);
	work->root.dentry = BPF_CORE_READ(fs, root.dentry);

	executable = BPF_CORE_READ(mm, exe_file);
	inode = BPF_CORE_READ(executable, f_inode);
	record->executable_inode = BPF_CORE_READ(inode, i_ino);
	record->executable_device = BPF_CORE_READ(inode, i_sb, s_dev);
	record->executable_generation = inode ? generation_of(inode) : 0;
	if (executable) {
		struct dentry *dentry = BPF_CORE_READ(executable, f_path.dentry);

		work->path.mnt = BPF_CORE_READ(executable, f_path.mnt);
		work->path.dentry = dentry;
		if (!BPF_CORE_READ(dentry, d_hash.pprev))
			flags |= EXECUTABLE_DELETED;
		bytes = put_path(offset) & 2047;
		if (work->cut)
			flags |= EXECUTABLE_CUT;
	}
	record->executable_bytes = bytes;
	offset += bytes;

	bytes = 0;
	if (fs) {
		work->path.mnt = BPF_CORE_READ(fs, pwd.mnt);
		work->path.dentry = BPF_CORE_READ(fs, pwd.dentry);
		bytes = put_path(offset) & 2047;
		if (work->cut)
			flags |= CWD_CUT;
	}
	record->cwd_bytes = bytes;
	offset += bytes;

	bytes = 0;
	if (mm) {
		unsigned long from = BPF_CORE_READ(mm, arg_start);
		u64 size = BPF_CORE_READ(mm, arg_end) - from;

		if (size > ARGUMENT_BYTES) {
			size = ARGUMENT_BYTES;
			flags |= ARGUMENTS_CUT;
		}
		/* The compiler knows that the mask changes nothing; the verifier must see it happen. */
		asm volatile("" : "+r"(size));
		bytes = size & 2047;
		if (bpf_probe_read_user(work->record + (offset & 4095), bytes, (void *)from)) {
			flags |= ARGUMENTS_UNREADABLE; /* paged out; a tracing program must not wait for the disk */
			bytes = 0;
		}
	}
	record->argument_bytes = bytes;
	offset += bytes;

	bytes = put_cgroup(offset) & 2047;
	if (work->cut)
		flags |= CGROUP_CUT;
	record->cgroup_bytes = bytes;
	record->from_bytes = 0;
	__builtin_memset(record->zero, 0, sizeof(record->zero));
	record->to_bytes = 0;
	record->flags = flags;
	return offset + bytes;
}

static __always_inline void put_names(struct work *work, struct names *names)
{
	work->from_parent = 0;
	work->to = work->access.name;
	if (!names)
		return;
	work->from_parent = names->from_parent;
	work->to = names->to;
	bpf_probe_read_kernel(work->from_name, NAME_BYTES, names->from_name);
}

/*
 * A dentry has no mount: where the root or the working directory of the process is on the same file system, the name is
 * what the process sees; otherwise it begins at the root of the file system.
 */
static __always_inline void begin_at(struct work *work, struct dentry *dentry)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct super_block *sb = BPF_CORE_READ(dentry, d_sb);
	struct vfsmount *root = BPF_CORE_READ(task, fs, root.mnt), *cwd = BPF_CORE_READ(task, fs, pwd.mnt);

	work->root.mnt = root;
	work->root.dentry = BPF_CORE_READ(task, fs, root.dentry);
	work->path.mnt = BPF_CORE_READ(root, mnt_sb) == sb ? root : BPF_CORE_READ(cwd, mnt_sb) == sb ? cwd : 0;
	work->path.dentry = dentry;
	if (!work->path.mnt)
		((struct record *)work->record)->flags |= NAMES_OF_FILE_SYSTEM;
}

/* Puts the names behind the process; returns where they end. Global for the verifier's sake, see put_path. */
__noinline int put_names_of_operation(u32 offset)
{
	struct work *work = this_work();
	struct record *record;
	long length;
	u32 bytes;

	if (!work)
		return 0;
	record = (void *)work->record;
	offset &= 8191;
	if (work->from_parent && offset < 5120) {
		length = bpf_probe_read_kernel_str(work->record + offset, NAME_BYTES, work->from_name);
		bytes = length > 0 ? length & 511 : 0;
		begin_at(work, work->from_parent);
		bytes += put_path(offset + bytes) & 2047;
		record->from_bytes = bytes;
		offset += bytes;
	}
	if (work->to && offset <= 6400) {
		begin_at(work, work->to);
		bytes = put_path(offset) & 2047;
		record->to_bytes = bytes;
		offset += bytes;
	}
	return offset;
}

/* Takes work->access out of the kernel: ends it as emitted or lost. */
__noinline int send(void)
{
	struct work *work = this_work();
	struct record *record;
	u32 end;

	if (!work)
		return 0;
	record = (void *)work->record;
	record->time_ns = work->access.time_ns;
	record->inode = work->access.inode;
	record->device = work->access.device;
	record->mask = work->access.mask;
	record->target_id = work->access.target_id;
	record->verdict = work->access.verdict;
	record->bucket_born_ns = work->bucket_born_ns;
	record->folded_total = work->folded_total;
	end = put_names_of_operation(put_process(work, 0));
	if (bpf_ringbuf_output(&ring, work->record, end & 8191, 0))
		__sync_fetch_and_add(&state.counters.lost_ring_full, 1);
	else
		__sync_fetch_and_add(&state.counters.emitted, 1);
	return 0;
}

#endif
