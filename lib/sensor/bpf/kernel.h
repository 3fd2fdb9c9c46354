/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The few kernel types that the sensor reads, each with only the fields it uses. CO-RE relocates every
 * access to the field's offset in the running kernel (preserve_access_index), so order and gaps do not
 * matter here. A name with three underscores is a flavour: libbpf ignores them and what follows when it
 * looks up the type in the kernel's BTF.
 */
#ifndef RAMPART_KERNEL_H
#define RAMPART_KERNEL_H

#include <linux/bpf.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;

/* include/linux/fs.h */
#define MAY_EXEC 1
#define MAY_WRITE 2
#define MAY_READ 4
#define MAY_APPEND 8
#define MAY_ACCESS 16
#define MAY_OPEN 32
#define MAY_NOT_BLOCK 128
#define FMODE_PATH 0x4000
#define FMODE_CREATED 0x100000
/* include/uapi/linux/stat.h */
#define S_IFMT 00170000
#define S_IFREG 0100000
#define O_ACCMODE 3
#define O_TRUNC 01000
#define O_APPEND 02000
#define EPERM 1
#define ECHILD 10
#define EACCES 13
#define EROFS 30
/* include/linux/fs.h, ia_valid of struct iattr */
#define ATTR_MODE 1
#define ATTR_UID 2
#define ATTR_GID 4
#define ATTR_SIZE 8
#define ATTR_ATIME 16
#define ATTR_MTIME 32
/* include/uapi/linux/fs.h */
#define RENAME_EXCHANGE 2
/* include/uapi/asm-generic/mman-common.h, mman.h */
#define PROT_READ 1
#define PROT_WRITE 2
#define PROT_EXEC 4
#define MAP_SHARED_MASK 1 /* MAP_SHARED and MAP_SHARED_VALIDATE both have bit 0 */
#define MAP_ANONYMOUS 0x20
/* include/uapi/linux/io_uring.h, enum io_uring_op: never renumbered */
#define IORING_OP_READV 1
#define IORING_OP_WRITEV 2
#define IORING_OP_READ_FIXED 4
#define IORING_OP_WRITE_FIXED 5
#define IORING_OP_FALLOCATE 17
#define IORING_OP_OPENAT 18
#define IORING_OP_READ 22
#define IORING_OP_WRITE 23
#define IORING_OP_OPENAT2 28
#define IORING_OP_FTRUNCATE 55
/* include/uapi/linux/magic.h */
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#define FUSE_SUPER_MAGIC 0x65735546 /* virtiofs too */
#define NFS_SUPER_MAGIC 0x6969
#define V9FS_MAGIC 0x01021997
#define CIFS_SUPER_MAGIC 0xff534d42
#define SMB2_SUPER_MAGIC 0xfe534d42
#define CEPH_SUPER_MAGIC 0x00c36400
#define AFS_SUPER_MAGIC 0x5346414f
#define AFS_FS_MAGIC 0x6b414653
#define OCFS2_SUPER_MAGIC 0x7461636f
#define GFS2_MAGIC 0x01161970 /* gfs2_ondisk.h */
#define VBOXSF_SUPER_MAGIC 0x786f4256 /* fs/vboxsf */
#define LUSTRE_SUPER_MAGIC 0x0bd00bd0 /* not in the kernel's tree */
/* arch/x86/include/asm/thread_info.h: a 32-bit system call */
#define TS_COMPAT 2
/* arch/arm64/include/asm/thread_info.h: a 32-bit task */
#define TIF_32BIT 22

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct qstr {
	u64 hash_len; /* the hash in the lower half */
	const unsigned char *name;
};

struct hlist_bl_node {
	struct hlist_bl_node **pprev;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct inode;

struct super_block;

struct dentry {
	struct hlist_bl_node d_hash;
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	struct super_block *d_sb;
	union {
		struct hlist_node d_alias;
	} d_u;
};

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
};

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_generation;
	struct hlist_head i_dentry; /* its cached names */
};

/* fs/overlayfs/ovl_entry.h; a module's type, which has BTF only once the module is loaded */
struct ovl_inode {
	unsigned long flags;
	struct inode vfs_inode;
	struct dentry *__upperdentry;
};

struct vfsmount {
	struct dentry *mnt_root;
	struct super_block *mnt_sb;
};

/* 5.12 added the mount's user namespace to vfsmount, and as first argument to inode_permission; 6.2 renamed it. */
struct vfsmount___since_5_12 {
	void *mnt_userns;
};
struct vfsmount___since_6_2 {
	void *mnt_idmap;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

/* The argument of vfs_rename since 5.12 (include/linux/fs.h). */
struct renamedata {
	struct dentry *old_dentry;
	struct dentry *new_dentry;
	unsigned int flags;
};

struct iattr {
	unsigned int ia_valid;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	unsigned int f_flags;
	unsigned int f_mode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct fs_struct {
	struct path root;
	struct path pwd;
};

struct mm_struct {
	struct file *exe_file;
	unsigned long arg_start;
	unsigned long arg_end;
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct mnt_namespace {
	struct ns_common ns;
};

struct nsproxy {
	struct mnt_namespace *mnt_ns;
};

struct kernfs_node {
	struct kernfs_node *parent;
	const char *name;
};
/* 6.15 renamed it. */
struct kernfs_node___since_6_15 {
	struct kernfs_node *__parent;
};

struct cgroup_root;

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
	int level;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct css_set {
	struct cgroup_subsys_state *subsys[1]; /* by enum cgroup_subsys_id */
	struct cgroup *dfl_cgrp;
};

struct thread_info {
	unsigned long flags;
};
struct thread_info___x86 {
	u32 status;
};

/* CONFIG_THREAD_INFO_IN_TASK: x86 and arm64 since 4.9; thread_info is at offset 0 */
struct task_struct {
	struct thread_info thread_info;
	struct mm_struct *mm;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	u64 start_time;
	u32 self_exec_id;
	unsigned in_execve : 1;
	struct fs_struct *fs;
	struct files_struct *files;
	struct nsproxy *nsproxy;
	struct css_set *cgroups;
};

struct linux_binprm {
	struct file *file;
};

/* io_uring/io_uring.h; `cqe` is here since 5.19, when the tracepoint got the request as an argument */
struct io_cqe {
	s32 res;
};

struct io_kiocb {
	struct file *file;
	u8 opcode;
	struct io_cqe cqe;
};

struct pt_regs___x86 {
	unsigned long bp, bx, r10, r9, r8, ax, cx, dx, si, di, orig_ax, sp;
};

struct pt_regs___arm64 {
	u64 regs[31];
	u64 sp;
	u64 orig_x0;
	s32 syscallno;
};

#pragma clang attribute pop

/* include/linux/cgroup_subsys.h: which controllers exist, and so their numbers, depends on the configuration. */
enum cgroup_subsys_id {
	pids_cgrp_id = 11,
};

/* fs/overlayfs/overlayfs.h; bit numbers, since 4.15 */
enum ovl_inode_flag {
	OVL_CONST_INO = 4,
};

#endif
