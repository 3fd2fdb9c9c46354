/**
 * The image that the lab's pods run, made on the spot from Debian's static busybox: an OCI image layout
 * (https://github.com/opencontainers/image-spec) in a tar, as `ctr images import` reads it.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { arch } from 'node:process';

import { tar, type TarEntry } from './tar.ts';

/** Where Debian's busybox-static puts it. */
export const busyboxPath = '/bin/busybox';

/** The images' names: `.invalid` is reserved (RFC 2606), so nobody ever asks a registry for them. */
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
  const layout = new Layout();
  // Two layers, so that a container's overlay has more than one below it.
  const layers = [system, tar(files)];
  layout.addImage(images.nginx, layers, ['nginx']);
  layout.addImage(images.pause, layers, ['sleep', '2147483647']);
  return layout.archive();
}

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/** An image layout while it is filled: blobs by their digest, and an index of manifests. */
class Layout {
  readonly #blobs = new Map<string, Uint8Array>();
  readonly #manifests: object[] = [];

  addImage(name: string, layers: readonly Uint8Array[], command: readonly string[]): void {
    const blobs = layers.map((layer) => this.#add('application/vnd.oci.image.layer.v1.tar', layer));
    const architecture = arch === 'x64' ? 'amd64' : arch;
    const config = this.#addJson('application/vnd.oci.image.config.v1+json', {
      architecture,
      os: 'linux',
      config: { Cmd: command, Env: ['PATH=/usr/sbin:/usr/bin:/sbin:/bin'], WorkingDir: '/' },
      rootfs: { type: 'layers', diff_ids: blobs.map(({ digest }) => digest) },
    });
    const manifest = this.#addJson('application/vnd.oci.image.manifest.v1+json', {
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      config,
      layers: blobs,
    });
    this.#manifests.push({
      ...manifest,
      platform: { architecture, os: 'linux' },
      // containerd's name for the whole reference; without it the import takes the tag alone.
      annotations: { 'io.containerd.image.name': name },
    });
  }

  archive(): Uint8Array {
    return tar([
      { path: 'oci-layout', content: '{"imageLayoutVersion":"1.0.0"}' },
      { path: 'index.json', content: JSON.stringify({ schemaVersion: 2, manifests: this.#manifests }) },
      { path: 'blobs/', directory: true },
      { path: 'blobs/sha256/', directory: true },
      ...[...this.#blobs].map(([hex, content]) => ({ path: `blobs/sha256/${hex}`, content })),
    ]);
  }

  #addJson(mediaType: string, content: object): Descriptor {
    return this.#add(mediaType, Buffer.from(JSON.stringify(content)));
  }

  #add(mediaType: string, content: Uint8Array): Descriptor {
    const hex = createHash('sha256').update(content).digest('hex');
    this.#blobs.set(hex, content);
    return { mediaType, digest: `sha256:${hex}`, size: content.length };
  }
}
