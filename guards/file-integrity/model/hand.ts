/** Distinguishes changes by the node's package manager from all others. */
import type { ChangeAuthor } from './finding.ts';

/**
 * Who made the changes of a file: `packages`, only the package manager; `others`, another process too; `unseen`, the
 * process was not seen.
 */
export type Hand = 'packages' | 'others' | 'unseen';

/**
 * When a program is replaced while it runs, as when dpkg updates itself, the kernel adds this to the path of its
 * executable, see proc_pid_exe(5).
 */
const replaced = ' (deleted)';

/** Programs that unpack packages. They write the files themselves; maintainer scripts run in other processes. */
const unpackers: ReadonlySet<string> = new Set(['/usr/bin/dpkg', `/usr/bin/dpkg${replaced}`]);
/** The part of dpkg that writes the database of diversions. */
const diverter = '/usr/bin/dpkg-divert';

/**
 * Whether the process is the node's own dpkg: run by root, in no container, in the node's own mount namespace.
 * Elsewhere a path proves nothing: containers and other mount namespaces have programs with the same path.
 */
export function isPackageManager(author: ChangeAuthor): boolean {
  return isOnNode(author) && unpackers.has(author.binary);
}

export function isDiverter(author: ChangeAuthor): boolean {
  return isOnNode(author) && author.binary === diverter;
}

function isOnNode({ relation, mounts, uid }: ChangeAuthor): boolean {
  return relation === 'host' && mounts === undefined && uid === 0;
}

/**
 * Combines the makers of two changes of a file: `others` wins over `unseen`, and that over `packages`. Undefined has no
 * effect.
 */
export function bothHands(one: Hand | undefined, other: Hand | undefined): Hand | undefined {
  if (one === 'others' || other === 'others') return 'others';
  if (one === 'unseen' || other === 'unseen') return 'unseen';
  return one ?? other;
}
