// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Who changes what is in a watched directory. inotify tells what changed; these programs tell who it was.
 *
 * An object of its own, so that whoever only watches accesses does not load it.
 */
#include "change_hooks.h"
#include "identify.h"

/* The kernel asks for a GPL-compatible word before it lends the tracing helpers. */
char LICENSE[] SEC("license") = "GPL";
