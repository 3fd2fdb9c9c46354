/**
 * Finds the files that AIDE could not read: it reports them on stderr only, and the contents of an unreadable directory
 * as removed.
 */
import { type ByteString, isAtOrBelowAny, type ScanProblem } from '../model/entry.ts';
import type { Report } from '../model/report.ts';

/** The messages of AIDE (src/db_disk.c, src/do_md.c, src/gen_list.c) about unreadable files. */
const sentences: readonly RegExp[] = [
  // 0.18.3.
  /^opendir\(\) failed for '(?<path>.*)' \(fullpath: '.*'\): (?<why>.*)$/s,
  /^get_file_status: lstat\(\) failed for (?<path>.*?): (?<why>.*)$/s,
  /^hash calculation: (?:open|gzdopen)\(\) failed for (?<path>.*): (?<why>.*) \(.*could not be calculated\)$/s,
  /^hash calculation: fstat\(\) failed for '(?<path>.*)': (?<why>.*) \(.*could not be calculated\)$/s,
  /^hash calculation: (?:update|init)_md\(\) failed for '(?<path>.*)' \(.*could not be calculated\)$/s,
  /^hash calculation: '(?<path>.*)' (?<changed>has been changed) \(.*$/s,
  /^hash calculation: number of (?<changed>bytes read \(-?\d+\) mismatches .* size \(-?\d+\)) for '(?<path>.*?)'.*$/s,
  /^readlink\(\) failed for '(?<path>.*)': (?<why>.*)$/s,
  /^(?:listxattrs|lgetxattr|lgetfilecon_raw) failed for (?<path>.*?): ?(?<why>.*)$/s,
  // 0.19.1. The skipped files are not in its database, so they are reported as removed.
  /^failed to access '(?<path>.*)': (?<why>.*) \(skipping\)$/s,
  /^fstat\(\) failed for (?<path>.*): (?<why>.*) \(skipping\)$/s,
  /^failed to open [a-z ]+ '(?<path>.*)' for reading: (?:open|fstat)\(\) failed: (?<why>.*) \([^()]*\)$/s,
  /^failed to open [a-z ]+ '(?<path>.*)' for reading: (?<changed>stat fields changed): .*$/s,
  /^failed to open directory '(?<path>.*)' for reading directory contents: (?<why>.*) \(skipping recursion\)$/s,
  /^'(?<path>.*)': failed to duplicate file descriptor: (?<why>.*)$/s,
  /^hash calculation: (?:lseek\(\) failed to failed for|failed to read file content of) '(?<path>.*)': (?<why>.*) \(.*$/s,
  /^'(?<path>.*)' (?<changed>has changed) \(changed fields: .*\) during hash calculation.*$/s,
  /^[a-z_]+\(\) failed to get value of extended attribute '.*' for '(?<path>.*)': (?<why>.*) \(discarding .*\)$/s,
  /^(?:[a-z_]+\(\) )?failed to get [A-Za-z -]+ (?:for|of|for directory|directory) '(?<path>.*)': (?<why>.*) \(disabling .*\)$/s,
];

/** Error codes for the messages of strerror(3). */
const codes: Readonly<Record<string, string>> = {
  'Permission denied': 'EACCES',
  'Operation not permitted': 'EPERM',
  'Input/output error': 'EIO',
  'Too many open files': 'EMFILE',
  'Too many open files in system': 'ENFILE',
  'File name too long': 'ENAMETOOLONG',
  'Stale file handle': 'ESTALE',
  'Transport endpoint is not connected': 'ENOTCONN',
  'Cannot allocate memory': 'ENOMEM',
};
/** A file that no longer exists was removed; that is not a problem. */
const gone = 'No such file or directory';

/** @param messages AIDE's stderr */
export function unreadOf(messages: string, toJob: (path: ByteString) => ByteString): readonly ScanProblem[] {
  const found: ScanProblem[] = [];
  const seen = new Set<string>();
  for (const line of messages.split('\n')) {
    const said = /^\s*(?:WARNING|ERROR|NOTICE): (.*)$/s.exec(line)?.[1];
    if (said === undefined) continue;
    for (const sentence of sentences) {
      const groups = sentence.exec(said)?.groups;
      if (groups === undefined) continue;
      const written = groups['path'] ?? '';
      const why = groups['why'] ?? groups['changed'] ?? 'it could not be read';
      if (why === gone || seen.has(written)) break;
      seen.add(written);
      const path = toJob(unescaped(written));
      const code = groups['changed'] === undefined ? (codes[why] ?? 'EIO') : 'CHANGED';
      const message =
        code === 'CHANGED' ? 'it was changed while it was being read' : `AIDE could not read it: ${why}`;
      found.push({ path, code, message });
      break;
    }
  }
  return found;
}

/** Reverses AIDE's escapes: it writes a control character as a backslash and three octal digits. */
function unescaped(text: string): ByteString {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}

/** Adds unreadable files as problems. They do not count as removed, since their state is unknown. */
export function withUnread(report: Report, unread: readonly ScanProblem[]): Report {
  if (unread.length === 0) return report;
  const paths = new Set(unread.map(({ path }) => path));
  const changes = report.changes.filter(
    ({ kind, path }) => kind !== 'removed' || !isAtOrBelowAny(path, paths),
  );
  const dropped = report.changes.length - changes.length;
  const { removed, problems } = report.counts;
  return {
    ...report,
    changes,
    counts: { ...report.counts, removed: removed - dropped, problems: problems + unread.length },
    problems: unread.map(({ path, code, message }) => ({ path, code, message })),
  };
}
