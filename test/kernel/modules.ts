/** The kernel image and the modules of a fetched Debian kernel package. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { zstdDecompressSync } from 'node:zlib';

import { debianPackage } from '../../scripts/debian-packages.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import { unpackKernel } from './image.ts';
import { unpackXz } from './xz.ts';

const execFileAsync = promisify(execFile);

/** The kernels the tests run on, by the ids of `scripts/debian-packages.json`. */
export const kernelVersions = ['6.1', '6.12'] as const;
export type KernelVersion = (typeof kernelVersions)[number];

/** A kernel ready to boot. */
export interface KernelFiles {
  /** The output of `uname -r` in the guest. */
  readonly release: string;
  /** Path of the uncompressed kernel, which qemu starts directly. */
  readonly image: string;
  /** Directory with `kernel/` and `modules.dep`, for `/lib/modules/<release>`. */
  readonly modulesDirectory: string;
}

/**
 * The files of Debian's kernel, fetched at the first call, with the module index made by depmod
 * and the kernel unpacked.
 *
 * @throws {RampartError} as `debianPackage` and `unpackKernel`; `UNSUPPORTED` when depmod is not installed.
 */
export async function kernelFiles(
  version: KernelVersion,
  options: { readonly signal: AbortSignal; readonly onLine?: (line: string) => void },
): Promise<KernelFiles> {
  const { root } = await debianPackage(`kernel-${version}`, options);
  const [release] = await readdir(join(root, 'lib/modules'));
  if (release === undefined) {
    throw new RampartError(errorCodes.UNSUPPORTED, { what: `${root} has no modules` });
  }
  const modulesDirectory = join(root, 'lib/modules', release);
  // The package's own installation script would run depmod; the stamp says that it ran to its end.
  const stamp = join(modulesDirectory, '.depmod-done');
  if (!existsSync(stamp)) {
    try {
      await execFileAsync('depmod', ['-b', root, release], {
        env: { ...process.env, PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin` },
        signal: options.signal,
      });
    } catch (error) {
      options.signal.throwIfAborted();
      throw new RampartError(errorCodes.UNSUPPORTED, {
        what: `cannot index the modules of ${release}`,
        why: error instanceof Error ? error.message : String(error),
        next: 'Install depmod: apt-get install kmod',
        cause: error,
      });
    }
    await writeFile(stamp, '');
  }
  const image = join(root, `boot/vmlinux-${release}`);
  if (!existsSync(image)) {
    const unpacked = await unpackKernel(await readFile(join(root, `boot/vmlinuz-${release}`)));
    await writeFile(`${image}.${process.pid}`, unpacked);
    await rename(`${image}.${process.pid}`, image);
  }
  return { release, image, modulesDirectory };
}

/** The name by which modprobe knows a module file: `kernel/net/9p/9pnet-virtio.ko.xz` is `9pnet_virtio`. */
function moduleName(path: string): string {
  return basename(path)
    .replace(/\.ko(\..*)?$/, '')
    .replaceAll('-', '_');
}

/**
 * The files to load for `names`, in the order to load them: what a module needs comes before it.
 * A name that is in `builtin` (the text of modules.builtin) needs nothing.
 *
 * @param dependencies the text of modules.dep (modules.dep(5)): `path: what it needs, last one first`
 * @throws {RampartError} `UNSUPPORTED` when the kernel has no module of that name.
 */
export function loadOrder(dependencies: string, builtin: string, names: readonly string[]): string[] {
  const byName = new Map<string, string[]>();
  for (const line of dependencies.split('\n')) {
    const colon = line.indexOf(':');
    if (colon < 0) continue;
    const path = line.slice(0, colon);
    const needs = line
      .slice(colon + 1)
      .split(' ')
      .filter(Boolean)
      .toReversed();
    byName.set(moduleName(path), [...needs, path]);
  }
  const builtins = new Set(builtin.split('\n').filter(Boolean).map(moduleName));
  const order = new Set<string>();
  for (const name of names) {
    const paths = byName.get(name);
    if (paths === undefined && !builtins.has(name)) {
      throw new RampartError(errorCodes.UNSUPPORTED, { what: `this kernel has no module ${name}` });
    }
    for (const path of paths ?? []) order.add(path);
  }
  return [...order];
}

/** The content of a module file, unpacked when its name says that it is compressed. */
async function readModule(path: string): Promise<Uint8Array> {
  if (path.endsWith('.zst')) return zstdDecompressSync(await readFile(path));
  if (!path.endsWith('.xz')) return readFile(path);
  return unpackXz(await readFile(path));
}

/** The modules `names` and all they need, unpacked, in the order to load them. */
export async function readModules(
  directory: string,
  names: readonly string[],
): Promise<readonly { readonly name: string; readonly content: Uint8Array }[]> {
  const [dependencies, builtin] = await Promise.all(
    ['modules.dep', 'modules.builtin'].map((file) => readFile(join(directory, file), 'utf8')),
  );
  const paths = loadOrder(dependencies ?? '', builtin ?? '', names);
  return Promise.all(
    paths.map(async (path) => ({
      name: moduleName(path),
      content: await readModule(join(directory, path)),
    })),
  );
}
