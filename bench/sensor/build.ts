/**
 * The benchmarks' C code, compiled on the spot: the loops, and eBPF programs to compare with. They are not
 * part of the product, so their objects are not committed.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const HERE = import.meta.dirname;

/** A directory of its own for what is compiled; dispose it to remove it. */
export class Build implements Disposable {
  readonly #directory = mkdtempSync(join(tmpdir(), 'rampart-bench-'));

  /** The program with the measured loops. @throws {Error} when there is no C compiler. */
  nativeLoop(): string {
    const binary = join(this.#directory, 'native-loop');
    // Not position independent: the 32-bit open needs its path below 4 GiB.
    const args = ['-O2', '-Wall', '-no-pie', '-o', binary, join(HERE, 'native-loop.c')];
    run('gcc', args, 'gcc libc6-dev');
    return binary;
  }

  /** An object of bench/sensor/bpf, by its name. Flags as in scripts/build-bpf. @throws {Error} without clang 14. */
  bpfObject(name: string): string {
    const object = join(this.#directory, `${name}.bpf.o`);
    const headers = `/usr/include/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`;
    const flags = ['-target', 'bpf', '-mcpu=v3', '-O2', '-g', '-Wall', '-Werror', '-idirafter', headers];
    run(
      'clang-14',
      [...flags, '-c', join(HERE, 'bpf', `${name}.bpf.c`), '-o', object],
      'clang-14 libbpf-dev',
    );
    return object;
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

function run(compiler: string, args: readonly string[], packages: string): void {
  const done = spawnSync(compiler, args, { encoding: 'utf8' });
  if (done.status === 0) return;
  const why = done.error?.message ?? done.stderr;
  throw new Error(
    `${compiler} does not compile ${args.join(' ')}: ${why}\nInstall: apt-get install ${packages}`,
  );
}
