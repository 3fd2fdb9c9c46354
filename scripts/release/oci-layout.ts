/** Writes OCI image layouts (https://github.com/opencontainers/image-spec), as a directory and as an archive. */
import { createHash } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';

import { tar } from '../tar.ts';

export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

export interface NewImage {
  /** The whole reference: `docker.io/library/rampart:0.1.0`. */
  readonly name: string;
  /** As Go names it: `amd64`. */
  readonly architecture: string;
  /** `config` of the image's configuration: `Entrypoint`, `User`. */
  readonly config: object;
  /** From the lowest. */
  readonly layers: readonly NewLayer[];
  /** RFC 3339. */
  readonly created?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface NewLayer {
  /** A tar archive. */
  readonly content: Uint8Array;
  /** The step that made it, for the image's history. */
  readonly about?: string;
  /** Level of gzip, 0 to 9. Default: not compressed. */
  readonly level?: number;
}

/** An image layout while it is filled: blobs by their digest, and an index of manifests. The same images give the same bytes. */
export class OciLayout {
  readonly #blobs = new Map<string, Uint8Array>();
  readonly #manifests: object[] = [];

  /** @returns what others pull the image by */
  addImage({ name, architecture, config, layers, created, annotations = {} }: NewImage): Descriptor {
    const blobs = layers.map(({ content, level }) =>
      level === undefined
        ? this.#add('application/vnd.oci.image.layer.v1.tar', content)
        : // Without a time and a name, which gzip(1) would write.
          this.#add('application/vnd.oci.image.layer.v1.tar+gzip', gzipSync(content, { level })),
    );
    const time = created === undefined ? {} : { created };
    const configuration = this.#addJson('application/vnd.oci.image.config.v1+json', {
      ...time,
      ...{ architecture, os: 'linux', config },
      rootfs: { type: 'layers', diff_ids: layers.map(({ content }) => digestOf(content)) },
      history: layers.map(({ about = '' }) => ({ ...time, created_by: about })),
    });
    const manifest = this.#addJson('application/vnd.oci.image.manifest.v1+json', {
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      config: configuration,
      layers: blobs,
      annotations,
    });
    this.#manifests.push({
      ...manifest,
      platform: { architecture, os: 'linux' },
      annotations: {
        // containerd's name for the whole reference; without it the import takes the tag alone.
        'io.containerd.image.name': name,
        'org.opencontainers.image.ref.name': name.slice(name.lastIndexOf(':') + 1),
      },
    });
    return manifest;
  }

  /** Writes the layout as a directory, in place of what was there. */
  write(directory: string): void {
    rmSync(directory, { recursive: true, force: true });
    for (const [path, content] of this.#files()) {
      mkdirSync(dirname(join(directory, path)), { recursive: true });
      writeFileSync(join(directory, path), content);
    }
  }

  /** The layout as a tar archive, as `ctr images import` reads it. */
  archive(): Uint8Array {
    return tar([
      { path: 'blobs/', directory: true },
      { path: 'blobs/sha256/', directory: true },
      ...[...this.#files()].map(([path, content]) => ({ path, content })),
    ]);
  }

  #files(): ReadonlyMap<string, Uint8Array | string> {
    return new Map<string, Uint8Array | string>([
      ['oci-layout', '{"imageLayoutVersion":"1.0.0"}'],
      ['index.json', JSON.stringify({ schemaVersion: 2, manifests: this.#manifests })],
      ...[...this.#blobs].map(([hex, content]): [string, Uint8Array] => [`blobs/sha256/${hex}`, content]),
    ]);
  }

  #addJson(mediaType: string, content: object): Descriptor {
    return this.#add(mediaType, Buffer.from(JSON.stringify(content)));
  }

  #add(mediaType: string, content: Uint8Array): Descriptor {
    const digest = digestOf(content);
    this.#blobs.set(digest.slice('sha256:'.length), content);
    return { mediaType, digest, size: content.length };
  }
}

function digestOf(content: Uint8Array): string {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`;
}
