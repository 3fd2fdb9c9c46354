/**
 * `npm run image`: the image of the agent and the operator without Docker, below `packages/`:
 *
 *   rampart-VERSION-linux-ARCH.oci/       an OCI image layout
 *   rampart-VERSION-linux-ARCH.oci.tar    the same as an archive
 *   rampart-VERSION-linux-ARCH.cdx.json   what is in it (CycloneDX 1.5), which the image has too
 *
 * The lower layer is Debian 12 without apt, from the archive that this machine uses, with the updates of the day; the upper one is the
 * build. The same commit over the same packages gives the same bytes. Like deploy/Dockerfile, whose image is the same to its users.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempDisposableSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';

import { errorCodes, messageOf, RampartError } from '../../lib/errors/errors.ts';
import { formatReference, parseReference } from '../../lib/oci/reference.ts';
import manifest from '../../package.json' with { type: 'json' };
import { releaseStanzas } from '../debian-sources.ts';
import { OciLayout } from './oci-layout.ts';
import { sourceDate } from './source-date.ts';
import { settle, stageFiles } from './stage.ts';
import { withoutEntries } from '../tar-entries.ts';

const top = dirname(dirname(import.meta.dirname));
/** As Node.js and as Debian and Go name it. */
const architectures = { x64: 'amd64', arm64: 'arm64' } as const;

/** aide: for a FileIntegrity with provider: aide. iptables, ipset: for network policies where nftables does not work. */
export const imagePackages: readonly string[] = [
  ...['libbpf1', 'libnftables1', 'libstdc++6', 'aide', 'iptables', 'ipset'],
];

/** The image's command and user. */
export const imageConfig = {
  User: '65532:65532',
  Entrypoint: ['/opt/rampart/bin/rampart'],
  Cmd: ['--help'],
  Env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'],
};

/** Useless in a container. Licences stay. */
const unread = ['man', 'info', 'locale', 'lintian', 'bug', 'doc'].map(
  (name) => `--dpkgopt=path-exclude=/usr/share/${name}/*`,
);
const licences = '--dpkgopt=path-include=/usr/share/doc/*/copyright';

/** Where and with what it was built, and what each start of a container makes anew. dpkg's list stays: it says what is in the image. */
const notInLayer =
  /^\.\/(?:dev\/.|etc\/(?:hostname|resolv\.conf|apt\/|dpkg\/dpkg\.cfg\.d\/.)|var\/(?:lib\/apt\/|cache\/.|log\/.))/;

export interface WrittenImage {
  readonly layout: string;
  readonly archive: string;
  readonly sbom: string;
  /** `sha256:...`, of its manifest. */
  readonly digest: string;
}

export interface ImageOptions {
  /** The reference in the layout. Default: `rampart` in the version of package.json. */
  readonly name?: string;
  /** Level of compression, 0 to 9; less is quicker. Default: 9. */
  readonly level?: number;
}

/**
 * Writes the image into `directory`, which is made. `dist/` is built anew.
 *
 * @throws {RampartError} `INPUT` for a name that is no reference, `UNSUPPORTED` where mmdebstrap is missing or this is not Debian,
 *   `SYSTEM` if it cannot fetch packages
 */
export function writeImage(directory: string, options: ImageOptions = {}): WrittenImage {
  const { version } = manifest;
  const { name = `rampart:${version}`, level = 9 } = options;
  const reference = formatReference(parseReference(name));
  const architecture = architectures[process.arch as keyof typeof architectures];
  const epoch = sourceDate(top);
  using work = mkdtempDisposableSync(join(tmpdir(), 'rampart-image-'));
  execFileSync(process.execPath, [join(top, 'scripts/build.ts')], { cwd: top, stdio: 'ignore' });
  const base = debianLayer(work.path, architecture, epoch);
  const sbom = `${JSON.stringify(billOfMaterials(base, architecture), undefined, 2)}\n`;
  const layout = new OciLayout();
  const created = new Date(epoch * 1000).toISOString();
  const title = 'org.opencontainers.image';
  const { digest } = layout.addImage({
    ...{ name: reference, architecture, config: imageConfig, created },
    layers: [
      {
        content: withoutEntries(readFileSync(base), (path) => notInLayer.test(path)),
        about: `mmdebstrap: ${imagePackages.join(' ')}`,
        level,
      },
      { content: productLayer(work.path, sbom, epoch), about: `rampart ${version}`, level },
    ],
    annotations: {
      [`${title}.title`]: manifest.name,
      [`${title}.description`]: manifest.description,
      [`${title}.version`]: version,
      [`${title}.licenses`]: manifest.license,
      [`${title}.created`]: created,
    },
  });
  const path = join(directory, `rampart-${version}-linux-${architecture}`);
  const written = { layout: `${path}.oci`, archive: `${path}.oci.tar`, sbom: `${path}.cdx.json`, digest };
  mkdirSync(directory, { recursive: true });
  layout.write(written.layout);
  writeFileSync(written.archive, layout.archive());
  writeFileSync(written.sbom, sbom);
  return written;
}

