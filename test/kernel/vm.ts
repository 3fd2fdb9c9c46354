/**
 * Runs a command of this checkout inside one of Debian's kernels, in a virtual machine of qemu by
 * software emulation. The guest sees the host's files read-only; what it writes stays in its memory.
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { open, readFile, unlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Readable } from 'node:stream';

import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import { channelReader, lineSplitter, markFor } from './channel.ts';
import { type ArchiveFile, writeInitramfs } from './initramfs.ts';
import { type KernelFiles, kernelFiles, type KernelVersion, readModules } from './modules.ts';
import { quote } from './quote.ts';

/** The command to run, and the kernel. */
export interface KernelRunOptions {
  readonly kernel: KernelVersion;
  /** Program and arguments; looked up in PATH, which begins with the checkout's `node_modules/.bin`. */
  readonly command: readonly string[];
  /** Added to the guest's small environment (PATH, HOME, LANG, RAMPART_KERNEL). */
  readonly env?: Readonly<Record<string, string>>;
  /** Memory of the guest, of which what it writes to files is a part. Default 2048. */
  readonly memoryMiB?: number;
  /** For everything from the start of qemu; fetching the kernel at the first run is not counted. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** A line of the command's output, as it comes. */
  readonly onLine?: (line: string) => void;
  /** A line of the kernel's console or of the preparation. */
  readonly onConsole?: (line: string) => void;
  /** Told the process id of qemu when it runs. */
  readonly onStart?: (qemuPid: number) => void;
}

/** How the command ended. */
export interface KernelRun {
  /** As a shell gives it: 127 for a command not found, 128 + n when signal n ended it. */
  readonly exitCode: number;
  /** stdout and stderr together, in the order written. */
  readonly output: string;
  /** From the start of qemu until the command started. */
  readonly bootMs: number;
  /** From the start of qemu until the command had ended. */
  readonly totalMs: number;
}

const checkout = resolve(import.meta.dirname, '../..');
const QEMU = 'qemu-system-x86_64';
const BUSYBOX = '/bin/busybox';
/** Modules that the guest must load to reach its root and to answer. */
const BOOT_MODULES = ['virtio_pci', 'virtio_console', '9pnet_virtio', '9p', 'overlay'];
const CONSOLE_LINES_KEPT = 60;

/** Why {@link runInKernel} cannot work on this machine; undefined when all it needs is there. */
export function kernelRunObstacle(): string | undefined {
  if (process.platform !== 'linux' || process.arch !== 'x64') return 'the guests are x86_64 Linux';
  if (process.getuid?.() !== 0) return 'needs root, so that the guest can read every file';
  const path = (process.env['PATH'] ?? '').split(':').concat('/usr/bin', '/usr/sbin', '/sbin', '/bin');
  const wanted = { [QEMU]: 'qemu-system-x86', busybox: 'busybox-static', depmod: 'kmod', xz: 'xz-utils' };
  const missing = Object.entries(wanted)
    .filter(([program]) => !path.some((directory) => existsSync(join(directory, program))))
    .map(([, debianPackage]) => debianPackage);
  return missing.length === 0 ? undefined : `missing packages: apt-get install ${missing.join(' ')}`;
}

/**
 * Boots the kernel, runs the command as root in the checkout's directory and ends the machine.
 *
 * The guest has the host's root, read-only underneath and writable in memory, with tmpfs on /tmp, /var/tmp
 * and /run; the files of /proc, /sys and /dev are its own. Its network is loopback only. The program's
 * standard input is empty. Host files that change during the run may be seen old or new.
 *
 * qemu is gone when the promise settles, however it settles, and also when this process is killed.
 *
 * @throws {RampartError} `INPUT` for an empty command, `UNSUPPORTED` when this machine lacks a program,
 * `SYSTEM` when the kernel cannot be fetched, panics, hangs past `timeoutMs` or ends before the command;
 * the error shows the console's last lines. Rejects with the signal's reason when aborted.
 */
