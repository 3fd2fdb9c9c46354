/** The images that the lab's pods run, made on the spot from Debian's static busybox. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { arch } from 'node:process';

import { OciLayout } from '../../scripts/release/oci-layout.ts';
import { tar, type TarEntry } from '../../scripts/tar.ts';

/** Where Debian's busybox-static puts it. */
export const busyboxPath = '/bin/busybox';

/** The images' names: `.invalid` is reserved (RFC 2606), so no registry is ever queried for them. */
export const images = {
  /** A shell with busybox's applets, and `nginx`: a web server on port 80 that runs until it is stopped. */
  nginx: 'lab.invalid/nginx:1',
  /** The sandbox of each pod. */
  pause: 'lab.invalid/pause:1',
} as const;

/** For the files of layers: what a small distribution has. */
const files: readonly TarEntry[] = [
  ...['dev', 'etc', 'home', 'mnt', 'proc', 'root', 'run', 'sys', 'usr', 'usr/sbin', 'usr/share', 'var'].map(
    (path) => ({ path: `${path}/`, directory: true as const }),
  ),
  { path: 'tmp/', directory: true, mode: 0o1777 },
  { path: 'etc/passwd', content: 'root:x:0:0:root:/root:/bin/sh\nnginx:x:101:101:nginx:/:/bin/false\n' },
  { path: 'etc/group', content: 'root:x:0:\nnginx:x:101:\n' },
  { path: 'etc/shadow', mode: 0o640, content: 'root:*:19000:0:99999:7:::\nnginx:!:19000:0:99999:7:::\n' },
  { path: 'usr/share/nginx/', directory: true },
  { path: 'usr/share/nginx/html/', directory: true },
  { path: 'usr/share/nginx/html/index.html', content: 'Welcome to nginx, as far as busybox can be it.\n' },
  {
    path: 'usr/sbin/nginx',
    mode: 0o755,
    content: '#!/bin/sh\nexec httpd -f -p 80 -h /usr/share/nginx/html\n',
  },
];

/** The tar with both images; the same bytes for the same busybox. */
export function imageArchive(): Uint8Array {
  const applets = execFileSync(busyboxPath, ['--list'], { encoding: 'utf8' }).trim().split('\n');
  const system = tar([
    { path: 'bin/', directory: true },
    { path: 'bin/busybox', mode: 0o755, content: readFileSync(busyboxPath) },
    ...applets
      .filter((applet) => applet !== 'busybox')
      .map((applet) => ({ path: `bin/${applet}`, symlink: 'busybox' })),
  ]);
  const layout = new OciLayout();
  const architecture = arch === 'x64' ? 'amd64' : arch;
  // Two layers, so that a container's overlay has more than one below it.
  const layers = [{ content: system }, { content: tar(files) }];
  const add = (name: string, command: readonly string[]): void => {
    const config = { Cmd: command, Env: ['PATH=/usr/sbin:/usr/bin:/sbin:/bin'], WorkingDir: '/' };
    layout.addImage({ name, architecture, config, layers });
  };
  add(images.nginx, ['nginx']);
  add(images.pause, ['sleep', '2147483647']);
  return layout.archive();
}
