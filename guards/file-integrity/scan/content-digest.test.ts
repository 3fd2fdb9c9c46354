import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { blockBytes, ContentDigest } from './content-digest.ts';

const limitBlocks = 3;
const zeroBlock = Buffer.alloc(blockBytes);

/** One character a block: `0` zeros that are read, `_` a hole, any other letter a block of it; the last block may be short. */
function digestOf(content: string, tail = '', limit = limitBlocks): string {
  const digest = new ContentDigest(['sha256', 'sha512'], limit * blockBytes);
  let read: Buffer[] = [];
  const flush = (): void => {
    digest.update(Buffer.concat(read));
    read = [];
  };
  for (const [block] of content.matchAll(/_+|[^_]/gu)) {
    if (!block.startsWith('_')) {
      read.push(block === '0' ? zeroBlock : Buffer.alloc(blockBytes, block));
      continue;
    }
    flush();
    digest.zeroBlocks(block.length);
  }
  read.push(Buffer.from(tail));
  flush();
  return digest
    .digests()
    .map((sum) => sum.toString('hex'))
    .join(' ');
}

function plain(content: string, tail = ''): string {
  const bytes = Buffer.concat([
    ...content.split('').map((block) => ('0_'.includes(block) ? zeroBlock : Buffer.alloc(blockBytes, block))),
    Buffer.from(tail),
  ]);
  return ['sha256', 'sha512'].map((name) => createHash(name).update(bytes).digest('hex')).join(' ');
}

test('up to the limit the checksums are those of the content', () => {
  for (const content of ['', '_', '0', 'a', '___', '0_0', 'a_b_c_d', '000a', 'a000b']) {
    assert.equal(digestOf(content, 'end'), plain(content, 'end'), content);
    assert.equal(digestOf(content), plain(content), content);
  }
  assert.notEqual(digestOf('____'), plain('____'));
});

test('beyond it, only the content decides, and each content has its own', () => {
  const block = fc.constantFrom('0', '_', '0', '_', 'a', 'b');
  const content = fc.record({
    blocks: fc.string({ unit: block, maxLength: 12 }),
    tail: fc.constantFrom('', '\0', 'x'),
  });
  const seen = new Map<string, string>();
  fc.assert(
    fc.property(content, ({ blocks, tail }) => {
      const same = blocks.replaceAll('_', '0') + tail;
      const digest = digestOf(blocks, tail);
      assert.equal(digestOf(blocks.replaceAll('0', '_'), tail), digest);
      assert.equal(digestOf(blocks.replaceAll('_', '0'), tail), digest);
      assert.equal(seen.get(digest) ?? same, same);
      seen.set(digest, same);
    }),
    { numRuns: 100 },
  );
});

test('petabytes of zeros cost nothing', () => {
  const digest = new ContentDigest(['sha256'], 0);
  digest.zeroBlocks(2 ** 47);
  digest.update(Buffer.from('x'));
  assert.equal(digest.digests()[0]?.length, 32);
});