export async function runInKernel(options: KernelRunOptions): Promise<KernelRun> {
  if (options.command.length === 0) {
    throw new RampartError(errorCodes.INPUT, { what: 'no command to run in the guest' });
  }
  const obstacle = kernelRunObstacle();
  if (obstacle !== undefined) {
    throw new RampartError(errorCodes.UNSUPPORTED, { what: 'cannot boot a kernel here', why: obstacle });
  }
  const { signal, onConsole } = options;
  signal.throwIfAborted();
  const kernel = await kernelFiles(options.kernel, {
    signal,
    ...(onConsole === undefined ? {} : { onLine: onConsole }),
  });
  const mark = markFor(randomUUID());
  // A file without a name: it is gone with the last process that has it open, however that one ends.
  const path = join(tmpdir(), `rampart-kernel-${randomUUID()}`);
  await using initramfs = await open(path, 'wx+', 0o600);
  await unlink(path);
  await initramfs.writeFile(await buildInitramfs(kernel, options, mark));
  return await boot(kernel, initramfs.fd, mark, options);
}

async function buildInitramfs(
  kernel: KernelFiles,
  options: KernelRunOptions,
  mark: string,
): Promise<Uint8Array> {
  const [busybox, init, run, modules] = await Promise.all([
    readFile(BUSYBOX),
    readFile(join(import.meta.dirname, 'guest-init.sh')),
    readFile(join(import.meta.dirname, 'guest-run.sh')),
    readModules(kernel.modulesDirectory, BOOT_MODULES),
  ]);
  const files: ArchiveFile[] = [
    { path: 'bin/busybox', mode: 0o755, content: busybox },
    { path: 'init', mode: 0o755, content: init },
    { path: 'guest-run.sh', mode: 0o755, content: run },
    { path: 'settings', mode: 0o644, content: Buffer.from(guestSettings(kernel, options, mark)) },
    // The start script loads them in the order of their names.
    ...modules.map(({ name, content }, index) => ({
      path: `modules/${String(index).padStart(2, '0')}-${name}`,
      mode: 0o644,
      content,
    })),
  ];
  return writeInitramfs(files);
}

