/**
 * Names that some versions of AIDE 0.19 silently skip: they match rules in PCRE2's UTF mode, in which no rule matches a
 * name that is not UTF-8. Such a name would be enough to hide a file, so these names are searched for here, and
 * reported.
 */
import { isUtf8 } from 'node:buffer';
import type { Dirent } from 'node:fs';
import { readdir } from 'node:fs/promises';
import type { AideConf } from '../aide-conf/conf.ts';
import type { ByteString, FileType, ScanProblem } from '../model/entry.ts';
import type { ScanRoot } from '../provider/provider.ts';
import { Selection } from '../aide-conf/selection.ts';

/** Limit of names reported for one scan: a user may create a million. */
const maxNames = 10_000;

export interface UnseenNamesOptions {
  /** Directories that AIDE has read, as paths of the job. */
  readonly directories: Iterable<ByteString>;
  readonly root: ScanRoot;
  readonly conf: Pick<AideConf, 'rules' | 'dialect' | 'rootPrefix'>;
  /** Whether our own engine understands all rules; if not, every name counts as selected. */
  readonly isWhole: boolean;
  readonly signal: AbortSignal;
}

/**
 * The selected names that are not UTF-8. For a directory with such a name, only the directory is reported, not what is
 * below it.
 */
export async function unseenNames(options: UnseenNamesOptions): Promise<readonly ScanProblem[]> {
  const { directories, root, conf, isWhole, signal } = options;
  const selection = isWhole ? new Selection(conf) : undefined;
  const found: ScanProblem[] = [];
  for (const directory of directories) {
    signal.throwIfAborted();
    for (const entry of await entriesOf(directory, root)) {
      if (isUtf8(entry.name)) continue;
      const path = `${directory === '/' ? '' : directory}/${entry.name.toString('latin1')}`;
      const asked = path.startsWith(conf.rootPrefix) ? path.slice(conf.rootPrefix.length) : path;
      if (selection !== undefined && selection.select(asked, typeOf(entry)) === undefined) continue;
      found.push({
        path,
        code: 'EILSEQ',
        message: 'this version of AIDE does not inspect names that are not UTF-8',
      });
      if (found.length === maxNames) return found;
    }
  }
  return found;
}

async function entriesOf(
  directory: ByteString,
  { directory: top, prefix }: ScanRoot,
): Promise<Dirent<Buffer>[]> {
  if (!directory.startsWith(prefix)) return [];
  const path = Buffer.concat([Buffer.from(top), Buffer.from(`/${directory.slice(prefix.length)}`, 'latin1')]);
  // AIDE itself reports directories that are missing or unreadable.
  return await readdir(path, { withFileTypes: true, encoding: 'buffer' }).catch(() => []);
}

function typeOf(entry: Dirent<Buffer>): FileType {
  if (entry.isDirectory()) return 'd';
  if (entry.isSymbolicLink()) return 'l';
  if (entry.isCharacterDevice()) return 'c';
  if (entry.isBlockDevice()) return 'b';
  if (entry.isFIFO()) return 'p';
  return entry.isSocket() ? 's' : 'f';
}
