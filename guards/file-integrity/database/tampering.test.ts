/** Attacks on a baseline by someone who knows its format. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { crc32 } from 'node:zlib';
import { setOf } from '../model/attributes.ts';
import {
  entryOf,
  few,
  hasFault,
  header,
  pairKey,
  secretKey,
  temporaryDirectory,
} from './baseline.fixture.ts';
import type { BaselineFault } from './baseline-error.ts';
import { openBaseline } from './read-baseline.ts';
import type { SigningKey } from './signature.ts';
import { writeBaseline } from './write-baseline.ts';

/** The frames of a file, with whom an attacker may do what he likes, and make the checksums fit. */
function frames(file: Buffer): { kind: number; payload: Buffer }[] {
  const found = [];
  for (let at = 8; at < file.length;) {
    const length = file.readUInt32LE(at + 1);
    found.push({ kind: file[at] ?? 0, payload: file.subarray(at + 5, at + 5 + length) });
    at += length + 9;
  }
  return found;
}

function rebuilt(file: Buffer, parts: { kind: number; payload: Buffer }[]): Buffer {
  const output = [file.subarray(0, 8)];
  for (const [index, { kind, payload }] of parts.entries()) {
    const head = Buffer.alloc(5);
    head[0] = kind;
    head.writeUInt32LE(payload.length, 1);
    const tail = Buffer.alloc(4);
    tail.writeUInt32LE(crc32(payload, crc32(head, index)));
    output.push(head, payload, tail);
  }
  return Buffer.concat(output);
}

test('a file whose checksums were made to fit is refused by its signature', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'baseline');
  const many = Array.from({ length: 5000 }, (_, i) =>
    entryOf({
      path: `/a/${String(i).padStart(5, '0')}`,
      attributes: setOf('sha256'),
      sha256: Buffer.alloc(32, i),
    }),
  );
  await writeBaseline({ path, key: secretKey, header, entries: [many] });
  const whole = readFileSync(path);
  const parts = frames(whole);
  assert.deepEqual(rebuilt(whole, parts), whole);
  const [head, one, other, ...rest] = parts;
  assert.ok(head && one?.kind === 2 && other?.kind === 2 && rest.length >= 2);
  const changed = Buffer.from(one.payload);
  changed[changed.length - 1] = 99;

  const refused: [Buffer, BaselineFault][] = [
    [rebuilt(whole, [head, { kind: 2, payload: changed }, other, ...rest]), 'wrong signature'],
    [rebuilt(whole, [head, other, one, ...rest]), 'wrong signature'],
    [rebuilt(whole, [head, one, ...rest]), 'wrong signature'],
    [rebuilt(whole, [head, one, other, ...rest.slice(0, -1)]), 'unsigned'],
    [
      rebuilt(whole, [head, one, other, ...rest.slice(0, -1), { kind: 4, payload: Buffer.alloc(0) }]),
      'unsigned',
    ],
    [
      rebuilt(whole, [head, one, other, ...rest.slice(0, -1), { kind: 4, payload: Buffer.alloc(64) }]),
      'wrong signature',
    ],
    [rebuilt(whole, [head, one, other]), 'truncated'],
    [rebuilt(whole, [one, other]), 'damaged'],
  ];
  for (const [file, fault] of refused) {
    writeFileSync(path, file);
    await assert.rejects(openBaseline(path, secretKey), hasFault(fault));
  }
});

test('another key, another scheme and a scheme edited in the file are refused', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'baseline');
  const otherSecret: SigningKey = { scheme: 'hmac-sha256', secret: Buffer.alloc(32, 8) };
  await writeBaseline({ path, key: secretKey, header, entries: [few] });
  await assert.rejects(openBaseline(path, otherSecret), hasFault('wrong signature', /is signed with key/));
  await assert.rejects(
    openBaseline(path, pairKey),
    hasFault('wrong signature', /hmac-sha256; expected ed25519/),
  );

  // An attacker who knows the public key uses it as a secret one and signs with it.
  assert.ok(pairKey.scheme === 'ed25519');
  const publicBytes = pairKey.publicKey.export({ type: 'spki', format: 'der' });
  await writeBaseline({ path, key: { scheme: 'hmac-sha256', secret: publicBytes }, header, entries: [few] });
  await assert.rejects(openBaseline(path, pairKey), hasFault('wrong signature'));
  const file = readFileSync(path);
  const edited = frames(file).map((frame) => {
    if (frame.kind !== 1) return frame;
    const reported = { ...(JSON.parse(frame.payload.toString()) as object), scheme: 'ed25519' };
    return { kind: 1, payload: Buffer.from(JSON.stringify(reported)) };
  });
  writeFileSync(path, rebuilt(file, edited));
  await assert.rejects(openBaseline(path, pairKey), hasFault('wrong signature'));
});

test('a baseline that is written to while it is read gives out nothing of that', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'baseline');
  await writeBaseline({ path, key: secretKey, header, entries: [few] });
  await using baseline = await openBaseline(path, secretKey);
  const file = readFileSync(path);
  const parts = frames(file).map(({ kind, payload }) => ({ kind, payload: Buffer.from(payload) }));
  const block = parts[1]?.payload;
  assert.ok(block);
  block[block.length - 1] = 77;
  writeFileSync(path, rebuilt(file, parts));
  await assert.rejects(baseline.entries().next(), hasFault('damaged', /changed while it was being read/));
});
