/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the programs that see changes and the files of lib/sensor/changes agree on; layout.ts there mirrors it.
 * Processes and directories are told once and named by numbers then, because changes come in thousands.
 */
#ifndef RAMPART_CHANGES_H
#define RAMPART_CHANGES_H

#include "sensor.h"

#define NAME_ALIASES 4 /* names of one inode that are looked at */

struct directory {
	u32 id; /* never reused while the watch is open */
	u32 zero;
};

enum change_record_type {
	CHANGE_RECORD_PROCESS = 1,
	CHANGE_RECORD_CHANGE,
};

/* Then struct record (only what is about the process) with its texts, then the components of the parent's executable. */
struct process_record {
	u32 type;
	u32 facts; /* names the process at that moment, together with its pid */
	u32 parent_bytes;
	u32 zero;
};

/* Of the directory itself when there is no name. The inode is then of what was put into it, whatever its name. */
enum change_flags {
	CHANGE_OF_NAME = 1,
	CHANGE_MADE = 2,  /* the inode is new */
	CHANGE_NAMED = 4, /* it had a name before: renamed or linked */
};

/* How the system call changes files: settings.native_syscalls holds these. 0: it is not known to change any. */
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
	u32 mask; /* of the inotify event; 0: the inode was seen to change, how is not known */
	u32 pid;
	u16 name_bytes;
	u8 flags;
	u8 call;
	/* then the name, without NUL */
};

#endif
