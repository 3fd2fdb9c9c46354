/** The overlay that deploy/README.md shows, with other guards. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Guard } from '../../guard/guard.ts';
import { deploy } from './deploy.fixture.ts';

/**
 * A directory beside a clone, with the overlay that the guide shows, for these guards.
 *
 * @param variants - Of each guard, in its directory.
 */
export function overlay(
  of: readonly Guard[],
  variants: readonly string[] = [],
): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), 'rampart-overlay-'));
  symlinkSync(join(deploy, '..'), join(path, 'rampart'));
  const text = /```yaml\n# mine\/kustomization.yaml\n([^]*?)```/.exec(
    readFileSync(join(deploy, 'README.md'), 'utf8'),
  )?.[1];
  assert.ok(text !== undefined && text.includes('guards/file-integrity]'));
  assert.ok(text.trim().split('\n').length <= 5);
  mkdirSync(join(path, 'mine'));
  const paths = of.flatMap(({ name }) =>
    ['', ...variants.map((variant) => `/${variant}`)].map(
      (variant) => `../rampart/deploy/guards/${name}${variant}`,
    ),
  );
  writeFileSync(
    join(path, 'mine/kustomization.yaml'),
    text.replace('../rampart/deploy/guards/file-integrity', paths.join(', ')),
  );
  return {
    path: join(path, 'mine'),
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}
