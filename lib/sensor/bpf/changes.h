/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Layouts that the programs for changes share with lib/sensor/changes, where layout.ts mirrors them.
 * Changes come by the thousand, so they refer by number to processes and directories that are described once.
 */
#ifndef RAMPART_CHANGES_H
#define RAMPART_CHANGES_H

#include "sensor.h"

#define NAME_ALIASES 4 /* how many names of one inode are examined */

struct directory {
	u32 id; /* never reused while the watch is open */
	u32 zero;
};

enum change_record_type {
	CHANGE_RECORD_PROCESS = 1,
	CHANGE_RECORD_CHANGE,
};

/* Followed by struct record (only its fields about the process) with its texts, then the components of the parent's executable. */
struct process_record {
	u32 type;
	u32 facts; /* identifies, together with the pid, the process in its present state */
	u32 parent_bytes;
	u32 zero;
};

/* Without CHANGE_OF_NAME, the directory itself changed; `inode` is then what got a name in it, whatever that name is. */
enum change_flags {
	CHANGE_OF_NAME = 1,
	CHANGE_MADE = 2,  /* the inode is new */
	CHANGE_NAMED = 4, /* it had a name before: renamed or linked */
};

/* How a system call changes files; the values of settings.native_syscalls. 0: it is not known to change files. */
enum change_call {
	CHANGE_CALL_UNKNOWN,
	CHANGE_CALL_CONTENT,
	CHANGE_CALL_NAMES,
	CHANGE_CALL_ATTRIBUTES,
};

struct change {
	u32 type;
	u32 facts;
	u64 time_ns; /* CLOCK_MONOTONIC */
	u64 inode;   /* 0: not known */
	u32 device;
	u32 generation;
	u32 directory;
	u32 mask; /* of the inotify event; 0: the inode changed, but how is not known */
	u32 pid;
	u16 name_bytes;
	u8 flags;
	u8 call;
	/* followed by the name, without NUL */
};

#endif
