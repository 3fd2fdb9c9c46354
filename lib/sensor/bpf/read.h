/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Reads kernel memory in the cheapest way that the running kernel offers. */
#ifndef RAMPART_READ_H
#define RAMPART_READ_H

#include "sensor.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

struct state state = {};
const volatile struct settings settings = {};

/*
 * With this kfunc (6.2), the JIT turns typed loads into plain load instructions, and a fault reads as zero.
 * Without it, every field costs a helper call.
 */
extern void *bpf_rdonly_cast(const void *object, u32 btf_id) __ksym __weak;
#define TYPED(type, pointer) ((type *)bpf_rdonly_cast((pointer), bpf_core_type_id_kernel(type)))

#define ON_X86 bpf_core_field_exists(struct pt_regs___x86, di)

/* In place of a generation: lower layers never change, so the inode number of a lower file is never reused. */
#define GENERATION_OF_LOWER 0xffffffff

static __always_inline u32 generation_of(struct inode *inode)
{
	struct super_block *sb = BPF_CORE_READ(inode, i_sb);

	/* An overlay inode has no generation of its own, and the inode number of a deleted upper file is reused. */
	if (BPF_CORE_READ(sb, s_magic) == OVERLAYFS_SUPER_MAGIC && bpf_core_type_exists(struct ovl_inode)) {
		struct ovl_inode *overlay =
			(void *)inode - bpf_core_field_offset(struct ovl_inode, vfs_inode);
		struct dentry *upper;

		/*
		 * OVL_CONST_INO: the inode keeps the lower file's number when it is copied up. With layers on several file
		 * systems, a file of the upper layer may have the same number; this value distinguishes them.
		 */
		if (bpf_core_enum_value_exists(enum ovl_inode_flag, OVL_CONST_INO) &&
		    BPF_CORE_READ(overlay, flags) >> bpf_core_enum_value(enum ovl_inode_flag, OVL_CONST_INO) & 1)
			return GENERATION_OF_LOWER;
		upper = BPF_CORE_READ(overlay, __upperdentry);
		/* No upper file: one of several hard links in the lower layer, which a copy-up will separate. */
		return upper ? BPF_CORE_READ(upper, d_inode, i_generation) : 0;
	}
	return BPF_CORE_READ(inode, i_generation);
}

/* The open file behind a descriptor of the current process; 0 if the descriptor is not open. */
static __always_inline struct file *file_of(u32 fd)
{
	struct file *file = 0;

	if (bpf_rdonly_cast) {
		struct task_struct *task = (void *)bpf_get_current_task_btf();
		struct fdtable *fdt;

		if (!task->files)
			return 0;
		fdt = task->files->fdt;
		if (!fdt || fd >= fdt->max_fds)
			return 0;
		/* A typed load needs a structure to load from: struct path begins with a pointer. */
		return (void *)TYPED(struct path, fdt->fd + fd)->mnt;
	} else {
		struct task_struct *task = (void *)bpf_get_current_task();
		struct fdtable *fdt = BPF_CORE_READ(task, files, fdt);

		if (fd >= BPF_CORE_READ(fdt, max_fds))
			return 0;
		bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(fdt, fd) + fd);
		return file;
	}
}

static __always_inline struct inode *inode_of(struct file *file)
{
	if (bpf_rdonly_cast)
		return TYPED(struct file, file)->f_inode;
	return BPF_CORE_READ(file, f_inode);
}

#endif
