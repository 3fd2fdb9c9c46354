/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Writes an access to the ring, with everything that user space needs to describe the process. */
#ifndef RAMPART_RECORD_H
#define RAMPART_RECORD_H

#include "read.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 * 1024 * 1024);
} ring SEC(".maps");

/*
 * An access that is being processed, and its record, which is built here and then copied into the ring, because
 * its length is known only at the end. One per CPU is enough: the kernel never enters a program twice on one CPU
 * (it skips and counts the second run, see recursionMisses), and programs that share this buffer run with
 * preemption off or are kept apart by `busy`.
 */
struct work {
	u64 busy;
	struct access access;
	struct dentry *from_parent; /* directory of the old name; 0: there is no old name */
	struct dentry *to;	    /* the new name; 0: there is none */
	u8 from_name[NAME_BYTES];
	u64 bucket_born_ns;
	u32 folded_total;
	u32 cut; /* put_path did not reach a root */
	struct path root;
	struct path path;
	u64 used; /* bytes that put_path has written */
	u8 record[8192];
};

/* The names of a file before (`from`) and after (`to`) an operation. */
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
 * Writes the components from work->path up to work->root into the record at `offset`, leaf first, and
 * returns their size in bytes. Like d_path, it leaves a mount through its mountpoint.
 *
 * A global function, so that the verifier checks it once rather than once per caller. Each iteration of the loop
 * must also look the same to the verifier: the limits are constants, and the position is kept in the map, whose
 * values the verifier does not track. With the position in registers, it would explore every path to each of the
 * 64 iterations: 326,000 instructions to verify instead of 20,000 (Linux 6.18), in each program.
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
		if (!vfsmount && dentry == parent) { /* the root of the file system: see begin_at */
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
		if (dentry == parent) { /* not in any directory, such as a memfd */
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
 * The cgroup that identifies the container or unit. If the pids controller is in a version 1 hierarchy, it is the one there:
 * container runtimes and systemd create one in it for everything they start, but not always in the unified hierarchy.
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

/* Writes the components of the cgroup's path into the record at `offset`, leaf first, as put_path does. */
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
 * Fills in the current process: the fields of the record at `base` in work->record, then its texts. The access
 * itself is left to the caller. Returns the offset of the record's end.
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

	/* A kernel thread may lack mm or fs; failed reads give zero, which ends the walk immediately. */
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
		/* The compiler would drop the mask as redundant, but the verifier needs it as a bound. */
		asm volatile("" : "+r"(size));
		bytes = size & 2047;
		if (bpf_probe_read_user(work->record + (offset & 4095), bytes, (void *)from)) {
			flags |= ARGUMENTS_UNREADABLE; /* paged out, and a tracing program must not sleep */
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
 * A dentry belongs to a file system, not to a mount. If the root or the working directory of the process is on the same file
 * system, its mount gives the path that the process sees; otherwise the path begins at the root of the file system.
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

/* Appends the names at `offset`; returns the offset of their end. A global function for the verifier, see put_path. */
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

/* Writes work->access to the ring, and counts it as emitted or lost. */
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
