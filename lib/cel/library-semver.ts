/**
 * `semver()`, `isSemver()` and the methods of versions (apiserver `pkg/cel/library/semverlib.go`), and keys in paths of
 * JSON patches (`jsonpatch.go`).
 */
import { failure } from './failure.ts';
import type { Library } from './register.ts';
import { Semver } from './semver.ts';

function version(text: string, loosely = false): Semver {
  const parsed = loosely ? Semver.parseLoosely(text) : Semver.parse(text);
  if (typeof parsed === 'string') throw failure(parsed);
  return parsed;
}

export function addSemver(library: Library): void {
  library
    .type('kubernetes.Semver', Semver)
    .add('isSemver(string): bool', (text: string) => typeof Semver.parse(text) !== 'string')
    .add(
      'isSemver(string, bool): bool',
      (text: string, loosely: boolean) =>
        typeof (loosely ? Semver.parseLoosely(text) : Semver.parse(text)) !== 'string',
    )
    .add('semver(string): kubernetes.Semver', (text: string) => version(text))
    .add('semver(string, bool): kubernetes.Semver', version)
    .add('kubernetes.Semver.major(): int', ({ major }: Semver) => BigInt.asIntN(64, major))
    .add('kubernetes.Semver.minor(): int', ({ minor }: Semver) => BigInt.asIntN(64, minor))
    .add('kubernetes.Semver.patch(): int', ({ patch }: Semver) => BigInt.asIntN(64, patch))
    .add(
      'kubernetes.Semver.isLessThan(kubernetes.Semver): bool',
      (a: Semver, b: Semver) => a.compareTo(b) < 0n,
    )
    .add(
      'kubernetes.Semver.isGreaterThan(kubernetes.Semver): bool',
      (a: Semver, b: Semver) => a.compareTo(b) > 0n,
    )
    .add('kubernetes.Semver.compareTo(kubernetes.Semver): int', (a: Semver, b: Semver) => a.compareTo(b))
    .add('jsonpatch.escapeKey(string): string', (key: string) =>
      key.replaceAll('~', '~0').replaceAll('/', '~1'),
    );
}