/** Settings for the start scripts: variables, and the function that becomes the command. */
function guestSettings(kernel: KernelFiles, options: KernelRunOptions, mark: string): string {
  const env = {
    PATH: `${checkout}/node_modules/.bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
    HOME: '/root',
    LANG: 'C.UTF-8',
    RAMPART_KERNEL: options.kernel,
    ...options.env,
  };
  const assignments = Object.entries(env).map(([name, value]) => quote(`${name}=${value}`));
  return [
    `CHECKOUT=${quote(checkout)}`,
    `MODULES=${quote(kernel.modulesDirectory)}`,
    `MARK=${quote(mark)}`,
    // Not busybox's env: it would prefer its own applets to the programs of these names.
    `launch() { cd "$CHECKOUT" && exec /usr/bin/env -i ${assignments.join(' ')} ${options.command.map(quote).join(' ')}; }`,
    '',
  ].join('\n');
}

function qemuArguments(kernel: KernelFiles, memoryMiB: number): string[] {
  const kernelCommandLine = [
    'console=ttyS0',
    'loglevel=7',
    'panic=-1',
    // The kernel only estimates the rate of the processors' counter. On a busy host that has been wrong by far, so that
    // hours passed in a minute and every timeout was over at once. The rate of the HPET is given
    // (arch/x86/kernel/hpet.c).
    'clocksource=hpet',
    // Emulation gives all processors the one counter of the host: no need to watch it.
    'tsc=reliable',
  ];
  return [
    '-nodefaults -no-user-config -display none -no-reboot -nic none',
    // Not microvm: without HPET and PM timer, the guest cannot measure its clock's rate on a busy host and
    // hangs. One thread runs both processors in turns: with a thread for each, about one boot in a hundred
    // panicked where the kernel rewrites its own code, which is also what attaching a program does. Never
    // kvm: where the hypervisor below does not really offer it, qemu hangs.
    '-machine pc -accel tcg,thread=single -cpu max -smp 2',
    `-m ${memoryMiB}M`,
    '-chardev stdio,id=console,signal=off -serial chardev:console',
    '-device virtio-serial-pci -chardev socket,id=output,fd=3',
    '-device virtserialport,chardev=output,name=rampart.output',
    '-fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap',
    '-device virtio-9p-pci,fsdev=root,mount_tag=rampart-root',
  ]
    .flatMap((line) => line.split(' '))
    .concat('-kernel', kernel.image, '-initrd', '/proc/self/fd/4', '-append', kernelCommandLine.join(' '));
}

/**
 * Starts qemu, with the output channel as its descriptor 3 and the initramfs as 4, and waits for the
 * command's end; qemu is gone when this settles.
 */
async function boot(
  kernel: KernelFiles,
  initramfsFd: number,
  mark: string,
  options: KernelRunOptions,
): Promise<KernelRun> {
  const { signal, timeoutMs } = options;
  const startMs = performance.now();
  const sinceStartMs = (): number => Math.round(performance.now() - startMs);
  // nice and setpriv become qemu, under the same process id, with the order to die when this process does. It uses all of a CPU while tests
  // beside it wait for most of their time: with an equal share it would be the last to end by far.
  const qemu = spawn(
    'nice',
    [
      ...['-n', '-3', 'setpriv', '--pdeathsig', 'KILL'],
      ...[QEMU, ...qemuArguments(kernel, options.memoryMiB ?? 2048)],
    ],
    { stdio: ['ignore', 'pipe', 'pipe', 'pipe', initramfsFd] },
  );
  const consoleTail: string[] = [];
  let output = '';
  let bootMs = 0;
  let ended: { readonly exitCode: number; readonly totalMs: number } | undefined;
  let stopped: 'timeout' | 'abort' | undefined;

  const toConsole = lineSplitter((line) => {
    consoleTail.push(line);
    if (consoleTail.length > CONSOLE_LINES_KEPT) consoleTail.shift();
    options.onConsole?.(line);
  });
  const toLines = lineSplitter((line) => options.onLine?.(line));
  const end = (): void => void qemu.kill('SIGKILL');
  const read = channelReader(mark, {
    started() {
      bootMs = sinceStartMs();
    },
    output(text) {
      output += text;
      toLines.write(text);
    },
    exited(exitCode) {
      ended = { exitCode, totalMs: sinceStartMs() };
      end();
    },
  });
  // A pipe of spawn is a socket pair, so that qemu can take its end as a connected socket.
  const channel = qemu.stdio[3] as Readable;
  channel.on('data', read);
  // Ending qemu while it writes resets its end of the pair; what counts is whether the mark came.
  channel.on('error', () => {});
  for (const stream of [qemu.stdout, qemu.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => toConsole.write(text));
  }
  const onAbort = (): void => {
    stopped ??= 'abort';
    end();
  };
  signal.addEventListener('abort', onAbort, { once: true });
  const timer = setTimeout(() => {
    stopped ??= 'timeout';
    end();
  }, timeoutMs);
  try {
    await new Promise<void>((settle, reject) => {
      qemu.once('error', reject);
      qemu.once('spawn', () => options.onStart?.(qemu.pid ?? 0));
      qemu.once('close', () => settle());
      if (signal.aborted) onAbort();
    });
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
  toConsole.end();
  toLines.end();
  if (ended !== undefined) return { ...ended, output, bootMs };
  signal.throwIfAborted();
  throw new RampartError(errorCodes.SYSTEM, {
    what: `kernel ${kernel.release} did not finish ${options.command.join(' ')}`,
    why:
      stopped === 'timeout'
        ? `${bootMs === 0 ? 'it did not get to the command' : 'the command did not end'} within ${timeoutMs} ms`
        : `the machine ended after ${sinceStartMs()} ms`,
    detail: [
      `last lines of the console:`,
      ...consoleTail,
      `last lines of the command:`,
      ...output.trimEnd().split('\n').slice(-20),
    ].join('\n'),
  });
}
