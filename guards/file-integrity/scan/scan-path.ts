/** Paths of entries, and their places in the scanned tree. */
import type { ByteString } from '../model/entry.ts';
import { belowItem, entryItem, type Task } from './tasks.ts';

/** The path within the tree: empty for the root, otherwise with a leading slash; undefined if it is outside. */
export function withoutPrefix(path: ByteString, prefix: ByteString): ByteString | undefined {
  if (!path.startsWith(prefix)) return undefined;
  const within = path.slice(prefix.length);
  if (within === '' || within === '/') return '';
  return within.startsWith('/') && !within.endsWith('/') ? within : undefined;
}

export interface PathToLookAt {
  readonly path: ByteString;
  /** Whether everything below the path is included, if it is a directory. */
  readonly below: boolean;
}

/** The tasks for these paths, in the order of reports; each file occurs once. */
export function tasksFor(paths: readonly PathToLookAt[], prefix: ByteString): Task[] {
  // Sorted like the items of a directory: what is below a path comes after names that continue with a byte lower than
  // the slash.
  const keys = new Set<string>();
  for (const { path, below } of paths) {
    const within = withoutPrefix(path, prefix);
    if (within === undefined) continue;
    if (within === '' && below) return [{ directory: '' }];
    keys.add(within);
    if (below) keys.add(`${within}/`);
  }
  const tasks: { directory: ByteString; items: string[] }[] = [];
  let root: Task | undefined;
  let covered: string | undefined;
  for (const key of [...keys].sort()) {
    if (covered !== undefined && key.startsWith(covered)) continue;
    if (key === '') {
      root = { directory: '', onlyRoot: true };
      continue;
    }
    const isBelow = key.endsWith('/');
    if (isBelow) covered = key;
    const path = isBelow ? key.slice(0, -1) : key;
    const slash = path.lastIndexOf('/');
    const [directory, name] = [path.slice(0, slash), path.slice(slash + 1)];
    let task = tasks.at(-1);
    if (task?.directory !== directory) tasks.push((task = { directory, items: [] }));
    task.items.push(isBelow ? belowItem(name) : entryItem(name, '.'));
  }
  return root === undefined ? tasks : [root, ...tasks];
}
