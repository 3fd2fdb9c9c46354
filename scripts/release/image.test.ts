// Tests without a build of an image: that is test/lab/deploy/image.deep.test.ts.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { gunzipSync } from 'node:zlib';

import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { imageConfig, imagePackages } from './image.ts';
import { type Descriptor, OciLayout } from './oci-layout.ts';

const dockerfile = readFileSync(join(import.meta.dirname, '../../deploy/Dockerfile'), 'utf8');

test('what npm run image writes is to its users what the Dockerfile makes', () => {
  const last = (instruction: string): string =>
    [...dockerfile.matchAll(new RegExp(`^${instruction} (.*)$`, 'gm'))].at(-1)?.[1] ?? '';
  assert.equal(imageConfig.User, last('USER'));
  assert.deepEqual(imageConfig.Entrypoint, JSON.parse(last('ENTRYPOINT')));
  assert.deepEqual(imageConfig.Cmd, JSON.parse(last('CMD')));
  const [, packages = ''] = /apt-get install -y --no-install-recommends (.*) \\$/m.exec(dockerfile) ?? [];
  assert.deepEqual(packages.split(' '), imagePackages);
});

test('the Dockerfile uses the authority of a secret wherever it fetches, and leaves it nowhere', () => {
  const steps = dockerfile.split(/^(?=RUN|COPY|FROM)/m).filter((step) => /npm ci|apt-get install/.test(step));
  assert.equal(steps.length, 3);
  for (const step of steps) assert.match(step, /^RUN --mount=type=secret,id=ca \\\n/);
  assert.match(dockerfile, /rm -rf .*\/etc\/apt\/apt\.conf\.d\/ca/);
});

suite('an OCI image layout', () => {
  const layout = (): OciLayout => {
    const made = new OciLayout();
    made.addImage({
      ...{ name: 'registry.example/a:1', architecture: 'amd64', config: { User: '1:1' } },
      layers: [
        { content: Buffer.from('lower'), about: 'one' },
        { content: Buffer.from('upper'), level: 9 },
      ],
      created: '2026-01-02T03:04:05.000Z',
    });
    return made;
  };

  test('is the same as a directory and as an archive, with each blob by its digest', () => {
    using directory = new TemporaryDirectory();
    layout().write(directory.at('layout'));
    writeFileSync(directory.at('layout.tar'), layout().archive());
    execFileSync('mkdir', [directory.at('unpacked')]);
    execFileSync('tar', ['-xf', directory.at('layout.tar'), '-C', directory.at('unpacked')]);
    execFileSync('diff', ['-r', directory.at('layout'), directory.at('unpacked')]);
    const blobs = globSync('blobs/sha256/*', { cwd: directory.at('layout') });
    assert.equal(blobs.length, 4);
    for (const path of blobs) {
      const digest = createHash('sha256').update(readFileSync(directory.at('layout', path)));
      assert.equal(path, `blobs/sha256/${digest.digest('hex')}`);
    }
  });

  test('says of a layer what it is without compression', () => {
    using directory = new TemporaryDirectory();
    layout().write(directory.path);
    const json = (digest: string) =>
      JSON.parse(readFileSync(directory.at('blobs', digest.replace(':', '/')), 'utf8')) as unknown;
    const { manifests } = JSON.parse(readFileSync(directory.at('index.json'), 'utf8')) as {
      manifests: readonly [Descriptor & { annotations: Record<string, string> }];
    };
    assert.equal(manifests[0].annotations['io.containerd.image.name'], 'registry.example/a:1');
    const { config, layers } = json(manifests[0].digest) as {
      config: Descriptor;
      layers: readonly Descriptor[];
    };
    const {
      rootfs,
      config: run,
      history,
    } = json(config.digest) as {
      rootfs: { diff_ids: readonly string[] };
      config: object;
      history: readonly object[];
    };
    assert.deepEqual(run, { User: '1:1' });
    assert.equal(history.length, 2);
    assert.deepEqual(
      layers.map(({ mediaType }) => mediaType.slice('application/vnd.oci.image.layer.v1.'.length)),
      ['tar', 'tar+gzip'],
    );
    const contents = layers.map(({ mediaType, digest }) => {
      const blob = readFileSync(directory.at('blobs', digest.replace(':', '/')));
      return mediaType.endsWith('gzip') ? gunzipSync(blob) : blob;
    });
    assert.deepEqual(contents.map(String), ['lower', 'upper']);
    assert.deepEqual(
      rootfs.diff_ids,
      contents.map((content) => `sha256:${createHash('sha256').update(content).digest('hex')}`),
    );
  });
});
