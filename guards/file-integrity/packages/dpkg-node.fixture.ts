/** A node with a database of dpkg, and packages that the real dpkg of this machine builds, installs and removes on it. */
import { copyFileSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { run } from '../live/live.fixture.ts';

export const dpkgSkip = existsSync('/usr/bin/dpkg') ? false : 'this machine has no dpkg';

export interface TestPackage {
  readonly version: string;
  /** Content by path. */
  readonly files: Readonly<Record<string, string>>;
  /** Targets by path. */
  readonly links?: Readonly<Record<string, string>>;
  readonly conffiles?: readonly string[];
}

/** Empty, with dpkg itself. */
export function setUpDpkg(root: string): void {
  for (const path of ['usr/bin', 'usr/lib', 'var/lib/dpkg/info', 'var/lib/dpkg/updates'])
    mkdirSync(join(root, path), { recursive: true });
  for (const name of ['status', 'diversions']) writeFileSync(join(root, 'var/lib/dpkg', name), '');
  // The node's own dpkg, which also installs the packages, as on this machine.
  copyFileSync('/usr/bin/dpkg', join(root, 'usr/bin/dpkg'));
  for (const name of ['bin', 'lib']) symlinkSync(`usr/${name}`, join(root, name));
}

/** @returns the path of the .deb file, in `directory` */
export async function buildPackage(
  directory: string,
  name: string,
  { version, files, links = {}, conffiles = [] }: TestPackage,
): Promise<string> {
  const tree = join(directory, `${name}_${version}`);
  const write = (path: string, content: string): void => {
    mkdirSync(dirname(join(tree, path)), { recursive: true });
    writeFileSync(join(tree, path), content);
  };
  for (const [path, content] of Object.entries(files)) write(path, content);
  for (const [path, target] of Object.entries(links)) {
    mkdirSync(dirname(join(tree, path)), { recursive: true });
    symlinkSync(target, join(tree, path));
  }
  const fields = {
    Package: name,
    Version: version,
    Architecture: 'all',
    Maintainer: 'a <a@b>',
    Description: 'x',
  };
  write(
    'DEBIAN/control',
    `${Object.entries(fields)
      .map((pair) => pair.join(': '))
      .join('\n')}\n`,
  );
  if (conffiles.length > 0) write('DEBIAN/conffiles', `${conffiles.join('\n')}\n`);
  await run('dpkg-deb', ['--root-owner-group', '-Znone', '--build', tree], { isQuiet: true });
  return `${tree}.deb`;
}

/** As apt does, on the node with this root. */
export async function dpkg(root: string, ...args: readonly string[]): Promise<void> {
  const options = [`--root=${root}`, '--no-triggers', '--log=/dev/null'];
  await run('dpkg', [...options, ...args], { isQuiet: true });
}
