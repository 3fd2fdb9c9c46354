// Stands in for the scan engine until that is there.
import { createHash } from 'node:crypto';
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import type { AideConf } from '../aide-conf/conf.ts';
import type { Batches } from '../batches.ts';
import type { ByteString, Entry, FileType, ScanProblem } from '../entry.ts';
import type { ScanProgress, ScanRoot } from '../provider.ts';
import { Selection } from '../selection.ts';

export class Scanner implements AsyncDisposable {
  readonly #root: ScanRoot;
  constructor({ root }: { root: ScanRoot; workers?: number; readBytesPerSecond?: number }) {
    this.#root = root;
  }
  scan(
    confs: readonly AideConf[],
    {
      signal,
      onProgress,
    }: { signal: AbortSignal; onProgress?: (p: ScanProgress) => void; expected?: unknown },
  ): readonly Batches<Entry | ScanProblem>[] {
    const selections = confs.map((conf) => new Selection(conf));
    let all: Promise<Entry[][]> | undefined;
    const run = async (): Promise<Entry[][]> => {
      const out: Entry[][] = confs.map(() => []);
      let [files, bytes] = [0, 0];
      const visit = async (path: ByteString): Promise<void> => {
        signal.throwIfAborted();
        if (files++ % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
        const entry = this.#entry(path);
        if (entry === undefined) return;
        let counted = false;
        for (const [at, selection] of selections.entries()) {
          const decision = selection.select(path, entry.type);
          if (decision === undefined) continue;
          if (!counted) bytes += entry.sizeBytes;
          counted = true;
          out[at]?.push({ ...entry, attributes: decision.attributes });
        }
        onProgress?.({ files, bytes });
        if (entry.type !== 'd' || !selections.some((selection) => selection.descend(path))) return;
        const real = this.#real(path);
        for (const name of readdirSync(real, { encoding: 'latin1' }).sort()) {
          await visit(path === '/' ? `/${name}` : `${path}/${name}`);
        }
      };
      await visit(this.#root.prefix === '' ? '/' : this.#root.prefix);
      for (const one of out) one.sort((a, b) => (a.path < b.path ? -1 : 1));
      return out;
    };
    return confs.map(async function* (_, at) {
      all ??= run();
      yield (await all)[at] ?? [];
    });
  }
  async *look(
    conf: AideConf,
    paths: readonly { readonly path: ByteString; readonly below: boolean }[],
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<readonly (Entry | ScanProblem)[]> {
    const selection = new Selection(conf);
    signal.throwIfAborted();
    const out: Entry[] = [];
    for (const { path } of paths) {
      const entry = this.#entry(path);
      const decision = entry && selection.select(path, entry.type);
      if (entry !== undefined && decision !== undefined)
        out.push({ ...entry, attributes: decision.attributes });
    }
    yield out;
  }
  async digestStart(): Promise<undefined> {
    return undefined;
  }
  async [Symbol.asyncDispose](): Promise<void> {}
  #real(path: ByteString): Buffer {
    const { directory, prefix } = this.#root;
    return Buffer.concat([Buffer.from(directory), Buffer.from(path.slice(prefix.length), 'latin1')]);
  }
  #entry(path: ByteString): Entry | undefined {
    const real = this.#real(path);
    const stat = lstatSync(real, { throwIfNoEntry: false });
    if (stat === undefined) return undefined;
    const type: FileType = stat.isFile() ? 'f' : stat.isDirectory() ? 'd' : stat.isSymbolicLink() ? 'l' : 'p';
    const content = type === 'f' ? readFileSync(real) : undefined;
    return {
      path,
      type,
      attributes: 0,
      permissions: stat.mode & 0o7777,
      ...{
        uid: stat.uid,
        gid: stat.gid,
        linkCount: stat.nlink,
        inode: BigInt(stat.ino),
        sizeBytes: stat.size,
      },
      ...{ blockCount: stat.blocks, accessTimeS: 0, modifyTimeS: Math.floor(stat.mtimeMs / 1000) },
      changeTimeS: Math.floor(stat.ctimeMs / 1000),
      linkTarget: type === 'l' ? readlinkSync(real, 'latin1') : '',
      ...{ acl: '', defaultAcl: '', selinux: '', xattrs: [], e2fsAttributes: 0, capabilities: '' },
      sha256: content === undefined ? Buffer.alloc(0) : createHash('sha256').update(content).digest(),
      sha512: Buffer.alloc(0),
    };
  }
}
