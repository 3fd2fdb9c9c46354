/** `rampart uninstall node`: removes what is left of the agent on this node. */
import { existsSync, readdirSync, rmdirSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';

import type { Guard } from '../../guard/guard.ts';
import { directoryIn, parsedOptions } from '../../guard/guard-options.ts';
import { chosenGuards } from '../../guard/guard-process.ts';
import { printDocument } from '../../lib/cli/document.ts';
import { describeFailure } from '../../lib/cli/failure.ts';
import { requireRoot, stopSignal } from '../../lib/cli/process.ts';
import { messageOf } from '../../lib/errors/errors.ts';
import type { UninstallNodeOptions } from './command.ts';

/** @returns the exit code. @throws {RampartError} `PRIVILEGE` unless root. */
export async function runUninstallNode(all: readonly Guard[], options: UninstallNodeOptions): Promise<0 | 1> {
  requireRoot('cannot clean up this node', "only root may change the node's kernel");
  const { signal } = stopSignal();
  const isPretty = options.output === 'pretty';
  const done: {
    readonly name: string;
    readonly removed: readonly string[];
    readonly error: string | null;
  }[] = [];
  for (const guard of chosenGuards(all, options)) {
    const { name } = guard;
    try {
      const removed = await cleanNode(guard, options, signal);
      done.push({ name, removed, error: null });
      if (!isPretty) continue;
      for (const line of removed) process.stdout.write(`${name}: removed ${line}\n`);
      if (removed.length === 0) process.stdout.write(`${name}: nothing to remove\n`);
    } catch (error) {
      // The other guards are cleaned all the same.
      done.push({ name, removed: [], error: messageOf(error) });
      process.stderr.write(describeFailure(error).text);
    }
  }
  // What the agent itself leaves: findings not yet sent by OTLP.
  const removed = options.keepData === true ? [] : removeDirectory(options.otlpQueue);
  if (options.output === 'pretty') for (const line of removed) process.stdout.write(`removed ${line}\n`);
  else printDocument(options.output, 'rampart.dev/uninstall-node/v1', { guards: done, removed });
  return done.some(({ error }) => error !== null) ? 1 : 0;
}

/** @returns a line for each thing removed */
async function cleanNode(
  guard: Guard,
  options: UninstallNodeOptions,
  signal: AbortSignal,
): Promise<string[]> {
  const values = parsedOptions(guard, options);
  const { cleanNode: clean, directories } = (await guard.leftovers?.()) ?? {};
  const removed = [...((await clean?.(values, { hostRoot: options.hostRoot, signal })) ?? [])];
  const own = guard.directory === undefined || options.keepData === true ? [] : [directoryIn(options)(guard)];
  for (const path of [...own, ...(directories?.(values) ?? [])]) removed.push(...removeDirectory(path));
  return removed;
}

/** @returns what was removed */
function removeDirectory(path: string): string[] {
  const exists = existsSync(path);
  if (exists) rmSync(path, { recursive: true });
  return [...(exists ? [path] : []), ...removeEmpty(dirname(path))];
}

/** Removes the directory that guards share, once it is empty. */
function removeEmpty(path: string): string[] {
  if (!path.endsWith('/rampart') || !existsSync(path) || readdirSync(path).length > 0) return [];
  rmdirSync(path);
  return [path];
}
