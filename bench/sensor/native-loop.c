// SPDX-License-Identifier: Apache-2.0
/*
 * The measured loops, in C so that only the system call and its hooks are timed.
 *
 *   native-loop CPU FILE
 *
 * reads commands from stdin, one per line, and answers each with one line:
 *
 *   open|getppid|read ITERATIONS BURSTS   nanoseconds of each burst that was not preempted (or, when
 *                                         all were, of all)
 *   pace COUNT INTERVAL_NS                COUNT opens of FILE at a fixed pace; answers how many
 *   open32                                one open of FILE through the 32-bit gate (int $0x80): its descriptor, or less than 0
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_BURSTS 4096

/* In a non-PIE program this is below 4 GiB, as the 32-bit gate truncates pointers. */
static char file[4096];

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static long preemptions(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nivcsw;
}

static void open_once(void)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		perror(file);
		exit(1);
	}
	close(fd);
}

static void burst(const char *what, int fd, long iterations)
{
	char byte;

	switch (*what) {
	case 'o':
		for (long i = 0; i < iterations; i++)
			open_once();
		break;
	case 'g':
		for (long i = 0; i < iterations; i++)
			syscall(SYS_getppid);
		break;
	case 'r':
		for (long i = 0; i < iterations; i++)
			if (pread(fd, &byte, 1, 0) != 1)
				exit(1);
		break;
	}
}

static void measure(const char *what, long iterations, long bursts)
{
	static long long took[MOST_BURSTS];
	static char clean[MOST_BURSTS];
	int fd = open(file, O_RDONLY | O_CLOEXEC), any = 0;

	burst(what, fd, iterations); /* warms up */
	for (long i = 0; i < bursts && i < MOST_BURSTS; i++) {
		long before = preemptions();
		long long start = now_ns();

		burst(what, fd, iterations);
		took[i] = now_ns() - start;
		clean[i] = preemptions() == before;
		any |= clean[i];
	}
	close(fd);
	for (long i = 0; i < bursts && i < MOST_BURSTS; i++)
		if (clean[i] || !any)
			printf("%lld ", took[i]);
	printf("\n");
}

static void pace(long count, long interval_ns)
{
	long long due = now_ns();

	for (long i = 0; i < count; i++) {
		struct timespec until = { due / 1000000000LL, due % 1000000000LL };

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0) == EINTR)
			;
		open_once();
		due += interval_ns;
	}
	printf("%ld\n", count);
}

#ifdef __x86_64__
static sigjmp_buf no_gate;

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(no_gate, 1);
}
#endif

static void open32(void)
{
#ifdef __x86_64__
	long fd;

	/* Without the gate, as below some hypervisors, int raises a general protection fault: SIGSEGV. */
	signal(SIGSEGV, on_fault);
	if (sigsetjmp(no_gate, 1)) {
		printf("%d\n", -ENOSYS);
		return;
	}
	asm volatile("int $0x80" : "=a"(fd) : "a"(5), "b"(file), "c"(O_RDONLY), "d"(0) : "memory", "r8", "r9", "r10", "r11");
	printf("%ld\n", fd);
	if (fd >= 0)
		close(fd);
#else
	printf("%d\n", -ENOSYS);
#endif
}

int main(int argc, char **argv)
{
	char line[128], what[16];
	long a, b;

	if (argc != 3 || strlen(argv[2]) >= sizeof(file))
		return 2;
	strcpy(file, argv[2]);
	if (atoi(argv[1]) >= 0) {
		cpu_set_t cpus;

		CPU_ZERO(&cpus);
		CPU_SET(atoi(argv[1]), &cpus);
		if (sched_setaffinity(0, sizeof(cpus), &cpus))
			return 2;
	}
	setvbuf(stdout, 0, _IOFBF, 1 << 16);
	while (fgets(line, sizeof(line), stdin)) {
		a = b = 0;
		if (sscanf(line, "%15s %ld %ld", what, &a, &b) < 1)
			return 2;
		if (!strcmp(what, "open32"))
			open32();
		else if (!strcmp(what, "pace"))
			pace(a, b);
		else
			measure(what, a, b);
		fflush(stdout);
	}
	return 0;
}
