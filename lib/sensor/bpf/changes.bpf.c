// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Who makes changes in a watched directory. inotify reports what changed; these programs report which process did it.
 *
 * A separate object, so that users who watch only accesses do not load it.
 */
#include "change_hooks.h"
#include "identify.h"

/* The verifier allows tracing helpers only to programs with a GPL-compatible license. */
char LICENSE[] SEC("license") = "GPL";
