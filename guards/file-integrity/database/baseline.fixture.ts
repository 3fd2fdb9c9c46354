/** Entries, keys and temporary directories for the tests of this room. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setOf } from '../model/attributes.ts';
import type { Entry } from '../model/entry.ts';
import { BaselineError, type BaselineFault } from './baseline-error.ts';
import { EntryBlock } from './entry-block.ts';
import { EntryEncoder, has } from './entry-codec.ts';
import type { SigningKey } from './signature.ts';

export const secretKey: SigningKey = { scheme: 'hmac-sha256', secret: Buffer.alloc(32, 7) };
export const pairKey: SigningKey = { scheme: 'ed25519', ...generateKeyPairSync('ed25519') };
export const header = { rampartVersion: '0.1.0', madeAtMs: 1_700_000_000_000, configDigest: 'abc' };

/** A directory of its own for a test, removed with it. */
export function temporaryDirectory(): { path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), 'rampart-baseline-'));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

const empty: Entry = {
  ...{ path: '/', type: 'f', attributes: 0, permissions: 0, uid: 0, gid: 0, linkCount: 0, inode: 0n },
  ...{ sizeBytes: 0, blockCount: 0, accessTimeS: 0, modifyTimeS: 0, changeTimeS: 0, linkTarget: '' },
  ...{ acl: '', defaultAcl: '', selinux: '', xattrs: [], e2fsAttributes: 0, capabilities: '' },
  ...{ sha256: new Uint8Array(0), sha512: new Uint8Array(0) },
};

/** An entry with only these properties. */
export function entryOf(parts: Partial<Entry> & { readonly path: string }): Entry {
  return { ...empty, ...parts };
}

/** An entry as read back from a database: only the parts that its attributes ask for. */
export function kept(entry: Entry): Entry {
  const set = entry.attributes;
  const result: Record<string, unknown> = { ...empty, path: entry.path, type: entry.type, attributes: set };
  const fields = [
    'permissions',
    'uid',
    'gid',
    'linkCount',
    'inode',
    'blockCount',
    'linkTarget',
    'acl',
    'selinux',
  ] as const;
  for (const field of fields) if ((has[field] & set) !== 0) result[field] = entry[field];
  if ((has.size & set) !== 0) result['sizeBytes'] = entry.sizeBytes;
  if ((has.accessTime & set) !== 0) result['accessTimeS'] = entry.accessTimeS;
  if ((has.modifyTime & set) !== 0) result['modifyTimeS'] = entry.modifyTimeS;
  if ((has.changeTime & set) !== 0) result['changeTimeS'] = entry.changeTimeS;
  if ((has.acl & set) !== 0) result['defaultAcl'] = entry.defaultAcl;
  if ((has.xattrs & set) !== 0) result['xattrs'] = entry.xattrs;
  if ((has.e2fsAttributes & set) !== 0) result['e2fsAttributes'] = entry.e2fsAttributes;
  if ((has.capabilities & set) !== 0) result['capabilities'] = entry.capabilities;
  if ((has.sha256 & set) !== 0) result['sha256'] = entry.sha256;
  if ((has.sha512 & set) !== 0) result['sha512'] = entry.sha512;
  return result as unknown as Entry;
}

/** Comparable by value, whatever kind of bytes it has. */
export function plain(entry: Entry): unknown {
  const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
  return {
    ...entry,
    sha256: hex(entry.sha256),
    sha512: hex(entry.sha512),
    xattrs: entry.xattrs.map(([name, value]) => [name, hex(value)]),
  };
}

/** Four entries with checksums. */
export const few = ['/etc', '/etc/hosts', '/etc/passwd', '/usr/bin/é\n'].map((path, i) =>
  entryOf({
    path: Buffer.from(path).toString('latin1'),
    attributes: setOf('ftype', 'p', 'sha256'),
    permissions: 0o644 + i,
    sha256: Buffer.alloc(32, i),
  }),
);

/** For `assert.rejects`: a BaselineError of this kind, with a remedy. */
export function hasFault(fault: BaselineFault, pattern?: RegExp): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof BaselineError, String(error));
    assert.equal(error.fault, fault, error.message);
    if (pattern !== undefined) assert.match(error.message, pattern);
    assert.ok(error.next !== undefined && error.next.length > 20);
    return true;
  };
}

/** As bytes, as a scan gives them. */
export function* inBlocks(entries: readonly Entry[], size: number): Generator<EntryBlock> {
  const encoder = new EntryEncoder();
  for (let at = 0; at < entries.length; at += size) {
    for (const entry of entries.slice(at, at + size)) encoder.add(entry);
    const { facts } = encoder;
    yield new EntryBlock(Buffer.from(encoder.take()), { facts });
  }
}