/** Debian's essential packages and ours. @returns the path of a tar archive */
function debianLayer(work: string, architecture: string, epoch: number): string {
  const sources = join(work, 'debian.sources');
  const layer = join(work, 'debian.tar');
  writeFileSync(sources, releaseStanzas('bookworm', architecture));
  const { error, status, stderr } = spawnSync(
    'mmdebstrap',
    [
      ...['--variant=essential', '--format=tar', `--architectures=${architecture}`],
      // With usr-is-merged; without it comes usrmerge, which needs all of Perl.
      '--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr',
      ...[`--include=${imagePackages.join(',')}`, '--aptopt=Acquire::Languages "none"', ...unread, licences],
      ...['bookworm', layer, sources],
    ],
    {
      encoding: 'utf8',
      env: {
        ...process.env,
        ...{ LC_ALL: 'C.UTF-8', SOURCE_DATE_EPOCH: String(epoch) },
        PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`,
      },
      maxBuffer: 2 ** 26,
    },
  );
  if (error !== undefined) {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: 'cannot make the image',
      why: `mmdebstrap does not run: ${error.message}`,
      next: 'Run scripts/setup image',
    });
  }
  if (status !== 0) {
    throw new RampartError(errorCodes.SYSTEM, {
      what: 'mmdebstrap cannot make the layer of Debian',
      next: 'Check that apt-get update works on this machine',
      detail: stderr,
    });
  }
  return layer;
}

/** @returns a tar archive of /opt/rampart, with whatever user and clock the builder has */
function productLayer(work: string, sbom: string, epoch: number): Uint8Array {
  const [staged, root] = [join(work, 'staged'), join(work, 'root')];
  stageFiles(top, staged, epoch);
  mkdirSync(join(root, 'opt'), { recursive: true });
  renameSync(join(staged, 'usr/lib/rampart'), join(root, 'opt/rampart'));
  rmSync(staged, { recursive: true });
  copyFileSync(join(top, 'CHANGELOG.md'), join(root, 'opt/rampart/CHANGELOG.md'));
  writeFileSync(join(root, 'opt/rampart/image.cdx.json'), sbom);
  settle(root, epoch);
  const order = ['--sort=name', '--owner=0', '--group=0', '--numeric-owner', `--mtime=@${epoch}`];
  return execFileSync('tar', [...order, '--format=gnu', '-C', root, '-cf', '-', 'opt'], {
    maxBuffer: 2 ** 30,
  });
}

/** The npm packages that run with the product, and Debian's by dpkg's list in the layer. */
function billOfMaterials(layer: string, architecture: string): object {
  // npm names the packages of the lock file; a build has it without what differs from run to run.
  const npm = JSON.parse(readFileSync(join(top, 'dist/sbom.cdx.json'), 'utf8')) as {
    readonly metadata: { readonly component: object };
    readonly components: readonly object[];
  };
  const status = execFileSync('tar', ['-xOf', layer, './var/lib/dpkg/status'], { encoding: 'utf8' });
  const debian = status
    .split('\n\n')
    .filter((stanza) => stanza !== '')
    .map((stanza) => {
      const field = (of: string): string => new RegExp(`^${of}: (.*)$`, 'm').exec(stanza)?.[1] ?? '';
      const [name, version] = [field('Package'), field('Version')];
      const qualifiers = `arch=${field('Architecture')}&distro=debian-12`;
      const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?${qualifiers}`;
      return { type: 'library', 'bom-ref': purl, name, version, purl };
    });
  const image = { type: 'container', name: manifest.name, version: manifest.version };
  const properties = [{ name: 'rampart:architecture', value: architecture }];
  return {
    ...npm,
    metadata: { ...npm.metadata, component: { ...image, 'bom-ref': 'image', properties } },
    components: [npm.metadata.component, ...npm.components, ...debian],
  };
}

if (import.meta.main) {
  try {
    const { values } = parseArgs({ options: { name: { type: 'string' } } });
    const { layout, archive, sbom, digest } = writeImage(join(top, 'packages'), values);
    for (const path of [layout, archive, sbom]) process.stdout.write(`${path.slice(top.length + 1)}\n`);
    process.stdout.write(`${digest}\n`);
  } catch (error) {
    process.stderr.write(`image: ${messageOf(error)}\n`);
    // parseArgs throws a TypeError.
    const isUsage =
      error instanceof TypeError || (error instanceof RampartError && error.code === errorCodes.INPUT);
    process.exitCode = isUsage ? 2 : 1;
  }
}
